"""Atomic updates of array elements, under Warp's names. Each returns the element's old value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilekit.builtins.array_elements import (
    by_name,
    check_rank,
    element_dtype,
    element_load,
    element_store,
    emit_checks,
    indices,
    located,
)
from tilekit.builtins.selection import larger, smaller
from tilekit.builtins.updates import UPDATES
from tilekit.errors import KernelTypeError
from tilekit.ir.builtin import builtin
from tilekit.ir.context import active
from tilekit.ir.handles import OPERATORS, Array, Scalar
from tilekit.ir.interpret import conform_elements, from_memory, stored
from tilekit.ir.operands import Index, describe, host_array, one_element
from tilekit.ir.types import ArrayType, ScalarType

__all__ = [
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_exch",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_sub",
    "atomic_xor",
]
GROUP = "Atomics"

_UPDATES: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {
    **{update.name: (update.kinds, update.combine) for update in UPDATES.values()},
    "min": ("iuf", smaller),
    "max": ("iuf", larger),
    "exch": ("biuf", lambda old, value: value),
}
"""By name: the kinds of dtypes that an update is for, and the new value of an old one."""
_OPERATORS = {update.name: symbol for symbol, update in UPDATES.items()}


@builtin(atomics=("a",), side_effect=True)
def atomic_update(a: Array, index: Index, value: Scalar, how: str, name: str) -> Scalar:
    """Update an element at once, whatever other blocks do to it; the result is its old value."""


@atomic_update.coerce
def _update_coerce(a: ArrayType, value: ScalarType, how: str, name: str) -> dict[str, ScalarType]:
    if a.dtype.kind not in _UPDATES[how][0]:
        raise KernelTypeError(f"atomic_{how}() is not for {a.dtype.name}, which {name or 'the array'} holds")
    return {"value": element_dtype(a, value, name)}


@atomic_update.result
def _update_result(a: ArrayType, index: tuple[Any, ...], value: ScalarType, name: str) -> ScalarType:
    check_rank(a, index, name)
    return element_dtype(a, value, name)


@atomic_update.reference
def _update_reference(a: Any, index: tuple[Any, ...], value: Any, how: str, name: str, types: Any) -> Any:
    at = located(a, index, name)
    old = np.array(from_memory(np.asarray(a[at]), types[0].dtype))
    a[at] = stored(conform_elements(_UPDATES[how][1](old, value), types[0].dtype), a)
    return old


@atomic_update.emit
def _update_emit(cx: Any, a: str, index: tuple[str, ...], value: str, how: str, name: str) -> str:
    emit_checks(cx, a, index, name)
    if how == "sub":
        how, value = "add", f"tk::neg({value})"
    return f"tk::atomic_{how}(tk::element({', '.join((a, *index))}), {value})"


@atomic_update.adds
def _update_adds(how: str) -> str:
    return "value" if how in ("add", "sub") else ""


@atomic_update.alone
def _update_alone(a: Array, index: Any, value: Any, how: str, name: str) -> Any:
    old = element_load(a, index, name)
    element_store(a, index, value if how == "exch" else OPERATORS[_OPERATORS.get(how, how)](old, value), name)
    return old


@atomic_update.adjoint
def _update_adjoint(cx: Any, value: Any, how: str, name: str) -> dict[str, Any]:
    if how not in ("add", "sub"):
        raise cx.refuse(f"which number tk.atomic_{how} leaves depends on the order in which lanes and blocks run")
    if cx.flows():
        raise cx.refuse("what it returns depends on the order in which lanes and blocks run")
    found = cx.widen(element_load(cx.array("a"), value("index"), name))
    return {"value": found if how == "add" else -found}


@builtin(atomics=("a",), side_effect=True)
def atomic_compare(a: Array, index: Index, compare: Scalar, value: Scalar, name: str) -> Scalar:
    """Write an element if it has the bits of ``compare``; the result is its old value."""


@atomic_compare.coerce
def _compare_coerce(a: ArrayType, compare: ScalarType, value: ScalarType, name: str) -> dict[str, ScalarType]:
    return {"compare": element_dtype(a, compare, name), "value": element_dtype(a, value, name)}


@atomic_compare.result
def _compare_result(
    a: ArrayType, index: tuple[Any, ...], compare: ScalarType, value: ScalarType, name: str
) -> ScalarType:
    check_rank(a, index, name)
    element_dtype(a, compare, name)
    return element_dtype(a, value, name)


@atomic_compare.reference
def _compare_reference(a: Any, index: tuple[Any, ...], compare: Any, value: Any, name: str, types: Any) -> Any:
    at = located(a, index, name)
    old = np.array(from_memory(np.asarray(a[at]), types[0].dtype))
    if np.asarray(stored(compare, a)).tobytes() == np.asarray(a[at]).tobytes():
        a[at] = stored(value, a)
    return old


@atomic_compare.emit
def _compare_emit(cx: Any, a: str, index: tuple[str, ...], compare: str, value: str, name: str) -> str:
    emit_checks(cx, a, index, name)
    return f"tk::atomic_cas(tk::element({', '.join((a, *index))}), {compare}, {value})"


atomic_compare.has_no_adjoint("what it finds and writes depends on the order in which lanes and blocks run")


def _bind(name: str, arr: Any, args: tuple[Any, ...], named: dict[str, Any], last: tuple[str, ...]) -> tuple[Any, ...]:
    """The array, its indices, then what follows them, from positions and Warp's keywords."""
    if isinstance(arr, np.ndarray) and active() is None:
        arr = Array(host_array(arr))
    if not isinstance(arr, Array):
        raise KernelTypeError(f"{name}(): arr must be an array, got {describe(arr)}")
    given = by_name(name, arr, args, named, last)
    return arr, indices(arr, tuple(given[: arr.ndim])), *given[arr.ndim :]


