"""Angles and hyperbolic functions; on tiles element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilekit.builtins.arithmetic import Number, elementwise, same_type
from tilekit.builtins.exponential import in_double
from tilekit.builtins.slopes import by_divisor, by_slope, only_where, over, times
from tilekit.ir.builtin import REGISTRY

GROUP = "Scalar math"


@elementwise(approximate=True)
def sin(x: Number) -> Number:
    """The sine of an angle in radians.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.sin(0.0)
        0.0
    """


@elementwise(approximate=True)
def cos(x: Number) -> Number:
    """The cosine of an angle in radians.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.cos(0.0)
        1.0
    """


@elementwise(approximate=True)
def tan(x: Number) -> Number:
    """The tangent of an angle in radians.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.tan(0.0)
        0.0
    """


@elementwise(approximate=True)
def asin(x: Number) -> Number:
    """The angle in ``[-pi/2, pi/2]`` whose sine is ``x``, which is limited to ``[-1, 1]`` as in Warp.

    The gradient is zero at -1 and 1 and beyond, as in Warp.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.asin(0.0)
        0.0
    """


@elementwise(approximate=True)
def acos(x: Number) -> Number:
    """The angle in ``[0, pi]`` whose cosine is ``x``, which is limited to ``[-1, 1]`` as in Warp.

    The gradient is zero at -1 and 1 and beyond, as in Warp.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.acos(1.0)
        0.0
    """


@elementwise(approximate=True)
def atan(x: Number) -> Number:
    """The angle in ``[-pi/2, pi/2]`` whose tangent is ``x``.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.atan(0.0)
        0.0
    """


@elementwise(unify=("y", "x"), approximate=True)
def atan2(y: Number, x: Number) -> Number:
    """The angle in ``[-pi, pi]`` of the point ``(x, y)``. At ``(0, 0)`` its gradient is zero, as in Warp.

    Args:
        y: A floating number or tile.
        x: Another of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.atan2(0.0, 1.0)
        0.0
    """


@elementwise(approximate=True)
def sinh(x: Number) -> Number:
    """The hyperbolic sine.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.sinh(0.0)
        0.0
    """


@elementwise(approximate=True)
def cosh(x: Number) -> Number:
    """The hyperbolic cosine.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.cosh(0.0)
        1.0
    """


@elementwise(approximate=True)
def tanh(x: Number) -> Number:
    """The hyperbolic tangent.

    Of float32 it is off by at most 2 units in the last place on the CPU, and 8 on a GPU, where the bits differ.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.tanh(0.0)
        0.0
    """


@elementwise(approximate=True)
def asinh(x: Number) -> Number:
    """The inverse hyperbolic sine.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.asinh(0.0)
        0.0
    """


@elementwise(approximate=True)
def acosh(x: Number) -> Number:
    """The inverse hyperbolic cosine; NaN below 1. At 1 its slope is infinite.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.acosh(1.0)
        0.0
    """


@elementwise(approximate=True)
def atanh(x: Number) -> Number:
    """The inverse hyperbolic tangent; NaN outside ``[-1, 1]``. At -1 and 1 its slope is infinite.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.atanh(0.0)
        0.0
    """


@elementwise()
def degrees(x: Number) -> Number:
    """An angle in radians, in degrees.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.degrees(tk.PI)
        180.0
    """


@elementwise()
def radians(x: Number) -> Number:
    """An angle in degrees, in radians.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.radians(180.0) == tk.PI
        True
    """


for _declared in (sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh, asinh, acosh, atanh, degrees, radians):
    same_type(_declared, "f")

sin.reference(lambda x: in_double(np.sin, x))
cos.reference(lambda x: in_double(np.cos, x))
tan.reference(lambda x: in_double(np.tan, x))
asin.reference(lambda x: in_double(lambda value: np.arcsin(np.clip(value, -1, 1)), x))
acos.reference(lambda x: in_double(lambda value: np.arccos(np.clip(value, -1, 1)), x))
atan.reference(lambda x: in_double(np.arctan, x))
atan2.reference(lambda y, x: in_double(np.arctan2, y, x))
sinh.reference(lambda x: in_double(np.sinh, x))
cosh.reference(lambda x: in_double(np.cosh, x))
tanh.reference(lambda x: in_double(np.tanh, x))
asinh.reference(lambda x: in_double(np.arcsinh, x))
acosh.reference(lambda x: in_double(np.arccosh, x))
atanh.reference(lambda x: in_double(np.arctanh, x))


def _scaled(x: Any, factor: float) -> Any:
    """One multiplication in float64 or float32, as the native functions do it."""
    dtype: Any = np.float64 if np.asarray(x).dtype == np.float64 else np.float32
    return np.asarray(x, dtype) * dtype(factor)


degrees.reference(lambda x: _scaled(x, 180.0 / math.pi))
radians.reference(lambda x: _scaled(x, math.pi / 180.0))


by_slope(sin, lambda x: cos(x))
by_slope(cos, lambda x: -sin(x))
by_slope(tan, lambda x: 1.0 + tan(x) * tan(x))
by_slope(asin, lambda x: _arc_slope(x))
by_slope(acos, lambda x: -_arc_slope(x))
by_divisor(atan, lambda x: 1.0 + x * x)
by_slope(sinh, lambda x: cosh(x))
by_slope(cosh, lambda x: sinh(x))
by_slope(tanh, lambda x: 1.0 - tanh(x) * tanh(x))
by_divisor(acosh, lambda x: REGISTRY["sqrt"](x - 1.0) * REGISTRY["sqrt"](x + 1.0))
by_divisor(atanh, lambda x: (1.0 - x) * (1.0 + x))
by_slope(degrees, lambda x: 180.0 / math.pi)
by_slope(radians, lambda x: math.pi / 180.0)


def _arc_slope(x: Any) -> Any:
    """The slope of the arc sine: zero from where ``x`` is limited."""
    return only_where(abs(x) < 1.0, 1.0 / REGISTRY["sqrt"]((1.0 - x) * (1.0 + x)))


@asinh.adjoint
def _asinh_adjoint(cx: Any, grad: Any, value: Any) -> dict[str, Any]:
    def slope() -> Any:
        x = cx.widen(value("x"))
        size = REGISTRY["max"](abs(x), 1.0)  # sqrt(1 + x * x), whose square need not overflow
        one, scaled = 1.0 / size, x / size
        return over(grad, size * REGISTRY["sqrt"](one * one + scaled * scaled))

    return {"x": slope}


@atan2.adjoint
def _atan2_adjoint(cx: Any, grad: Any, value: Any) -> dict[str, Any]:
    def slope(this: str, other: str, sign: float) -> Any:
        a, b = cx.widen(value(this)), cx.widen(value(other))
        size = REGISTRY["max"](abs(a), abs(b))  # the squares of what is divided by it neither overflow nor vanish
        a, b = a / size, b / size
        return times(grad, only_where((size > 0.0) & (size < math.inf), sign * b / (a * a + b * b) / size))

    return {"y": lambda: slope("y", "x", 1.0), "x": lambda: slope("x", "y", -1.0)}
