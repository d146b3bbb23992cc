"""Reductions of tiles in one fixed order, whatever the block size and the device.

The ``n`` elements, counted row by row, are taken as 32 lanes: lane ``l`` combines elements ``l``, ``l + 32``,
``l + 64``, ... from the left. Then lane ``i`` takes in lane ``i + 16``, then ``i + 8``, 4, 2 and 1, where there is such
a lane. The compiled code (``native/reduce.h``) and the reference follow it, so their bits are the same. 16-bit floats
are combined in float32, and the result is rounded once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.builtins.arange import tile_arange
from tilekit.builtins.assign import tile_astype
from tilekit.builtins.view_shapes import tile_broadcast, tile_reshape
from tilekit.codegen.exchanges import REDUCED_LANES, exchanged
from tilekit.errors import KernelIndexError, KernelTypeError, counted
from tilekit.ir.builtin import Builtin, builtin
from tilekit.ir.handles import OPERATORS, Tile
from tilekit.ir.operands import describe
from tilekit.ir.types import DType, TileType, float32, int32

GROUP = "Tile reductions"
LANES = REDUCED_LANES
Combine = Callable[[Any, Any], Any]


def accumulator(dtype: DType) -> DType:
    """The dtype in which elements are combined."""
    return float32 if dtype.is_float and dtype.bits == 16 else dtype


def axis_in(type: TileType, axis: Any, name: str) -> int | None:
    """The axis of a reduction, counted from the first; None for all elements.

    Raises:
        KernelIndexError: the tile has no such axis.
        KernelTypeError: it is not a compile-time integer.
    """
    if axis is None:
        return None
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
        raise KernelTypeError(f"{name}(): axis must be a compile-time integer or None, got {describe(axis)}")
    found = operator.index(axis)
    if not -len(type.shape) <= found < len(type.shape):
        axes = counted(len(type.shape), "axis")
        raise KernelIndexError(f"{name}(): axis {found} is out of bounds for a {type} of {axes}")
    return found % len(type.shape)


def reduced(type: TileType, axis: int | None, keepdims: bool) -> TileType:
    """The type of a reduction: the axis is left out, or has extent 1; without an axis left, the shape is (1,)."""
    gone = range(len(type.shape)) if axis is None else (axis,)
    rest = tuple(1 if i in gone else extent for i, extent in enumerate(type.shape) if keepdims or i not in gone)
    return TileType(type.dtype, rest or (1,))


def check_keepdims(keepdims: Any, name: str) -> None:
    """Check whether the axes stay.

    Raises:
        KernelTypeError: it is no compile-time bool.
    """
    if not isinstance(keepdims, bool | np.bool_):
        raise KernelTypeError(f"{name}(): keepdims must be True or False, got {describe(keepdims)}")


def in_order(values: Any, axis: int | None, combine: Combine) -> Any:
    """The reduction of an array in the fixed order; ``combine`` works on arrays, element by element."""
    lined = values.reshape(-1, 1) if axis is None else np.moveaxis(values, axis, 0)
    part = lined[:LANES].copy()
    for start in range(LANES, len(lined), LANES):
        more = lined[start : start + LANES]
        part[: len(more)] = combine(part[: len(more)], more)
    half = LANES // 2
    while half:
        count = min(half, len(part) - half)
        if count > 0:
            part[:count] = combine(part[:count], part[half : half + count])
        half //= 2
    return part[0]


def _least(a: Any, b: Any) -> Any:
    equal = np.where(np.signbit(a), a, b) if a.dtype.kind == "f" else a
    ordered = np.where(a < b, a, np.where(b < a, b, equal))
    return np.where(a != a, b, np.where(b != b, a, ordered))


def _greatest(a: Any, b: Any) -> Any:
    equal = np.where(np.signbit(a), b, a) if a.dtype.kind == "f" else a
    ordered = np.where(a > b, a, np.where(b > a, b, equal))
    return np.where(a != a, b, np.where(b != b, a, ordered))


def _passed_over(dtype: DType, extreme: Callable[[Any], Any]) -> Any:
    """What the greatest or least of some elements does not depend on."""
    return math.nan if dtype.is_float else extreme(np.iinfo(dtype.numpy))


def _reduction(functor: str, combine: Combine, neutral: Callable[[DType], Any]) -> Callable[..., Builtin]:
    """Declare a reduction that ``native/reduce.h`` computes with a functor; ``neutral`` changes no result."""

    def declare(signature: Callable[..., Any]) -> Builtin:
        found = builtin(group=GROUP, cooperative=True, along="axis")(signature)
        name = found.name

        @found.result
        def _result(a: TileType, axis: Any, keepdims: Any) -> TileType:
            check_keepdims(keepdims, name)
            if a.dtype.kind == "b":
                raise KernelTypeError(f"{name}(): a is a {a}; convert it, as in tk.tile_astype(a, tk.int32)")
            return reduced(a, axis_in(a, axis, name), keepdims)

        @found.reference
        def _reference(a: Any, axis: Any, types: Any) -> Any:
            values = a.astype(accumulator(types[0].dtype).numpy) if functor == "Sum" else a
            along = None if axis is None else axis % a.ndim
            return in_order(values, along, combine).reshape(types[0].shape)

        @found.neutral
        def _neutral(a: TileType) -> Any:
            return neutral(a.dtype)

        @found.emit
        def _emit(cx: Any, results: Any, a: Any, axis: Any, keepdims: bool) -> None:
            emit: Callable[..., None] = _emit_native if a.layout is None else _emit_fragment
            # Least and greatest halves have the same bits as float32, where each is converted once.
            halves = emit is _emit_native and a.type.dtype.is_float and a.type.dtype.bits == 16
            wide = f"tk::accumulator_t<{a.element}>" if functor == "Sum" or halves else a.element
            target, along = cx.tile(results[0]), axis_in(a.type, axis, name)
            steps = [step for i, step in enumerate(target.strides) if not keepdims or i != along]
            emit(cx, target, steps, a, along, wide, functor)

        return found

    return declare


def _emit_native(cx: Any, target: Any, steps: list[int], a: Any, axis: int | None, wide: str, functor: str) -> None:
    """``steps`` are the strides of the result along the axes that are left."""
    dims = ", ".join(map(str, a.shape or (1,)))
    with cx.braces():
        cx.line(f"const tk::i64 steps[] = {{{', '.join(map(str, a.strides or (0,)))}}};")
        if axis is None:
            call = f"tk::reduce_all<{a.element}, {wide}, tk::{functor}, {dims}>"
            cx.shared(wide, "scratch", "tk::kLanes")
            cx.line(f"const {wide} found = {call}(team, {a.pointer}, steps, tk::{functor}{{}}, scratch);")
            with cx.leader():
                cx.line(f"{target.pointer}[0] = tk::cast<{a.element}>(found);")
            return
        rest = steps if len(a.shape) > 1 else []
        cx.line(f"const tk::i64 rest[] = {{{', '.join(map(str, (*rest[:axis], 0, *rest[axis:])))}}};")
        call = f"tk::reduce_axis<{axis}, {a.element}, {wide}, {a.element}, tk::{functor}, {dims}>"
        cx.line(f"{call}(team, {target.pointer}, rest, {a.pointer}, steps, tk::{functor}{{}});")


def _emit_fragment(cx: Any, target: Any, steps: list[int], a: Any, axis: int, wide: str, functor: str) -> None:
    """Of a tile in the registers that a product left it in."""
    values, size = exchanged(a.layout, axis, a.type.dtype.itemsize)
    memory = cx.exchange(size) if values else "nullptr"
    call = f"tk::reduce_fragment<{cx.layout_name(a.layout)}, {axis}, {values}, {wide}>"
    cx.line(f"{call}(team, {target.pointer}, {steps[0]}, {a.pointer}, ({wide}*){memory}, tk::{functor}{{}});")


@_reduction("Sum", np.add, lambda dtype: -0.0 if dtype.is_float else 0)
def tile_sum(a: Tile, axis: int | None = None, keepdims: bool = False) -> Tile:
    """The sum of a tile's elements.

    Args:
        a: A tile of numbers; integers wrap around, 16-bit floats are summed in float32 and rounded once.
        axis: The axis to sum over, a compile-time constant; negative ones count from the last. By default all elements.
        keepdims: Whether the reduced axes stay, with extent 1, so that the result meets ``a`` element by element.

    Returns:
        A new tile of ``a``'s dtype: without ``axis``, or of shape ``(1,)`` where no axis is left. The order of the
        additions is the same for every block size and device.

    Raises:
        KernelTypeError: ``a`` holds bools.
        KernelIndexError: ``a`` has no such axis.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_sum(tk.tile_ones(shape=(2, 3)))
        tile<1xf32>
        [6.]
        >>> tk.tile_sum(tk.tile_ones(shape=(2, 3)), axis=-1)
        tile<2xf32>
        [3. 3.]
        >>> tk.tile_sum(tk.tile_ones(shape=(2, 3)), axis=1, keepdims=True).shape
        (2, 1)
    """


@_reduction("Max", _greatest, lambda dtype: _passed_over(dtype, lambda info: info.min))
def tile_max(a: Tile, axis: int | None = None, keepdims: bool = False) -> Tile:
    """The greatest element of a tile. A NaN is passed over where there is a number; +0 is greater than -0.

    The gradient goes to the first of the elements that are the greatest.

    Args:
        a: A tile of numbers.
        axis: The axis to reduce, a compile-time constant; negative ones count from the last. By default all elements.
        keepdims: Whether the reduced axes stay, with extent 1, so that the result meets ``a`` element by element.

    Returns:
        A new tile of ``a``'s dtype: without ``axis``, or of shape ``(1,)`` where no axis is left.

    Raises:
        KernelTypeError: ``a`` holds bools.
        KernelIndexError: ``a`` has no such axis.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_max(tk.tile_arange(4, dtype=int))
        tile<1xi32>
        [3]
    """


@_reduction("Min", _least, lambda dtype: _passed_over(dtype, lambda info: info.max))
def tile_min(a: Tile, axis: int | None = None, keepdims: bool = False) -> Tile:
    """The least element of a tile. A NaN is passed over where there is a number; -0 is less than +0.

    The gradient goes to the first of the elements that are the least.

    Args:
        a: A tile of numbers.
        axis: The axis to reduce, a compile-time constant; negative ones count from the last. By default all elements.
        keepdims: Whether the reduced axes stay, with extent 1, so that the result meets ``a`` element by element.

    Returns:
        A new tile of ``a``'s dtype: without ``axis``, or of shape ``(1,)`` where no axis is left.

    Raises:
        KernelTypeError: ``a`` holds bools.
        KernelIndexError: ``a`` has no such axis.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_min(tk.tile_arange(4, dtype=int))
        tile<1xi32>
        [0]
    """


@tile_sum.adjoint
def _sum_adjoint(cx: Any, grad: Any, axis: Any) -> dict[str, Any]:
    type = cx.op.operands["a"].type
    along = axis_in(type, axis, "tile_sum")
    kept = tuple(1 if along is None or i == along else extent for i, extent in enumerate(type.shape))
    spread = tile_broadcast(tile_reshape(grad, kept), type.shape)
    return {"a": tile_astype(spread, grad.dtype)}


@tile_max.adjoint
@tile_min.adjoint
def _extreme_adjoint(cx: Any, grad: Any, value: Any, result: Any, axis: Any) -> dict[str, Any]:
    """The gradient goes to the first of the elements that are the result; to the first NaN where all are."""

    def chosen() -> Any:
        a = value("a")
        along = axis_in(a.type, axis, "tile_max")
        kept = tuple(1 if along is None or i == along else extent for i, extent in enumerate(a.shape))
        found = tile_reshape(result(), kept)
        lined = a.shape if along is None else tuple(e if i == along else 1 for i, e in enumerate(a.shape))
        places = tile_reshape(tile_arange(math.prod(lined), dtype=int32), lined)
        places = OPERATORS["where"]((a == found) | (found != found), places, math.prod(lined))
        first = tile_reshape(tile_min(places, axis=along), kept)
        return OPERATORS["where"](places == first, tile_reshape(grad, kept), 0.0)

    return {"a": chosen}
