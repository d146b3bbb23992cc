"""Leaves out what only differentiation asks about, before anything else is done with a function."""

from __future__ import annotations

from collections.abc import Iterable

from tilekit.ir.core import Function, Op
from tilekit.ir.regions import runs_once
from tilekit.ir.rewrite import Rewriter


def inline(fn: Function) -> Function:
    """The function in which calls are what they do, and what stops gradients is what it is given."""

    def inlined(op: Op, rewriter: Rewriter) -> Iterable[Op] | None:
        if op.builtin.stops_gradient:
            (operand,) = op.operands.values()
            rewriter.known[op.results[0]] = rewriter.operand(operand)
            return ()
        if not runs_once(op):
            return None
        block = op.blocks[0]
        ops = rewriter.ops(block.ops)
        rewriter.known.update(zip(op.results, map(rewriter.look_up, block.results), strict=True))
        return ops

    body = Rewriter(change=inlined).block(fn.body)
    return fn if body is fn.body else fn.with_body(body)
