"""How often a loop runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilekit.ir.core import Const, Op

_BOUNDS = ("start", "stop", "step")


def is_counted(op: Op) -> bool:
    """Whether an op is a loop over indices."""
    return "step" in op.operands and op.builtin.carries


def trips(op: Op, look_up: Callable[[Any], Any] = lambda item: item) -> int | None:
    """How often a loop over indices runs; None of other ops, and where it is not known.

    ``look_up`` says what stands for a bound.
    """
    if not is_counted(op):
        return None
    bounds = [look_up(op.operands[name]) for name in _BOUNDS]
    if not all(isinstance(bound, Const) for bound in bounds):
        return None
    start, stop, step = (int(bound.value) for bound in bounds)
    return len(range(start, stop, step)) if step else 0
