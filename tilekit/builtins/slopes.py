"""Gradients of functions of numbers: the gradient of the result, times the slope.

Where the result has no effect its gradient is zero, as below ``where(x > 0.0, log(x), 0.0)`` at ``x = 0``. Then the
gradient of ``x`` is zero as well, although the slope is infinite or not a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilekit.ir.builtin import Builtin
from tilekit.ir.handles import OPERATORS


def only_where(condition: Any, grad: Any) -> Any:
    """A gradient where a condition holds, else zero."""
    return OPERATORS["where"](condition, grad, 0.0)


def unless(condition: Any, grad: Any) -> Any:
    """A gradient where a condition does not hold, else zero."""
    return OPERATORS["where"](condition, 0.0, grad)


def unless_zero(grad: Any, found: Any) -> Any:
    """What was computed from a gradient, zero where that is."""
    return unless(OPERATORS["=="](grad, 0.0), found)


def times(grad: Any, slope: Any) -> Any:
    """``grad * slope``, zero where the gradient is, whatever the slope."""
    return grad * slope if isinstance(slope, int | float) else unless_zero(grad, grad * slope)


def over(grad: Any, divisor: Any) -> Any:
    """``grad / divisor``, zero where the gradient is, whatever the divisor."""
    return unless_zero(grad, grad / divisor)


def by_slope(declared: Builtin, slope: Callable[[Any], Any]) -> None:
    """Give a function of one number ``x`` the adjoint rule "the gradient times the slope at ``x``"."""
    declared.adjoint(lambda cx, grad, value: {"x": lambda: times(grad, slope(cx.widen(value("x"))))})


def by_divisor(declared: Builtin, divisor: Callable[[Any], Any]) -> None:
    """As ``by_slope``, by one over the slope."""
    declared.adjoint(lambda cx, grad, value: {"x": lambda: over(grad, divisor(cx.widen(value("x"))))})


def without_slope(declared: Builtin) -> None:
    """Give a function of one number that is constant between jumps a gradient of zero."""
    declared.adjoint(lambda: {"x": 0})
