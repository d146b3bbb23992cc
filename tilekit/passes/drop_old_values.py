"""Atomic updates whose results nothing needs become ops without results: no memory is kept for those."""

from __future__ import annotations

from tilekit.ir.builtin import REGISTRY
from tilekit.ir.core import Function, Op, leaves, walk
from tilekit.ir.rewrite import replace_ops


def drop_old_values(fn: Function) -> Function:
    """The function with each op that does the same without its result, where nothing needs that, so replaced."""
    bodies = [fn.body, *(block for op in walk(fn.body) for block in op.blocks)]
    used = {value for body in bodies for op in body.ops for value in op.inputs()}
    used |= {value for body in bodies for value in leaves(body.results)}
    dropped: dict[Op, tuple[Op, ...]] = {}
    for op in walk(fn.body):
        if op.builtin.unused is not None and used.isdisjoint(op.results):
            dropped[op] = (op.with_(builtin=REGISTRY[op.builtin.unused], results=()),)
    return fn.with_body(replace_ops(fn.body, dropped)) if dropped else fn
