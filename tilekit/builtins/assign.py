"""Copies between tiles, in other dtypes and places."""

from __future__ import annotations

from typing import Any

from tilekit.builtins.convert import cast
from tilekit.builtins.view_shapes import require_tile, start_on_axis, sub_view
from tilekit.errors import KernelValueError, TilekitError, counted
from tilekit.ir.context import fail
from tilekit.ir.handles import Tile
from tilekit.ir.types import as_dtype
from tilekit.ir.views import dense_strides

__all__ = ["tile_assign", "tile_astype"]
GROUP = "Tile views"


def write_tile(target: Tile, source: Tile) -> None:
    """Write the elements of a tile, as they are before, to one of the same shape, in its dtype."""
    if source.dtype != target.dtype or (source.is_view and not target.is_view):
        source = cast(source, target.dtype)  # storage of its own, which the target takes over
    target.assign(source.read())


def tile_assign(dst: Tile, src: Tile, offset: Any = None) -> None:
    """Copy a tile into a part of another.

    Args:
        dst: The tile to write to, or a view of one.
        src: What to write, with as many axes; converted to ``dst``'s dtype. It may overlap the part of ``dst`` that is
            written: its elements are read before.
        offset: Index in ``dst`` of ``src``'s first element, constant or run time, for the first axes of ``dst``; 0 by
            default.

    Raises:
        KernelIndexError: ``src`` does not fit ``dst`` there; where ``offset`` is known at run time only, raised then.
        KernelValueError: the numbers of axes differ.

    Example:
        >>> import tilekit as tk
        >>> t = tk.tile_zeros(shape=4, dtype=int)
        >>> tk.tile_assign(t, tk.tile_ones(shape=2), offset=1)
        >>> t
        tile<4xi32>
        [0 1 1 0]
    """
    require_tile(dst, "tile_assign", "dst")
    require_tile(src, "tile_assign", "src")
    at = () if offset is None else tuple(offset) if isinstance(offset, tuple | list) else (offset,)
    try:
        if src.ndim != dst.ndim:
            raise KernelValueError(
                f"tile_assign(): dst is a {dst.type} and src a {src.type}; they need the same number of axes"
            )
        if len(at) > dst.ndim:
            raise KernelValueError(
                f"tile_assign(): offset has {counted(len(at), 'entry')} for a {dst.type} of {counted(dst.ndim, 'axis')}"
            )
        full = (*at, *(0,) * (dst.ndim - len(at)))
        starts = [start_on_axis(dst, axis, entry, src.shape[axis], wrap=False) for axis, entry in enumerate(full)]
        whole = src.shape == dst.shape
        write_tile(dst if whole else sub_view(dst, starts, src.shape, dense_strides(dst.shape)), src)
    except TilekitError as error:
        raise fail(error) from None


def tile_astype(t: Tile, dtype: Any) -> Tile:
    """A copy of a tile in another dtype.

    Args:
        t: The tile.
        dtype: The dtype: floats truncate to integers, integers wrap, floats round to nearest.

    Returns:
        A new tile of ``t``'s shape.

    Raises:
        KernelTypeError: ``dtype`` is no dtype.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_astype(tk.tile_full(2, 2.75), int)
        tile<2xi32>
        [2 2]
    """
    require_tile(t, "tile_astype")
    try:
        return cast(t, as_dtype(dtype))  # type: ignore[no-any-return]
    except TilekitError as error:
        raise fail(error) from None
