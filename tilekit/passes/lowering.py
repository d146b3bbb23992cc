"""What a rule such as ``lower`` makes of an op: ops that are more concrete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilekit.errors import VerificationError
from tilekit.ir.context import Builder, using
from tilekit.ir.core import Function, Op, map_operand, walk
from tilekit.ir.handles import wrap
from tilekit.ir.operands import operand_of
from tilekit.ir.rewrite import Rewriter
from tilekit.passes.fold_constants import typed


def lowered(
    op: Op, operands: Mapping[str, Any], rule: str = "lower", **leading: Any
) -> tuple[list[Op], tuple[Any, ...]]:
    """The ops that the rule records on handles of the operands, and what stands for each result.

    Raises:
        VerificationError: the rule gives results of other types than the op has.
    """
    given = {name: map_operand(operand, wrap) for name, operand in operands.items()}
    with using(Builder(locate=lambda: op.location)) as builder:
        found = op.builtin.apply(rule, given, op.attrs, **leading)
        handles = () if found is None else found if isinstance(found, tuple) else (found,)
        data = tuple(operand_of(handle, f"what {op.builtin.name}.{rule} gives") for handle in handles)
    types = [str(item.type) for item in data]
    if types != [str(result.type) for result in op.results]:
        made = ", ".join(types) or "nothing"
        wanted = ", ".join(str(result.type) for result in op.results) or "nothing"
        raise VerificationError(f"{op.builtin.name}.{rule} gives {made}, not {wanted}", op.location)
    return builder.ops, tuple(typed(item, result.type) for item, result in zip(data, op.results, strict=True))


def lower_where(fn: Function, wanted: Callable[[Op], bool]) -> Function:
    """The function with those ops lowered that have a rule, are not of single lanes, and are wanted."""

    def lowers(op: Op) -> bool:
        own = op.builtin
        return own.has("lower") and not (own.lane or own.per_lane) and wanted(op)

    def change(op: Op, rewriter: Rewriter) -> Any:
        if not lowers(op):
            return None
        operands = {name: rewriter.operand(operand) for name, operand in op.operands.items()}
        ops, data = lowered(op, operands)
        made = rewriter.ops(ops)  # which may have rules themselves
        rewriter.known.update(zip(op.results, map(rewriter.look_up, data), strict=True))
        return made

    return fn.with_body(Rewriter(change=change).block(fn.body)) if any(map(lowers, walk(fn.body))) else fn
