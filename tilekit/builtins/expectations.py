"""Warp's checks of values: they print a line where they fail, and the kernel goes on. ``assert`` stops it."""

from __future__ import annotations

from typing import Any

from tilekit.builtins.debug import Joined, Shown, show
from tilekit.ir.context import active
from tilekit.ir.handles import OPERATORS, Scalar
from tilekit.ir.operands import constant

__all__ = ["expect_eq", "expect_near", "expect_neq"]
GROUP = "Debugging"


def _expect(name: str, a: Any, b: Any, failed: Any, expected: str) -> None:
    if not isinstance(failed, Scalar) and not failed:
        return
    context = active()
    place = context.location() if context is not None else None
    at = f" at {place}" if place is not None else ""
    template = Joined((f"Error, {name}() failed{at}\n  {expected}: ", Shown(0), "\n  Actual: ", Shown(1), "\n"))
    show((_operand(b), _operand(a)), template, failed if isinstance(failed, Scalar) else None)


def _operand(value: Any) -> Any:
    return value if isinstance(value, Scalar) else constant(value)


def expect_eq(a: Any, b: Any) -> None:
    """Print an error unless two numbers are equal.

    Args:
        a: The actual number.
        b: The expected number, of its dtype.

    Example:
        >>> import tilekit as tk
        >>> tk.expect_eq(2, 3)
        Error, expect_eq() failed
          Expected: 3
          Actual: 2
    """
    _expect("expect_eq", a, b, OPERATORS["!="](a, b), "Expected")


def expect_neq(a: Any, b: Any) -> None:
    """Print an error if two numbers are equal.

    Args:
        a: The actual number.
        b: What it should differ from, of its dtype.

    Example:
        >>> import tilekit as tk
        >>> tk.expect_neq(2, 3)
    """
    _expect("expect_neq", a, b, OPERATORS["=="](a, b), "Expected not")


def expect_near(a: Any, b: Any, tolerance: Any = 1e-6) -> None:
    """Print an error if two numbers differ by more than a tolerance.

    Args:
        a: The actual number, floating.
        b: The expected number, of its dtype.
        tolerance: How far they may be apart, of their dtype.

    Example:
        >>> import tilekit as tk
        >>> tk.expect_near(2.0, 2.5, tolerance=1.0)
    """
    distance = OPERATORS["abs"](OPERATORS["-"](a, b))
    # Not "> tolerance", which would let NaN pass.
    _expect("expect_near", a, b, OPERATORS["not"](OPERATORS["<="](distance, tolerance)), "Expected near")
