"""Lower what no device has code for."""

from __future__ import annotations

from tilekit.ir.core import Function
from tilekit.passes.compose_views import compose_views
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.lowering import lower_where


def legalize(fn: Function) -> Function:
    """The function in which every builtin with a ``lower`` rule is the ops that it stands for."""
    made = lower_where(fn, lambda op: True)
    return fn if made is fn else eliminate_dead_code(compose_views(made))
