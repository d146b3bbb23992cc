"""Constants, and what is evaluated while a kernel is compiled."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError
from tilekit.ir.handles import Array, Scalar, Tile
from tilekit.ir.operands import describe

GROUP = "Compile time"

E = e = math.e
"""Euler's number."""
LOG2E = log2e = 1.4426950408889634
"""The logarithm of e to base 2."""
LOG10E = log10e = 0.4342944819032518
"""The logarithm of e to base 10."""
LN2 = ln2 = 0.6931471805599453
"""The natural logarithm of 2."""
LN10 = ln10 = 2.302585092994046
"""The natural logarithm of 10."""
PHI = phi = 1.618033988749895
"""The golden ratio."""
PI = pi = math.pi
"""Half a turn in radians."""
HALF_PI = half_pi = math.pi / 2
"""A quarter turn in radians."""
TAU = tau = math.tau
"""A whole turn in radians."""
INF = inf = math.inf
"""Infinity."""
NAN = nan = math.nan
"""Not a number."""

__all__ = [
    *(name for name, value in tuple(globals().items()) if isinstance(value, float)),
    "constant",
    "static",
    "static_range",
]
GROUP = "Constants"


def constant(x: Any) -> Any:
    """Declare a constant that kernels may use. Any number, string, dtype or tuple of them is one without this, too.

    Args:
        x: The value.

    Returns:
        ``x``.

    Raises:
        KernelTypeError: an array, list or dict, whose elements may change.

    Example:
        >>> import tilekit as tk
        >>> TILE = tk.constant(64)
        >>> TILE
        64
    """
    changes = isinstance(x, list | set | Mapping) or hasattr(x, "__array_interface__")
    if changes and not isinstance(x, np.generic):
        raise KernelTypeError(
            f"a {type(x).__name__} is not a constant, because its elements may change; use a tuple or numbers"
        )
    return x


def _holds_traced(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_holds_traced, value))
    return isinstance(value, Scalar | Tile | Array)


def static(expr: Any) -> Any:
    """Evaluate an expression as plain Python while the kernel is compiled: ``tk.static(7 / 2)`` is 3.5.

    Args:
        expr: An expression of constants.

    Returns:
        Its value: a number, string, dtype, function or anything else that is known at compile time.

    Raises:
        KernelTypeError: the expression depends on the kernel's arguments.

    Example:
        >>> import tilekit as tk
        >>> tk.static(sum(range(4)))
        6
    """
    if _holds_traced(expr):
        raise KernelTypeError(f"static() needs an expression that is known at compile time, got {_shown(expr)}")
    return expr


def _shown(expr: Any) -> str:
    return "a tuple of run-time values" if isinstance(expr, tuple | list) else describe(expr)


def static_range(*bounds: Any) -> range:
    """A ``range`` over which a loop is always unrolled, however long.

    Args:
        bounds: ``stop``, or ``start, stop``, or ``start, stop, step``: compile-time integers.

    Returns:
        The range; in ``for i in tk.static_range(n)`` each ``i`` is a compile-time constant.

    Raises:
        KernelTypeError: a bound is a run-time value or no integer.

    Example:
        >>> import tilekit as tk
        >>> list(tk.static_range(1, 4))
        [1, 2, 3]
    """
    if not 1 <= len(bounds) <= 3:
        raise KernelTypeError(f"static_range() takes 1 to 3 arguments, got {len(bounds)}")
    for bound in bounds:
        if isinstance(bound, Scalar | Tile | Array) or not hasattr(bound, "__index__"):
            raise KernelTypeError(f"static_range() needs compile-time integers, got {describe(bound)}; use range(...)")
    return range(*map(operator.index, bounds))
