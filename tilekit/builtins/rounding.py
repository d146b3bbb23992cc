"""Rounding of floats to integers, exact; on tiles element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.builtins.arithmetic import Number, elementwise, same_type
from tilekit.builtins.slopes import without_slope
from tilekit.errors import KernelTypeError
from tilekit.ir.handles import OPERATORS

GROUP = "Scalar math"


@elementwise()
def floor(x: Number) -> Number:
    """The greatest integer that is not above ``x``, as a float. The gradient is zero.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.floor(-1.5)
        -2.0
    """


@elementwise()
def ceil(x: Number) -> Number:
    """The least integer that is not below ``x``, as a float. The gradient is zero.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.ceil(-1.5)
        -1.0
    """


@elementwise()
def trunc(x: Number) -> Number:
    """The integer part, as a float: rounded toward zero. The gradient is zero.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.trunc(-1.5)
        -1.0
    """


@elementwise()
def round(x: Number) -> Number:
    """The nearest integer, as a float; halves go away from zero. Python's ``round`` in a kernel means this.

    The gradient is zero.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.round(2.5), tk.round(-2.5)
        (3.0, -3.0)
    """


@elementwise()
def rint(x: Number) -> Number:
    """The nearest integer, as a float; halves go to the even one. The gradient is zero.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.rint(2.5), tk.rint(3.5)
        (2.0, 4.0)
    """


@elementwise()
def frac(x: Number) -> Number:
    """What is left of ``x`` without its integer part; it has the sign of ``x``. Its slope is 1, at integers too.

    Args:
        x: A floating number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.frac(-1.25)
        -0.25
    """


for _declared in (floor, ceil, trunc, round, rint, frac):
    same_type(_declared, "f")

floor.reference(lambda x: np.floor(x))
ceil.reference(lambda x: np.ceil(x))
trunc.reference(lambda x: np.trunc(x))
rint.reference(lambda x: np.rint(x))
frac.reference(lambda x: x - np.trunc(x))


@round.reference
def _round(x: Any) -> Any:
    whole = np.trunc(np.abs(x))
    return np.copysign(np.where(np.abs(x) - whole >= 0.5, whole + 1, whole), x)


for _declared in (floor, ceil, trunc, round, rint):
    without_slope(_declared)
frac.adjoint(lambda grad: {"x": grad})


def python_round(x: Any, ndigits: Any = None) -> Any:
    """``round(x)`` in a kernel: as ``tk.round``, a float, whether ``x`` is known at compile time or not."""
    if ndigits is not None:
        raise KernelTypeError("round() in a kernel takes one number; scale it to round to other places")
    return float(round(x)) if isinstance(x, int) else round(x)


OPERATORS["call.round"] = python_round
