"""Tell the user where something that was asked for is not what the target does."""

from __future__ import annotations

from tilekit.codegen.target import Target
from tilekit.ir.core import Function, walk
from tilekit.ir.notices import warn_at


def issue_warnings(fn: Function, target: Target) -> None:
    """Issue what the ops of a function warn of for a target, once for each line."""
    told = set()
    for op in walk(fn.body):
        found = op.builtin.apply("warns", op.operands, op.attrs, target=target) if op.builtin.has("warns") else None
        if found is not None and (op.location, found) not in told:
            told.add((op.location, found))
            category, text = found
            warn_at(category, text, op.location)
