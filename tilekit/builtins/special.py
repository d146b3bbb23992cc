"""Error functions and the classification of floats; on tiles element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.builtins.arithmetic import Number, elementwise, same_type
from tilekit.builtins.exponential import in_double
from tilekit.builtins.slopes import by_divisor, by_slope
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.types import ScalarType, bool_

GROUP = "Scalar math"


@elementwise(approximate=True)
def erf(x: Number) -> Number:
    """The error function.

    Of float32 it is off by at most 2 units in the last place on the CPU, and 8 on a GPU, where the bits differ.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.erf(0.0)
        0.0
    """


@elementwise(approximate=True)
def erfc(x: Number) -> Number:
    """The complement of the error function, ``1 - erf(x)``, exact also where it is tiny.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.erfc(0.0)
        1.0
    """


@elementwise(approximate=True)
def erfinv(x: Number) -> Number:
    """The number whose error function is ``x``; infinite at -1 and 1, NaN beyond.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.erfinv(0.0)
        0.0
    """


@elementwise(approximate=True)
def erfcinv(x: Number) -> Number:
    """The number whose ``erfc`` is ``x``; infinite at 0 and 2, NaN outside.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.erfcinv(1.0)
        0.0
    """


@elementwise()
def isnan(a: Number) -> Number:
    """Whether a number is NaN.

    Args:
        a: A number or tile; integers are finite.

    Returns:
        A bool.

    Example:
        >>> import tilekit as tk
        >>> tk.isnan(tk.NAN)
        True
    """


@elementwise()
def isinf(a: Number) -> Number:
    """Whether a number is infinite, of either sign.

    Args:
        a: A number or tile; integers are finite.

    Returns:
        A bool.

    Example:
        >>> import tilekit as tk
        >>> tk.isinf(-tk.INF)
        True
    """


@elementwise()
def isfinite(a: Number) -> Number:
    """Whether a number is neither NaN nor infinite.

    Args:
        a: A number or tile; integers are finite.

    Returns:
        A bool.

    Example:
        >>> import tilekit as tk
        >>> tk.isfinite(1.0)
        True
    """


for _declared in (erf, erfc, erfinv, erfcinv):
    same_type(_declared, "f")


@isnan.result
@isinf.result
@isfinite.result
def _is_result(a: ScalarType) -> ScalarType:
    return ScalarType(bool_)


isnan.reference(lambda a: np.isnan(a))
isinf.reference(lambda a: np.isinf(a))
isfinite.reference(lambda a: np.isfinite(a))


def _each(function: Callable[[float], float]) -> Callable[[Any], Any]:
    return lambda x: in_double(np.vectorize(function, otypes=[np.float64]), x)


def inverse_erf(x: float) -> float:
    """The number whose error function is ``x``, by Newton's method."""
    if not abs(x) < 1.0:
        return math.copysign(math.inf, x) if abs(x) == 1.0 else math.nan
    if abs(x) > 0.5:
        return math.copysign(inverse_erfc(1.0 - abs(x)), x)
    z = x
    for _ in range(12):
        z -= (math.erf(z) - x) * math.exp(z * z) * _SLOPE
    return z if x else x


def inverse_erfc(y: float) -> float:
    """The number whose complementary error function is ``y``, by bisection, then Newton's method on its logarithm."""
    if not 0.0 < y < 2.0:
        return {0.0: math.inf, 2.0: -math.inf}.get(y, math.nan)
    if y >= 0.5:
        return inverse_erf(1.0 - y) if y <= 1.5 else -inverse_erfc(2.0 - y)
    low, high = 0.0, 28.0
    for _ in range(64):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if math.erfc(middle) > y else (low, middle)
    z = 0.5 * (low + high)
    for _ in range(4):
        if y > 1e-290:
            value = math.erfc(z)
            z += value * math.exp(z * z) * _SLOPE * math.log(value / y)
        else:  # exp(z * z) is infinite, and erfc(z) has few digits
            z += (_log_erfc(z) - math.log(y)) / (2.0 * z + 1.0 / z)
    return z


def _log_erfc(z: float) -> float:
    """The logarithm of ``erfc(z)``, for a large one."""
    u = 0.5 / (z * z)
    series = 1.0 - u * (1.0 - 3.0 * u * (1.0 - 5.0 * u * (1.0 - 7.0 * u)))
    return -z * z + math.log(series / (z * math.sqrt(math.pi)))


_SLOPE = math.sqrt(math.pi) / 2.0
erf.reference(lambda x: _each(math.erf)(x))
erfc.reference(lambda x: _each(math.erfc)(x))
erfinv.reference(lambda x: _each(inverse_erf)(x))
erfcinv.reference(lambda x: _each(inverse_erfc)(x))


def _bell(x: Any) -> Any:
    """The slope of the error function."""
    return REGISTRY["exp"](-(x * x)) / _SLOPE


by_slope(erf, lambda x: _bell(x))
by_slope(erfc, lambda x: -_bell(x))
by_divisor(erfinv, lambda x: _bell(erfinv(x)))
by_divisor(erfcinv, lambda x: -_bell(erfcinv(x)))
