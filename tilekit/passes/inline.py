"""Leaves out what only differentiation asks about, before anything else is done with a function."""

from __future__ import annotations

from collections.abc import Iterable

from tilekit.ir.core import Function, Op
from tilekit.ir.rewrite import Rewriter


def inline(fn: Function) -> Function:
    """The function in which what stops gradients is what it is given."""
    body = Rewriter(change=_inlined).block(fn.body)
    return fn if body is fn.body else fn.with_body(body)


def _inlined(op: Op, rewriter: Rewriter) -> Iterable[Op] | None:
    if not op.builtin.stops_gradient:
        return None
    (operand,) = op.operands.values()
    rewriter.known[op.results[0]] = rewriter.operand(operand)
    return ()
