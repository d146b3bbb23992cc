"""Exponentials, logarithms, powers and roots; on tiles element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.builtins.arithmetic import Number, elementwise, same_type
from tilekit.builtins.slopes import by_divisor, by_slope, over, times, unless_zero

GROUP = "Scalar math"


@elementwise(approximate=True)
def exp(x: Number) -> Number:
    """e to the power ``x``.

    Of float32 it is off by at most 1 unit in the last place on the CPU, and 3 on a GPU, where the bits differ.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.exp(0.0)
        1.0
    """


@elementwise(approximate=True)
def exp2(x: Number) -> Number:
    """2 to the power ``x``.

    Of float32 it is off by at most 1 unit in the last place on the CPU, and 3 on a GPU, where the bits differ.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.exp2(3.0)
        8.0
    """


@elementwise(approximate=True)
def expm1(x: Number) -> Number:
    """``exp(x) - 1``, exact also near zero.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.expm1(0.0)
        0.0
    """


@elementwise(approximate=True)
def log(x: Number) -> Number:
    """The natural logarithm; NaN below zero, minus infinity at zero.

    Of float32 it is off by at most 1 unit in the last place on the CPU, and 3 on a GPU, where the bits differ.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.log(1.0)
        0.0
    """


@elementwise(approximate=True)
def log2(x: Number) -> Number:
    """The logarithm to base 2; NaN below zero, minus infinity at zero.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.log2(8.0)
        3.0
    """


@elementwise(approximate=True)
def log10(x: Number) -> Number:
    """The logarithm to base 10; NaN below zero, minus infinity at zero.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.log10(1000.0)
        3.0
    """


@elementwise(approximate=True)
def log1p(x: Number) -> Number:
    """``log(1 + x)``, exact also near zero.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.log1p(0.0)
        0.0
    """


@elementwise()
def sqrt(x: Number) -> Number:
    """The square root, correctly rounded; NaN below zero. At zero its slope is infinite.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.sqrt(9.0)
        3.0
    """


@elementwise()
def rsqrt(x: Number) -> Number:
    """``1 / sqrt(x)``: the root and then the quotient are each rounded to nearest; NaN below zero, infinite at zero.

    It is off by at most 1.5 units in the last place, and the same bits on every device. The GPU's own approximation is
    ``tk.ptx["rsqrt.approx.f32"]``. At zero its slope is minus infinity.

    Args:
        x: A floating number or tile; float16 and bfloat16 are computed in float32 and rounded once more.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.rsqrt(4.0)
        0.5
    """


@elementwise(approximate=True)
def cbrt(x: Number) -> Number:
    """The cube root, of negative numbers too. At zero its slope is infinite.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.cbrt(-8.0)
        -2.0
    """


@elementwise("**", unify=("x", "y"), approximate=True)
def pow(x: Number, y: Number) -> Number:
    """``x`` to the power ``y``, also as ``x ** y``; NaN for ``x < 0`` unless ``y`` is an integer.

    The gradient of ``x`` is zero where ``y`` is, also at ``x = 0``. The gradient of ``y`` is zero where the result is,
    and NaN for ``x < 0``, where a power next to an integer one is not defined.

    Args:
        x: The base, a floating number or tile.
        y: The exponent, of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.pow(2.0, 3.0)
        8.0
    """


for _declared in (exp, exp2, expm1, log, log2, log10, log1p, sqrt, rsqrt, cbrt, pow):
    same_type(_declared, "f")


def in_double(function: Callable[..., Any], *values: Any) -> Any:
    """A function computed in float64, to be rounded once: nearest to what it means in any dtype."""
    return function(*(np.asarray(value, np.float64) for value in values))


exp.reference(lambda x: in_double(np.exp, x))
exp2.reference(lambda x: in_double(np.exp2, x))
expm1.reference(lambda x: in_double(np.expm1, x))
log.reference(lambda x: in_double(np.log, x))
log2.reference(lambda x: in_double(np.log2, x))
log10.reference(lambda x: in_double(np.log10, x))
log1p.reference(lambda x: in_double(np.log1p, x))
sqrt.reference(lambda x: in_double(np.sqrt, x))
cbrt.reference(lambda x: in_double(np.cbrt, x))


@rsqrt.reference
def _rsqrt(x: Any) -> Any:
    """Both steps in float64 or float32, as the native function does them."""
    dtype: Any = np.float64 if np.asarray(x).dtype == np.float64 else np.float32
    return dtype(1.0) / np.sqrt(np.asarray(x, dtype))


# Not np.power, which takes a square root where the exponent is 0.5, whatever the sign of the base.
pow.reference(lambda x, y: in_double(np.float_power, x, y))


by_slope(exp, lambda x: exp(x))
by_slope(exp2, lambda x: exp2(x) * math.log(2.0))
by_slope(expm1, lambda x: exp(x))
by_divisor(log, lambda x: x)
by_divisor(log2, lambda x: x * math.log(2.0))
by_divisor(log10, lambda x: x * math.log(10.0))
by_divisor(log1p, lambda x: x + 1.0)
by_divisor(sqrt, lambda x: sqrt(x) * 2.0)
by_slope(rsqrt, lambda x: rsqrt(x) / x * -0.5)


@cbrt.adjoint
def _cbrt_adjoint(cx: Any, grad: Any, value: Any) -> dict[str, Any]:
    def slope() -> Any:
        root = cbrt(cx.widen(value("x")))
        return over(grad, root * root * 3.0)

    return {"x": slope}


@pow.adjoint
def _pow_adjoint(cx: Any, grad: Any, value: Any) -> dict[str, Any]:
    def base() -> Any:
        x, y = cx.widen(value("x")), cx.widen(value("y"))
        slope = y * pow(x, y - 1.0)
        if isinstance(y, int | float):
            return times(grad, slope) if y else 0
        return times(grad, unless_zero(y, slope))

    def exponent() -> Any:
        x, y = cx.widen(value("x")), cx.widen(value("y"))
        power = pow(x, y)
        return times(grad, unless_zero(power, power * log(x)))

    return {"x": base, "y": exponent}
