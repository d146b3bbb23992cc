"""Elements and sub-arrays of arrays: ``a[i, j]``, ``a[i, j] = x``, ``a[i]`` of an array with more dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.codegen.checks import require
from tilekit.errors import KernelIndexError, KernelTypeError, counted
from tilekit.ir.builtin import REGISTRY, builtin
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile
from tilekit.ir.interpret import from_memory, stored
from tilekit.ir.operands import DTypeLike, Index, describe, one_element
from tilekit.ir.types import ArrayType, DType, ScalarType, int32

LOOK = "load a tile with tk.tile_load(a, shape=..., offset=...)"


def check_rank(a: ArrayType, index: tuple[Any, ...], name: str) -> None:
    """Refuse more or fewer indices than an element of the array has."""
    if len(index) != a.ndim:
        wanted = counted(a.ndim, "index")
        raise KernelTypeError(f"{name or 'the array'} is an {a}: an element has {wanted}, got {len(index)}")


def element_dtype(a: ArrayType, value: ScalarType, name: str) -> ScalarType:
    """The type that a value is stored as: literals adopt the array's dtype, anything else must have it."""
    literal = value.weak and (a.dtype.is_float or not value.dtype.is_float)
    if not literal and value.dtype != a.dtype:
        given = "a float" if value.weak else value.dtype.name
        raise KernelTypeError(
            f"{name or 'the array'} holds {a.dtype.name} but the value is {given}; cast it with tk.{a.dtype.name}(...)"
        )
    return ScalarType(a.dtype)


def located(a: Any, index: tuple[Any, ...], name: str) -> tuple[int, ...]:
    """The indices as ints.

    Raises:
        KernelIndexError: one is negative or not below the array's extent.
    """
    found = tuple(map(int, index))
    for axis, (i, extent) in enumerate(zip(found, a.shape, strict=False)):
        if not 0 <= i < extent:
            raise KernelIndexError(bounds_message(name).format(index=i, extent=extent, axis=axis))
    return found


def bounds_message(name: str) -> str:
    shown = (name or "the array").replace("{", "{{").replace("}", "}}")
    return f"index {{index}} is out of bounds for axis {{axis}} of {shown}, which has extent {{extent}}"


def emit_checks(cx: Any, a: str, index: tuple[str, ...], name: str) -> None:
    """Leave the block with an error where an index is outside, if the target checks indices."""
    if cx.target.index_checks:
        cx.check_indices(a, index, bounds_message(name))


# Reading.


@builtin(reads=("a",), may_fail=True)
def element_load(a: Array, index: Index, name: str) -> Scalar:
    """The element of an array with these indices; ``name`` is the array's in errors."""


@element_load.result
def _load_result(a: ArrayType, index: tuple[Any, ...], name: str) -> ScalarType:
    check_rank(a, index, name)
    return ScalarType(a.dtype)


@element_load.reference
def _load_reference(a: Any, index: tuple[Any, ...], name: str, types: Any) -> Any:
    return from_memory(np.asarray(a[located(a, index, name)]), types[0].dtype)


@element_load.emit
def _load_emit(cx: Any, a: str, index: tuple[str, ...], name: str, types: Any) -> str:
    emit_checks(cx, a, index, name)
    return f"*{cx.element(a, index, types['a'].dtype)}"


@element_load.adjoint
def _load_adjoint(cx: Any, grad: Any, value: Any, name: str) -> dict[str, Any]:
    REGISTRY["atomic_update"](cx.array("a"), value("index"), grad, "add", name)
    return {}


@builtin(may_fail=True, part_of="a")
def subarray(a: Array, index: Index, name: str) -> Array:
    """The array that the first indices name, with the dimensions that are left."""


@subarray.result
def _sub_result(a: ArrayType, index: tuple[Any, ...]) -> ArrayType:
    return ArrayType(a.dtype, a.ndim - len(index))


@subarray.reference
def _sub_reference(a: Any, index: tuple[Any, ...], name: str) -> Any:
    return a[located(a, index, name)]


@subarray.emit
def _sub_emit(cx: Any, a: str, index: tuple[str, ...], name: str) -> str:
    emit_checks(cx, a, index, name)
    return f"tk::subarray({', '.join((a, *index))})"


@builtin(late=True, part_of="a")
def array_until(a: Array, end: Index, axis: int) -> Array:
    """The array without what lies from index ``end`` of an axis on."""


@array_until.result
def _until_result(a: ArrayType) -> ArrayType:
    return a


@array_until.reference
def _until_reference(a: Any, end: tuple[Any, ...], axis: int) -> Any:
    return a[(slice(None),) * axis + (slice(max(int(end[0]), 0)),)]


@array_until.emit
def _until_emit(cx: Any, a: str, end: tuple[str, ...], axis: int) -> str:
    return f"tk::clipped<{axis}>({a}, (tk::i64)({end[0]}))"


@builtin(operator="undefined array")
def undefined_array(ndim: int, dtype: DTypeLike) -> Array:
    """What stands for an array on a path where there is none; no path reads it."""


@undefined_array.result
def _undefined_result(ndim: int, dtype: DType) -> ArrayType:
    return ArrayType(dtype, ndim)


@undefined_array.reference
def _undefined_reference(ndim: int, dtype: DType) -> Any:
    return np.zeros((0,) * ndim, dtype.numpy)


