"""What ops compute, as keys that are equal for ops that compute alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilekit.ir.core import Block, Const, Op, Value

Outer = Callable[[Value], Any]
"""The key of a value from outside an op."""


def op_key(op: Op, outer: Outer, inside: Mapping[Value, int] | None = None) -> Any:
    """The key of an op: all of it but its place and the names of its results; ``inside`` numbers the values of blocks
    around it."""
    inside = inside or {}
    operands = tuple((name, operand_key(operand, outer, inside)) for name, operand in op.operands.items())
    attrs = tuple((name, _attribute(value)) for name, value in op.attrs.items())
    blocks = tuple(_block(block, outer, inside) for block in op.blocks)
    return op.builtin, operands, attrs, blocks, tuple(result.type for result in op.results)


def operand_key(operand: Any, outer: Outer, inside: Mapping[Value, int] | None = None) -> Any:
    """The key of an operand."""
    if isinstance(operand, tuple):
        return tuple(operand_key(item, outer, inside) for item in operand)
    if isinstance(operand, Value):
        return ("inside", inside[operand]) if inside and operand in inside else outer(operand)
    # 0.0 is not -0.0, and no NaN is equal to itself
    return (operand.type.dtype, repr(operand.value)) if isinstance(operand, Const) else operand


def _block(block: Block, outer: Outer, around: Mapping[Value, int]) -> Any:
    inside = dict(around)

    def define(values: Iterable[Value]) -> None:
        for value in values:
            inside[value] = len(inside)

    define(block.params)
    ops = []
    for op in block.ops:
        ops.append(op_key(op, outer, inside))
        define(op.results)
    return tuple(param.type for param in block.params), tuple(ops), operand_key(block.results, outer, inside)


def _attribute(value: Any) -> Any:
    """An attribute such that 1, 1.0 and True differ; what has no hash is like itself alone."""
    if isinstance(value, tuple):
        return tuple(map(_attribute, value))
    try:
        hash(value)
    except TypeError:
        return object()
    return type(value), repr(value) if isinstance(value, float) else value
