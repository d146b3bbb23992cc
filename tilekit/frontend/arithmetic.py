"""Operators between numbers that are known while a kernel is compiled: by the rules of run-time values, and folded."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.errors import KernelValueError
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.context import Concrete, fail, using
from tilekit.ir.handles import OPERATORS, Scalar

PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "|": operator.or_,
    "^": operator.xor, "&": operator.and_, "@": operator.matmul,
}  # fmt: skip


ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _have_a_dtype(a: Any, b: Any) -> bool:
    """Whether both are numbers and one of them knows its dtype: a cast, or NumPy's or Warp's number."""
    return (isinstance(a, np.number) or isinstance(b, np.number)) and _is_number(a) and _is_number(b)


def _typed(symbol: str, a: Any, b: Any) -> Any:
    with using(None):  # at once, not recorded
        result = OPERATORS[symbol](a, b)
    return result.datum.data if isinstance(result, Scalar) and isinstance(result.datum, Concrete) else result


def _carried_zero(a: Any, b: Any) -> bool:
    """Whether the divisor is zero only as long as the loop has not begun that carries it: a run-time zero."""
    return _is_number(a) and _is_number(b) and b == 0


def binary(symbol: str, a: Any, b: Any, carried: bool = False) -> Any:
    """``a + b`` and its kin, but for ``/`` and ``%``; ``carried`` where the loop whose test this is assigns ``b``."""
    if carried and _carried_zero(a, b):
        return _typed(symbol, a, b)
    return _typed(symbol, a, b) if _have_a_dtype(a, b) else PLAIN[symbol](a, b)


def ordered(symbol: str, a: Any, b: Any) -> Any:
    """``a < b`` and its kin."""
    return _typed(symbol, a, b) if _have_a_dtype(a, b) else ORDER[symbol](a, b)


def div(a: Any, b: Any, carried: bool = False) -> Any:
    """``a / b``: between integers, truncated as in Warp and C++."""
    if isinstance(a, int) and isinstance(b, int) and not isinstance(a, bool) and not (carried and b == 0):
        if b == 0:
            raise fail(KernelValueError("division of a constant by zero"))
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return binary("/", a, b, carried)


def mod(a: Any, b: Any, carried: bool = False) -> Any:
    """``a % b`` with the sign of the dividend, as in Warp and C++."""
    if isinstance(a, int | float) and isinstance(b, int | float) and not _have_a_dtype(a, b):
        if b == 0 and not carried:
            raise fail(KernelValueError("remainder of a constant by zero"))
        return REGISTRY["mod"](a, b)
    return binary("%", a, b, carried)


__all__ = ["PLAIN", "binary", "div", "mod", "ordered"]
