"""Minimum, maximum, magnitude, sign and steps; on tiles element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tilekit.builtins.arithmetic import Number, elementwise, same_type
from tilekit.builtins.logic import is_array
from tilekit.builtins.slopes import only_where, unless, without_slope
from tilekit.errors import KernelTypeError
from tilekit.ir.builtin import Builtin
from tilekit.ir.handles import OPERATORS, Scalar, Tile

GROUP = "Scalar math"

__all__ = ["div_approx", "lerp", "smoothstep", "unot"]


@elementwise("min", unify=("a", "b"))
def min(a: Number, b: Number) -> Number:
    """The smaller of two numbers; if one is NaN, the other; -0 is smaller than 0.

    The gradient goes to the number that is chosen, to ``b`` where they are equal, as in Warp.

    Args:
        a: A number or tile.
        b: Another of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.min(2, 3)
        2
    """


@elementwise("max", unify=("a", "b"))
def max(a: Number, b: Number) -> Number:
    """The larger of two numbers; if one is NaN, the other; 0 is larger than -0.

    The gradient goes to the number that is chosen, to ``b`` where they are equal, as in Warp.

    Args:
        a: A number or tile.
        b: Another of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.max(2, 3)
        3
    """


@elementwise(unify=("x", "low", "high"))
def clamp(x: Number, low: Number, high: Number) -> Number:
    """A number limited to a range: ``min(max(low, x), high)``, so NaN gives ``low``.

    The gradient goes to the number that is chosen: to ``x`` where it equals ``low``, to ``high`` where ``x`` equals
    that, as in Warp.

    Args:
        x: A number or tile.
        low: The least result, of its dtype.
        high: The greatest result, of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.clamp(5.0, 0.0, 1.0)
        1.0
    """


@elementwise("abs")
def abs(x: Number) -> Number:
    """The magnitude; the least integer of a dtype is its own. Its slope at 0 is 1, as in Warp.

    Args:
        x: A number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.abs(-2)
        2
    """


@elementwise()
def sign(x: Number) -> Number:
    """-1 where ``x < 0``, else 1 (also for zero and NaN). The gradient is zero.

    Args:
        x: A number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.sign(-2.0), tk.sign(0.0)
        (-1.0, 1.0)
    """


@elementwise()
def step(x: Number) -> Number:
    """1 where ``x < 0``, else 0 (also for NaN). The gradient is zero.

    Args:
        x: A number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.step(-2.0), tk.step(0.0)
        (1.0, 0.0)
    """


@elementwise()
def nonzero(x: Number) -> Number:
    """0 where ``x`` is zero, else 1 (also for NaN). The gradient is zero.

    Args:
        x: A number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.nonzero(-2.0), tk.nonzero(0.0)
        (1.0, 0.0)
    """


@elementwise(unify=("x", "y"))
def copysign(x: Number, y: Number) -> Number:
    """The magnitude of ``x`` with the sign of ``y``, whose gradient is zero.

    Args:
        x: A floating number or tile.
        y: Another of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.copysign(2.0, -0.0)
        -2.0
    """


for _declared in (min, max, clamp, abs, sign, step, nonzero):
    same_type(_declared)
same_type(copysign, "f")


def smaller(a: Any, b: Any) -> Any:
    """``min`` in NumPy."""
    found = np.fmin(a, b)
    return np.where(np.equal(a, b), np.where(np.signbit(a), a, b), found) if found.dtype.kind == "f" else found


def larger(a: Any, b: Any) -> Any:
    """``max`` in NumPy."""
    found = np.fmax(a, b)
    return np.where(np.equal(a, b), np.where(np.signbit(a), b, a), found) if found.dtype.kind == "f" else found


def _one_where(condition: Any, yes: int, no: int, x: Any) -> Any:
    """Two numbers in the dtype of ``x``."""
    return np.where(condition, yes, no).astype(np.asarray(x).dtype)


min.reference(lambda a, b: smaller(a, b))
max.reference(lambda a, b: larger(a, b))
clamp.reference(lambda x, low, high: smaller(larger(low, x), high))
abs.reference(lambda x: np.abs(x))
sign.reference(lambda x: _one_where(np.less(x, 0), -1, 1, x))
step.reference(lambda x: _one_where(np.less(x, 0), 1, 0, x))
nonzero.reference(lambda x: _one_where(np.equal(x, 0), 0, 1, x))
copysign.reference(lambda x, y: np.copysign(x, y))


def _less(a: Any, b: Any) -> Any:
    """Whether ``min`` takes ``a``: also where ``b`` is NaN."""
    return (a < b) | ((b != b) & (a == a))


def _greater(a: Any, b: Any) -> Any:
    """Whether ``max`` takes ``a``."""
    return (a > b) | ((b != b) & (a == a))


def _first_or_second(declared: Builtin, takes_first: Callable[[Any, Any], Any]) -> None:
    """The adjoint rule of a choice between two: the gradient goes to what was chosen."""

    @declared.adjoint
    def _adjoint(grad: Any, value: Any) -> dict[str, Any]:
        def first() -> Any:
            return takes_first(value("a"), value("b"))

        return {"a": lambda: only_where(first(), grad), "b": lambda: unless(first(), grad)}


_first_or_second(min, _less)
_first_or_second(max, _greater)


@clamp.adjoint
def _clamp_adjoint(grad: Any, value: Any) -> dict[str, Any]:
    def taken() -> tuple[Any, Any]:
        x, low, high = value("x"), value("low"), value("high")
        return _greater(low, x), _less(max(low, x), high)

    def chosen(of_low: bool) -> Any:
        low, inside = taken()
        return only_where(inside, only_where(low, grad) if of_low else unless(low, grad))

    return {"x": lambda: chosen(False), "low": lambda: chosen(True), "high": lambda: unless(taken()[1], grad)}


@abs.adjoint
def _abs_adjoint(grad: Any, value: Any) -> dict[str, Any]:
    return {"x": lambda: OPERATORS["where"](value("x") < 0.0, -grad, grad)}


for _declared in (sign, step, nonzero):
    without_slope(_declared)


@copysign.adjoint
def _copysign_adjoint(grad: Any, value: Any) -> dict[str, Any]:
    def magnitude() -> Any:
        same = OPERATORS["=="](copysign(1.0, value("x")), copysign(1.0, value("y")))
        return OPERATORS["where"](same, grad, -grad)

    return {"x": magnitude, "y": 0}


def _python(pair: Builtin) -> Callable[..., Any]:
    """Python's ``min`` or ``max`` in a kernel: of two or more numbers, or of what one tuple, generator, ... gives."""

    def call(*args: Any, **named: Any) -> Any:
        if named:
            raise KernelTypeError(f"{pair.name}() in a kernel takes no keywords, got {', '.join(named)}")
        one = args[0] if len(args) == 1 else None
        items = tuple(one) if isinstance(one, Iterable) and not isinstance(one, Scalar) else args
        if len(items) == 0 or (len(items) == 1 and items is args):
            raise KernelTypeError(f"{pair.name}() needs two or more numbers, or a tuple of them")
        return functools.reduce(pair, items)

    return call


