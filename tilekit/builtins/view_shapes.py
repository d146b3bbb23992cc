"""Views of tiles: other shapes over the same elements, read and written through, without a copy."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from tilekit.builtins.broadcasting import repeat_to, repeated
from tilekit.builtins.construct import check_shape
from tilekit.builtins.views import axis_index
from tilekit.errors import KernelIndexError, KernelTypeError, KernelValueError, TilekitError, counted
from tilekit.ir.context import fail
from tilekit.ir.handles import OPERATORS, Scalar, Tile
from tilekit.ir.operands import describe, describe_for_tile, known_number, shape_attribute
from tilekit.ir.views import ViewMap, dense_strides

__all__ = ["tile_broadcast", "tile_reshape", "tile_squeeze", "tile_transpose", "tile_view"]
GROUP = "Tile views"


def require_tile(t: Any, name: str, parameter: str = "t") -> Tile:
    """The tile that a view function is given.

    Raises:
        KernelTypeError: it is something else.
    """
    if not isinstance(t, Tile):
        raise fail(KernelTypeError(f"{name}(): {parameter} must be a tile, got {describe_for_tile(t)}"))
    return t


def start_on_axis(t: Tile, axis: int, index: Any, span: int, wrap: bool) -> tuple[int, Scalar | None]:
    """Where ``span`` elements along an axis begin: a constant part and a run-time part."""
    extent = t.shape[axis]
    reach = f"{span} elements from index {{index}} are" if span > 1 else "index {index} is"
    text = f"{reach} out of bounds for axis {{axis}} of a {t.type}, which has extent {{extent}}"
    if isinstance(index, Scalar) and known_number(index) is None:
        return 0, axis_index(index, extent, span, wrap, axis, text)
    try:
        if isinstance(index, bool | np.bool_):
            raise TypeError
        given = operator.index(index)
    except TypeError:
        raise KernelTypeError(f"an index of a {t.type} must be an integer, got {describe(index)}") from None
    start = given + (extent if wrap and given < 0 else 0)
    if not 0 <= start <= extent - span:
        raise KernelIndexError(text.format(index=given, axis=axis, extent=extent))
    return start, None


def sub_view(t: Tile, starts: list[tuple[int, Scalar | None]], shape: Any, strides: Any) -> Tile:
    """A view of ``t`` from an index that ``starts`` gives axis by axis; ``strides`` count elements of ``t``."""
    number = sum(start * step for (start, _), step in zip(starts, dense_strides(t.shape), strict=False))
    offset: Any = None
    for (_, moving), step in zip(starts, t.view_map.strides, strict=False):
        if moving is not None and step:
            term = moving if step == 1 else OPERATORS["*"](moving, step)
            offset = term if offset is None else OPERATORS["+"](offset, term)
    return Tile.view(t, ViewMap(tuple(shape), tuple(strides), number), offset)


def tile_view(t: Tile, offset: Any, shape: Any = None) -> Tile:
    """A part of a tile, as a view.

    Args:
        t: The tile.
        offset: Index in ``t`` of the view's first element: an integer, constant or run time, or a tuple of them, for
            the first axes of ``t``; not negative. Slices are taken as in ``t[2:6, ::2]``.
        shape: The view's shape, with as many axes as ``t``; by default the axes of ``t`` after those that ``offset``
            fixes, so that ``tile_view(t, i)`` is row ``i``.

    Returns:
        A view of ``t``'s dtype: writing to it writes to ``t``.

    Raises:
        KernelIndexError: the view is not inside ``t``; where ``offset`` is known at run time only, raised then.
        KernelValueError: ``offset`` or ``shape`` has another number of entries than ``t`` has axes.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> t = tk.tile_load(np.arange(12).reshape(3, 4), shape=(3, 4))
        >>> tk.tile_view(t, offset=(1, 2), shape=(2, 2))
        tile<2x2xi64>
        [[ 6  7]
         [10 11]]
    """
    try:
        require_tile(t, "tile_view")
        at = tuple(offset) if isinstance(offset, tuple | list) else (offset,)
        if any(isinstance(entry, slice) for entry in at):
            if shape is not None:
                raise KernelValueError("tile_view(): a slice in offset gives the shape already; leave shape out")
            return OPERATORS["tile[]"](t, at)  # type: ignore[no-any-return]
        if len(at) > t.ndim:
            raise KernelValueError(
                f"tile_view(): offset has {counted(len(at), 'entry')} for a {t.type} of {counted(t.ndim, 'axis')}"
            )
        return _part(t, at, None if shape is None else shape_attribute(shape, "tile_view(): shape"))
    except TilekitError as error:
        raise fail(error) from None


def _part(t: Tile, at: tuple[Any, ...], shape: tuple[int, ...] | None) -> Tile:
    if shape is None:
        starts = [start_on_axis(t, axis, entry, 1, wrap=False) for axis, entry in enumerate(at)]
        return sub_view(t, starts, t.shape[len(at) :], dense_strides(t.shape)[len(at) :])
    if len(shape) != t.ndim:
        raise KernelValueError(f"tile_view(): shape {shape} must have one extent for each axis of a {t.type}")
    check_shape(shape, "tile_view()")
    full = (*at, *(0,) * (t.ndim - len(at)))
    starts = [start_on_axis(t, axis, entry, shape[axis], wrap=False) for axis, entry in enumerate(full)]
    return sub_view(t, starts, shape, dense_strides(t.shape))


def tile_transpose(a: Tile) -> Tile:
    """Swap the two axes of a tile, as a view; ``a.T`` is the same.

    Args:
        a: A tile of shape ``(m, n)``.

    Returns:
        A view of shape ``(n, m)``: writing to it writes to ``a``.

    Raises:
        KernelValueError: ``a`` has not two axes.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> tk.tile_transpose(tk.tile_load(np.arange(6).reshape(2, 3), shape=(2, 3)))
        tile<3x2xi64>
        [[0 3]
         [1 4]
         [2 5]]
    """
    require_tile(a, "tile_transpose", "a")
    if a.ndim != 2:
        raise fail(KernelValueError(f"tile_transpose(): a tile with two axes is needed, got a {a.type}"))
    return Tile.view(a, ViewMap(a.shape[::-1], dense_strides(a.shape)[::-1]))


def tile_reshape(t: Tile, shape: Any) -> Tile:
    """The elements of a tile under another shape, as a view.

    Args:
        t: The tile.
        shape: The new shape, a compile-time constant with as many elements; one extent may be -1 and is inferred.

    Returns:
        A view of that shape: writing to it writes to ``t``.

    Raises:
        KernelValueError: the numbers of elements differ.
        KernelTypeError: ``t`` is a view that has no strides under that shape; copy it first with
            ``tile_astype(t, t.dtype)``.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_reshape(tk.tile_arange(6, dtype=int), (2, -1))
        tile<2x3xi32>
        [[0 1 2]
         [3 4 5]]
    """
    require_tile(t, "tile_reshape")
    try:
        return Tile.view(t, ViewMap.identity(_new_shape(t, shape)))
    except TilekitError as error:
        raise fail(error) from None


def _new_shape(t: Tile, shape: Any) -> tuple[int, ...]:
    entries = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    free = [axis for axis, extent in enumerate(entries) if isinstance(extent, int) and extent == -1]
    if len(free) > 1:
        raise KernelValueError(f"tile_reshape(): only one extent may be -1, got {entries}")
    known = shape_attribute([1 if axis in free else extent for axis, extent in enumerate(entries)], "tile_reshape()")
    count = math.prod(known)
    if free and count and t.size % count == 0:
        known = tuple(t.size // count if axis in free else extent for axis, extent in enumerate(known))
    if math.prod(known) != t.size:
        raise KernelValueError(
            f"tile_reshape(): a {t.type} has {counted(t.size, 'element')}, which do not fit {entries}"
        )
    return known


def tile_squeeze(t: Tile, axis: Any = None) -> Tile:
    """A tile without axes of extent 1, as a view.

    Args:
        t: The tile.
        axis: The axis to leave out, or a tuple of them; negative ones count from the last. By default all of extent 1.

    Returns:
        A view with fewer axes: writing to it writes to ``t``.

    Raises:
        KernelIndexError: ``t`` has no such axis.
        KernelValueError: the extent of a named axis is not 1.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_squeeze(tk.tile_ones(shape=(1, 3)))
        tile<3xf32>
        [1. 1. 1.]
    """
    require_tile(t, "tile_squeeze")
    if axis is None:
        gone = {i for i, extent in enumerate(t.shape) if extent == 1}
    else:
        gone = {axis_of(t, item, "tile_squeeze") for item in (axis if isinstance(axis, tuple | list) else (axis,))}
    for i in gone:
        if t.shape[i] != 1:
            raise fail(KernelValueError(f"tile_squeeze(): axis {i} of a {t.type} has extent {t.shape[i]}, not 1"))
    return Tile.view(t, ViewMap.identity(tuple(e for i, e in enumerate(t.shape) if i not in gone)))


def axis_of(t: Tile, axis: Any, name: str) -> int:
    """An axis of a tile, where a negative one counts from the last.

    Raises:
        KernelIndexError: the tile has no such axis.
        KernelTypeError: it is not a compile-time integer.
    """
    if isinstance(axis, Scalar | bool) or not hasattr(axis, "__index__"):
        raise fail(KernelTypeError(f"{name}(): axis must be a compile-time integer, got {describe(axis)}"))
    found = operator.index(axis)
    if not -t.ndim <= found < t.ndim:
        raise fail(
            KernelIndexError(f"{name}(): axis {found} is out of bounds for a {t.type} of {counted(t.ndim, 'axis')}")
        )
    return found % t.ndim


def tile_broadcast(a: Tile, shape: Any) -> Tile:
    """A tile repeated along axes of extent 1 and new leading axes, as a view.

    Args:
        a: The tile.
        shape: The new shape, a compile-time constant of 1 to 4 extents, to which ``a``'s shape broadcasts as in NumPy.

    Returns:
        A view of that shape; several of its elements are one element of ``a``, so it cannot be written to.

    Raises:
        KernelValueError: ``a``'s shape does not broadcast to ``shape``.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_broadcast(tk.tile_arange(3, dtype=int), (2, 3))
        tile<2x3xi32>
        [[0 1 2]
         [0 1 2]]
    """
    require_tile(a, "tile_broadcast", "a")
    try:
        wanted = shape_attribute(shape, "tile_broadcast(): shape")
        if not 1 <= len(wanted) <= 4 or len(wanted) < a.ndim:
            raise KernelValueError(f"tile_broadcast(): a {a.type} cannot have the shape {wanted}")
        lead = len(wanted) - a.ndim
        for i, extent in enumerate(a.shape):
            if extent not in (1, wanted[lead + i]):
                raise KernelValueError(
                    f"tile_broadcast(): axis {i} of a {a.type} has extent {extent}, which cannot become "
                    f"{wanted[lead + i]} of {wanted}{_reshaped_first(a, wanted)}"
                )
        return repeat_to(Tile.view(a, ViewMap.identity((*(1,) * lead, *a.shape))) if lead else a, wanted)
    except TilekitError as error:
        raise fail(error) from None


def _reshaped_first(a: Tile, wanted: tuple[int, ...]) -> str:
    """Where the axis that ``a`` lacks is not the first: what to write."""
    ways = [text for _, text in repeated("a", a.shape, wanted)] if a.ndim < len(wanted) else []
    return f"; write tk.tile_broadcast({ways[0]}, {wanted})" if ways else ""


OPERATORS["transpose"] = tile_transpose
