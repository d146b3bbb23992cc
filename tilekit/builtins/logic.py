"""Conditions: ``and``, ``or``, ``not`` and selection without a branch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tilekit.builtins.arithmetic import Number, elementwise
from tilekit.ir.context import active
from tilekit.ir.handles import OPERATORS, Array, Scalar
from tilekit.ir.types import ScalarType, bool_

GROUP = "Logic"
BOOL = ScalarType(bool_)


@elementwise("and", group=GROUP)
def logical_and(a: Number, b: Number) -> Number:
    """Whether both are true (not zero).

    Args:
        a: A number, bool or tile of them.
        b: Another, of any dtype, and with as many axes where both are tiles.

    Returns:
        A bool, or a tile of bools where one of them is a tile.

    Example:
        >>> import tilekit as tk
        >>> tk.logical_and(True, False)
        False
    """


@elementwise("or", group=GROUP)
def logical_or(a: Number, b: Number) -> Number:
    """Whether at least one is true (not zero).

    Args:
        a: A number, bool or tile of them.
        b: Another, of any dtype, and with as many axes where both are tiles.

    Returns:
        A bool, or a tile of bools where one of them is a tile.

    Example:
        >>> import tilekit as tk
        >>> tk.logical_or(True, False)
        True
    """


@elementwise("not", group=GROUP)
def logical_not(x: Number) -> Number:
    """Whether a number is zero or false.

    Args:
        x: A number, bool or tile of them.

    Returns:
        A bool, or a tile of bools.

    Example:
        >>> import tilekit as tk
        >>> tk.logical_not(3)
        False
    """


@elementwise("where", unify=("value_if_true", "value_if_false"), group=GROUP)
def where(cond: Number, value_if_true: Number, value_if_false: Number) -> Number:
    """``value_if_true`` where ``cond`` is true (not zero), else ``value_if_false``; both are evaluated.

    Args:
        cond: A number, or a tile; of an array (keyword ``arr``), whether it was given, which None is not.
        value_if_true: A number or tile.
        value_if_false: Another of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.where(True, 1.0, 2.0)
        1.0
    """


@logical_and.coerce
@logical_or.coerce
def _two_bools(a: ScalarType, b: ScalarType) -> dict[str, ScalarType]:
    return {"a": BOOL, "b": BOOL}


@logical_and.result
@logical_or.result
def _two_result(a: ScalarType, b: ScalarType) -> ScalarType:
    return BOOL


@logical_not.coerce
def _one_bool(x: ScalarType) -> dict[str, ScalarType]:
    return {"x": BOOL}


@logical_not.result
def _not_result(x: ScalarType) -> ScalarType:
    return BOOL


@where.arguments
def _where_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Warp's second signature, ``(arr, value_if_true, value_if_false)``: whether an array was given."""
    named = {"cond" if key == "arr" else key: value for key, value in kwargs.items()}
    cond = args[0] if args else named.get("cond", 0)
    if cond is None or is_array(cond):
        given = cond is not None
        return ((given, *args[1:]), named) if args else ((), {**named, "cond": given})
    return args, kwargs


def is_array(value: Any) -> bool:
    """Whether a value is an array: a kernel's, or outside kernels one of NumPy's."""
    return isinstance(value, Array) or (isinstance(value, np.ndarray) and active() is None)


@where.coerce
def _where_coerce(cond: ScalarType) -> dict[str, ScalarType]:
    return {"cond": BOOL}


@where.result
def _where_result(value_if_true: ScalarType) -> ScalarType:
    return value_if_true


logical_and.emit(lambda a, b: f"({a} && {b})")
logical_or.emit(lambda a, b: f"({a} || {b})")
logical_and.reference(lambda a, b: np.logical_and(a, b))
logical_or.reference(lambda a, b: np.logical_or(a, b))
logical_not.reference(lambda x: np.logical_not(x))


@where.reference
def _where_reference(cond: Any, value_if_true: Any, value_if_false: Any) -> Any:
    return np.where(cond, value_if_true, value_if_false)


@where.adjoint
def _where_adjoint(grad: Any, value: Any) -> dict[str, Any]:
    return {
        "value_if_true": lambda: where(value("cond"), grad, 0.0),
        "value_if_false": lambda: where(value("cond"), 0.0, grad),
    }


def _folded(python: Callable[[Iterable[Any]], bool], join: Callable[[Any, Any], Any]) -> Callable[[Iterable[Any]], Any]:
    """``any`` and ``all``: Python's own on constants."""

    def call(items: Iterable[Any]) -> Any:
        found = tuple(items)
        if not any(isinstance(item, Scalar) for item in found):
            return python(found)
        return functools.reduce(join, found)

    return call


OPERATORS["call.any"] = _folded(any, logical_or)
OPERATORS["call.all"] = _folded(all, logical_and)