def _update(how: str, arr: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    arr, index, value = _bind(f"atomic_{how}", arr, args, named, ("value",))
    return atomic_update(arr, index, value, how, arr.name)


def _update_in_place(symbol: str, how: str) -> Callable[[Array, Any, Any], None]:
    """``a[index] += value`` and its kin."""

    def call(a: Array, index: Any, value: Any) -> None:
        items = indices(a, index)
        if not isinstance(value, Scalar | int | float | np.generic):
            remedy = one_element(value) or "a number is needed"
            raise KernelTypeError(
                f"{describe(value)} cannot be the right side of {symbol}= on an element of an array; {remedy}"
            )
        atomic_update(a, items, value, how, a.name)

    return call


OPERATORS.update({f"array[]{symbol}=": _update_in_place(symbol, u.name) for symbol, u in UPDATES.items()})


def atomic_add(arr: Any, *args: Any, **named: Any) -> Any:
    """Add to an element of an array, atomically.

    Integers wrap around. With floats, and where a kernel uses an old value, the blocks of a launch run in order on the
    CPU, so that the result is the same every time.

    Args:
        arr: The array, of 1 to 4 dimensions.
        args: One integer index a dimension (keywords ``i``, ``j``, ``k``, ``l``), then ``value``: a number of the
            array's dtype, or a literal.

    Returns:
        The old value.

    Raises:
        KernelTypeError: the dtypes differ, or are not supported.
        KernelIndexError: an index is out of bounds.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> a = np.array([3])
        >>> tk.atomic_add(a, 0, 2), a
        (3, array([5]))
    """
    return _update("add", arr, args, named)


def atomic_sub(arr: Any, *args: Any, **named: Any) -> Any:
    """Subtract from an element of an array, atomically.

    Args:
        arr: The array, of 1 to 4 dimensions.
        args: One integer index a dimension (keywords ``i``, ``j``, ``k``, ``l``), then ``value``: a number of the
            array's dtype, or a literal.

    Returns:
        The old value.

    Raises:
        KernelTypeError: the dtypes differ, or are not supported.
        KernelIndexError: an index is out of bounds.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> a = np.array([3])
        >>> tk.atomic_sub(a, 0, 2), a
        (3, array([1]))
    """
    return _update("sub", arr, args, named)


def atomic_min(arr: Any, *args: Any, **named: Any) -> Any:
    """Lower an element of an array to a value, atomically.

    An element that is NaN is replaced by the value, and a value that is NaN changes nothing.

    Args:
        arr: The array, of 1 to 4 dimensions.
        args: One integer index a dimension (keywords ``i``, ``j``, ``k``, ``l``), then ``value``: a number of the
            array's dtype, or a literal.

    Returns:
        The old value.

    Raises:
        KernelTypeError: the dtypes differ, or are not supported.
        KernelIndexError: an index is out of bounds.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> a = np.array([3])
        >>> tk.atomic_min(a, 0, 2), a
        (3, array([2]))
    """
    return _update("min", arr, args, named)


def atomic_max(arr: Any, *args: Any, **named: Any) -> Any:
    """Raise an element of an array to a value, atomically.

    An element that is NaN is replaced by the value, and a value that is NaN changes nothing.

    Args:
        arr: The array, of 1 to 4 dimensions.
        args: One integer index a dimension (keywords ``i``, ``j``, ``k``, ``l``), then ``value``: a number of the
            array's dtype, or a literal.

    Returns:
        The old value.

    Raises:
        KernelTypeError: the dtypes differ, or are not supported.
        KernelIndexError: an index is out of bounds.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> a = np.array([3])
        >>> tk.atomic_max(a, 0, 2), a
        (3, array([3]))
    """
    return _update("max", arr, args, named)


def atomic_exch(arr: Any, *args: Any, **named: Any) -> Any:
    """Replace an element of an array, atomically.

    Args:
        arr: The array, of 1 to 4 dimensions.
        args: One integer index a dimension (keywords ``i``, ``j``, ``k``, ``l``), then ``value``: of the array's
            dtype, or a literal.

    Returns:
        The old value.

    Raises:
        KernelTypeError: the dtypes differ, or are not supported.
        KernelIndexError: an index is out of bounds.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> a = np.array([3])
        >>> tk.atomic_exch(a, 0, 2), a
        (3, array([2]))
    """
    return _update("exch", arr, args, named)


def atomic_and(arr: Any, *args: Any, **named: Any) -> Any:
    """Bitwise *and* an element of an array with a value, atomically.

    Args:
        arr: The array, of 1 to 4 dimensions.
        args: One integer index a dimension (keywords ``i``, ``j``, ``k``, ``l``), then ``value``: an integer or bool
            of the array's dtype, or a literal.

    Returns:
        The old value.

    Raises:
        KernelTypeError: the dtypes differ, or are not supported.
        KernelIndexError: an index is out of bounds.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> a = np.array([3])
        >>> tk.atomic_and(a, 0, 2), a
        (3, array([2]))
    """
    return _update("and", arr, args, named)


def atomic_or(arr: Any, *args: Any, **named: Any) -> Any:
    """Bitwise *or* an element of an array with a value, atomically.

    Args:
        arr: The array, of 1 to 4 dimensions.
        args: One integer index a dimension (keywords ``i``, ``j``, ``k``, ``l``), then ``value``: an integer or bool
            of the array's dtype, or a literal.

    Returns:
        The old value.

    Raises:
        KernelTypeError: the dtypes differ, or are not supported.
        KernelIndexError: an index is out of bounds.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> a = np.array([3])
        >>> tk.atomic_or(a, 0, 2), a
        (3, array([3]))
    """
    return _update("or", arr, args, named)


def atomic_xor(arr: Any, *args: Any, **named: Any) -> Any:
    """Bitwise *exclusive or* an element of an array with a value, atomically.

    Args:
        arr: The array, of 1 to 4 dimensions.
        args: One integer index a dimension (keywords ``i``, ``j``, ``k``, ``l``), then ``value``: an integer or bool
            of the array's dtype, or a literal.

    Returns:
        The old value.

    Raises:
        KernelTypeError: the dtypes differ, or are not supported.
        KernelIndexError: an index is out of bounds.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> a = np.array([3])
        >>> tk.atomic_xor(a, 0, 2), a
        (3, array([1]))
    """
    return _update("xor", arr, args, named)


def atomic_cas(arr: Any, *args: Any, **named: Any) -> Any:
    """Replace an element of an array if it has the bits of ``compare``, atomically.

    Args:
        arr: The array, of 1 to 4 dimensions.
        args: One integer index a dimension (keywords ``i``, ``j``, ``k``, ``l``), then ``compare`` and ``value``:
            numbers of the array's dtype, or literals.

    Returns:
        The old value.

    Raises:
        KernelTypeError: the dtypes differ.
        KernelIndexError: an index is out of bounds.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> a = np.array([3])
        >>> tk.atomic_cas(a, 0, 3, 7), tk.atomic_cas(a, 0, 3, 9), a
        (3, 7, array([7]))
    """
    arr, index, compare, value = _bind("atomic_cas", arr, args, named, ("compare", "value"))
    return atomic_compare(arr, index, compare, value, arr.name)
