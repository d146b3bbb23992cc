"""Reverses an op that runs a block for each element: the block's own adjoint, run for each element again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import building
from tilekit.ir.core import Block, Const, Function, Op, Value, used_values
from tilekit.ir.gradients import gradient_dtype
from tilekit.ir.handles import wrap
from tilekit.ir.regions import arguments
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import ScalarType, TileType
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.scope import Scope

Record = Callable[[Block, tuple[Value, ...]], Any]
"""Records the op for a block of some of the forward block's parameters, and last the gradient of the result."""


def reverse_elements(
    scope: Scope, op: Op, reverse: Callable[[Scope], None], varied: set[Value], record: Record
) -> dict[Value, Any]:
    """The gradients of an op's block, as tiles: by parameter, and by value that it captures.

    An op has one result, so each gradient gets an op, without what that does not need; and one more does what the block
    does to gradient arrays.

    Raises:
        KernelNotImplementedError: the block reads elements of a tile of the kernel around it.
    """
    (block,) = op.blocks
    params = {param: Value(param.type, param.hint) for param in block.params}
    type = ScalarType(gradient_dtype(op.results[0].type.dtype))
    seed = Value(type)
    with building() as builder:
        inner = Scope(scope, block, builder, dict(params), element=True)
        inner.seed(block.results[:1], [wrap(seed)], varied)
        reverse(inner)
        taken = dict(arguments(op))
        wanted = [param for param in params if any(item in varied for item in taken[param])]
        captured = [value for value in inner.grads if value not in params]
        for value in captured:
            if isinstance(value.type, TileType):
                raise _reads_a_tile(op, value)
        found = {value: inner.take_datum(value) for value in (*wanted, *captured)}
    back = {copy: param for param, copy in params.items()}

    def make(ops: Iterable[Op], result: Any) -> Any:
        cleaned = eliminate_dead_code(Function("", {}, Block((*back, seed), tuple(ops), (result,)))).body
        used = used_values(cleaned)
        needed = [copy for copy in back if copy in used]
        renewed = Rewriter(fresh=True).block(Block((*needed, seed), cleaned.ops, cleaned.results))
        return record(renewed, tuple(back[copy] for copy in needed))

    if any(item.has_effect for item in builder.ops):
        make(builder.ops, Const(type, 0.0))
    quiet = Rewriter(change=_without_effect).ops(builder.ops)
    return {value: make(quiet, datum) for value, datum in found.items()}


def _without_effect(op: Op, rewriter: Rewriter) -> tuple[Op, ...] | None:
    return () if op.has_effect and not op.blocks else None


def _reads_a_tile(op: Op, tile: Value) -> KernelNotImplementedError:
    return KernelNotImplementedError(
        f"cannot differentiate through {op.written}: its function reads elements of a {tile.type} of the "
        "kernel around it; pass that as an argument, or load the elements from an array",
        op.location,
    )