OPERATORS["call.min"] = _python(min)
OPERATORS["call.max"] = _python(max)


def unot(a: Any) -> Any:
    """Warp's name for *not*: whether a number is zero or false.

    Args:
        a: A number or tile, or an array parameter, which may be None.

    Returns:
        A bool; whether there is no array.

    Example:
        >>> import tilekit as tk
        >>> tk.unot(3)
        False
    """
    return a is None if a is None or is_array(a) else OPERATORS["not"](a)


def lerp(a: Any, b: Any, t: Any) -> Any:
    """The point between two numbers: ``a * (1 - t) + b * t``.

    Args:
        a: The result at ``t = 0``, a floating number or tile.
        b: The result at ``t = 1``, of its dtype.
        t: Where between, of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.lerp(1.0, 3.0, 0.25)
        1.5
    """
    return a * (1.0 - t) + b * t


def smoothstep(a: Any, b: Any, x: Any) -> Any:
    """A smooth step from 0 at ``a`` to 1 at ``b``: ``t * t * (3 - 2 t)`` with ``t = clamp((x - a) / (b - a), 0, 1)``.

    Args:
        a: Where the step begins, a floating number or tile.
        b: Where it ends, of its dtype.
        x: The place, of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.smoothstep(0.0, 2.0, 1.0)
        0.5
    """
    t = clamp((x - a) / (b - a), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def div_approx(a: Any, b: Any) -> Any:
    """Floating division, which may be approximate; here it is exact.

    Args:
        a: A floating number or tile.
        b: Another of its dtype.

    Returns:
        Their dtype and shape.

    Raises:
        KernelTypeError: integers.

    Example:
        >>> import tilekit as tk
        >>> tk.div_approx(1.0, 4.0)
        0.25
    """
    for value in (a, b):
        if isinstance(value, Scalar | Tile) and not value.dtype.is_float:
            raise KernelTypeError(f"div_approx() needs floating operands, got {value.dtype.name}")
    return OPERATORS["/"](a, b)
