"""Comparisons of numbers; on tiles element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.builtins.arithmetic import Number, elementwise
from tilekit.ir.builtin import Builtin
from tilekit.ir.types import ScalarType, bool_

GROUP = "Scalar math"


def _comparison(operator: str) -> Callable[..., Builtin]:
    def declare(signature: Callable[..., Any]) -> Builtin:
        found = elementwise(operator, unify=("a", "b"))(signature)

        @found.result
        def _result(a: ScalarType, b: ScalarType) -> ScalarType:
            return ScalarType(bool_)

        return found

    return declare


@_comparison("<")
def lt(a: Number, b: Number) -> Number:
    """Whether ``a < b``; false where one is NaN.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A bool, or a tile of bools where one of them is a tile.

    Example:
        >>> import tilekit as tk
        >>> tk.lt(1, 2)
        True
    """


@_comparison("<=")
def le(a: Number, b: Number) -> Number:
    """Whether ``a <= b``; false where one is NaN.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A bool, or a tile of bools where one of them is a tile.

    Example:
        >>> import tilekit as tk
        >>> tk.le(2, 2)
        True
    """


@_comparison(">")
def gt(a: Number, b: Number) -> Number:
    """Whether ``a > b``; false where one is NaN.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A bool, or a tile of bools where one of them is a tile.

    Example:
        >>> import tilekit as tk
        >>> tk.gt(1, 2)
        False
    """


@_comparison(">=")
def ge(a: Number, b: Number) -> Number:
    """Whether ``a >= b``; false where one is NaN.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A bool, or a tile of bools where one of them is a tile.

    Example:
        >>> import tilekit as tk
        >>> tk.ge(1, 2)
        False
    """


@_comparison("==")
def eq(a: Number, b: Number) -> Number:
    """Whether ``a`` equals ``b``; false where one is NaN.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A bool, or a tile of bools where one of them is a tile.

    Example:
        >>> import tilekit as tk
        >>> tk.eq(1, 2)
        False
    """


@_comparison("!=")
def ne(a: Number, b: Number) -> Number:
    """Whether ``a`` differs from ``b``; true where one is NaN.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A bool, or a tile of bools where one of them is a tile.

    Example:
        >>> import tilekit as tk
        >>> tk.ne(1, 2)
        True
    """


lt.reference(lambda a, b: np.less(a, b))
le.reference(lambda a, b: np.less_equal(a, b))
gt.reference(lambda a, b: np.greater(a, b))
ge.reference(lambda a, b: np.greater_equal(a, b))
eq.reference(lambda a, b: np.equal(a, b))
ne.reference(lambda a, b: np.not_equal(a, b))
