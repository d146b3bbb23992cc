"""Atomic updates whose results nothing needs become ops without results: no memory is kept for those."""

from __future__ import annotations

from tilekit.ir.builtin import REGISTRY
from tilekit.ir.core import Function, Op, used_values, walk
from tilekit.ir.rewrite import replace_ops


def drop_old_values(fn: Function) -> Function:
    """The function with each op that does the same without its result, where nothing needs that, so replaced."""
    used = used_values(fn.body)
    dropped: dict[Op, tuple[Op, ...]] = {}
    for op in walk(fn.body):
        if op.builtin.unused is not None and used.isdisjoint(op.results):
            dropped[op] = (op.with_(builtin=REGISTRY[op.builtin.unused], results=()),)
    return fn.with_body(replace_ops(fn.body, dropped)) if dropped else fn
