"""Copies of ops that compute a value again, without the effects around them."""

from __future__ import annotations

from collections.abc import Callable

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import Builder
from tilekit.ir.core import Block, Const, Op, Value, map_operand

LookUp = Callable[[Value], Value]


def repeat(op: Op, look_up: LookUp, builder: Builder) -> tuple[Value, ...]:
    """Record a copy of an op; ``look_up`` gives what its operands are in the new place.

    Raises:
        KernelNotImplementedError: the op has an effect that must not happen twice.
    """
    if op.has_effect and not op.blocks:
        raise _unrepeatable(op)
    for block in op.blocks:
        for value in block.free:
            look_up(value)
    copied = _copy(op, look_up)
    builder.ops.append(copied)
    return copied.results


def _unrepeatable(op: Op) -> KernelNotImplementedError:
    return KernelNotImplementedError(
        f"the gradient needs the result of {op.builtin.spelled} again, and running that twice would change memory",
        op.location,
    )


def _copy(op: Op, look_up: LookUp) -> Op:
    def change(item: Value | Const) -> Value | Const:
        return look_up(item) if isinstance(item, Value) else item

    operands = {name: map_operand(operand, change) for name, operand in op.operands.items()}
    blocks = tuple(_copy_block(block, look_up) for block in op.blocks)
    return op.with_(operands=operands, blocks=blocks, results=tuple(Value(v.type, v.hint) for v in op.results))


def _copy_block(block: Block, outer: LookUp) -> Block:
    inside = {param: Value(param.type, param.hint) for param in block.params}
    dropped: dict[Value, Op] = {}

    def look_up(value: Value) -> Value:
        if value in dropped:
            raise _unrepeatable(dropped[value])
        return inside[value] if value in inside else outer(value)

    ops = []
    for op in block.ops:
        if op.has_effect and not op.blocks:
            dropped.update(dict.fromkeys(op.results, op))
            continue
        copied = _copy(op, look_up)
        inside.update(zip(op.results, copied.results, strict=True))
        ops.append(copied)
    results = tuple(look_up(result) if isinstance(result, Value) else result for result in block.results)
    return Block(tuple(inside[param] for param in block.params), tuple(ops), results)