@undefined_array.emit
def _undefined_emit(cx: Any, results: Any) -> str:
    return f"{cx.cpp(results[0].type)}{{}}"


def indices(a: Array, index: Any) -> tuple[Any, ...]:
    """The subscript as a tuple of integers; what else Python allows there is refused."""
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        if isinstance(item, slice):
            raise KernelTypeError(f"an array cannot be sliced in a kernel; {LOOK}")
        if item is None or item is Ellipsis:
            raise KernelTypeError(f"{item!r} cannot index an array in a kernel; use integers")
        if isinstance(item, Tile):
            raise KernelTypeError(f"{describe(item)} cannot index an array; {one_element(item) or LOOK}")
    if len(items) > a.ndim:
        check_rank(a.type, items, a.name)
    return items


def by_name(
    name: str, a: Array | Tile, args: tuple[Any, ...], named: dict[str, Any], last: tuple[str, ...]
) -> list[Any]:
    """The indices of an element, then what follows them, from positions and Warp's keywords ``i``, ``j``, ...

    Raises:
        KernelTypeError: one is missing, given twice, or unknown.
    """
    wanted = (*"ijklmn"[: a.ndim], *last)
    given = dict(zip(wanted, args, strict=False))
    twice = given.keys() & named.keys()
    given.update(named)
    if len(args) > len(wanted) or twice or given.keys() != set(wanted):
        raise KernelTypeError(
            f"{name}() of {describe(a)} takes ({'arr' if isinstance(a, Array) else 'a'}, {', '.join(wanted)}), got "
            f"{len(args)} positional arguments" + (f" and {', '.join(named)}" if named else "")
        )
    return [given[key] for key in wanted]


def get_item(a: Array, index: Any) -> Any:
    """``a[index]``: the element, or with fewer indices than dimensions the array that they name."""
    items = indices(a, index)
    if len(items) == a.ndim:
        return element_load(a, items, a.name)
    if not items:
        return a
    found = subarray(a, items, a.name)
    found.name = f"{a.name}[...]" if a.name else ""
    return found


OPERATORS["array[]"] = get_item


# Writing.


@builtin(writes=("a",), side_effect=True)
def element_store(a: Array, index: Index, value: Scalar, name: str) -> None:
    """Write an element of an array."""


@element_store.coerce
def _store_coerce(a: ArrayType, value: ScalarType, name: str) -> dict[str, ScalarType]:
    return {"value": element_dtype(a, value, name)}


@element_store.result
def _store_result(a: ArrayType, index: tuple[Any, ...], value: ScalarType, name: str) -> None:
    check_rank(a, index, name)
    element_dtype(a, value, name)


@element_store.reference
def _store_reference(a: Any, index: tuple[Any, ...], value: Any, name: str) -> None:
    a[located(a, index, name)] = stored(value, a)


@element_store.emit
def _store_emit(cx: Any, a: str, index: tuple[str, ...], value: str, name: str, types: Any) -> None:
    emit_checks(cx, a, index, name)
    cx.write(cx.element(a, index, types["a"].dtype), value, types["a"].dtype)


@element_store.adjoint
def _store_adjoint(cx: Any, value: Any, name: str) -> dict[str, Any]:
    # What was there before the store has no effect on what came after, so its gradient is taken out. Where several
    # lanes store one number at one place, one of them gets it.
    return {"value": cx.widen(REGISTRY["atomic_update"](cx.array("a"), value("index"), 0, "exch", name))}


def set_item(a: Array, index: Any, value: Any) -> None:
    """``a[index] = value``, one element."""
    items = indices(a, index)
    if isinstance(value, Tile):
        remedy = one_element(value) or "use tk.tile_store(a, t, offset=...)"
        raise KernelTypeError(f"{describe(value)} cannot be assigned to an element; {remedy}")
    if len(items) < a.ndim:
        check_rank(a.type, items, a.name)
    element_store(a, items, value, a.name)


OPERATORS["array[]="] = set_item


# Extents.


@builtin()
def array_extent(a: Array, axis: int) -> Scalar:
    """The extent of one dimension, ``a.shape[axis]``."""


@array_extent.result
def _extent_result(a: ArrayType, axis: int) -> ScalarType:
    return ScalarType(int32)


_TOO_LONG = "axis {axis} of this array has {extent} elements, more than an int32 can hold"


@array_extent.reference
def _extent_reference(a: Any, axis: int) -> Any:
    if a.shape[axis] >= 2**31:
        raise KernelIndexError(_TOO_LONG.format(axis=axis, extent=a.shape[axis]))
    return a.shape[axis]


@array_extent.emit
def _extent_emit(cx: Any, a: str, axis: int) -> str:
    extent = f"{a}.shape[{axis}]"
    require(cx, f"{extent} <= 0x7fffffff", _TOO_LONG, "kIndexError", "0", extent, axis, about=a)
    return f"(tk::i32){extent}"


OPERATORS["shape"] = array_extent


def length(value: Any) -> Any:
    """``len(value)`` in a kernel: the first extent of an array (run time) or a tile, else Python's."""
    if isinstance(value, Array):
        return array_extent(value, 0)
    if isinstance(value, Scalar):
        raise KernelTypeError(f"{describe(value)} has no len()")
    return len(value)


OPERATORS["len"] = length
OPERATORS["call.len"] = length
