"""Lower what has no gradient of its own, so that it has that of what it is made of."""

from __future__ import annotations

from tilekit.ir.core import Function
from tilekit.passes.lowering import lower_where


def expand(fn: Function) -> Function:
    """The function in which builtins with a ``lower`` rule and no ``adjoint`` rule are the ops that they stand for.

    What differs between lanes stays, until it is known how many there are (``form_lanes``).
    """
    return lower_where(fn, lambda op: not op.builtin.has("adjoint"))
