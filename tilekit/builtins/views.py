"""Views of tiles: other shapes over the same elements, read and written through, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError, KernelValueError
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import OPERATORS, Scalar, Tile
from tilekit.ir.types import ScalarType, TileType
from tilekit.ir.views import ViewMap

__all__ = ["tile_transpose"]
GROUP = "Tile views"


def numbers(map: ViewMap, offset: Any) -> Any:
    """The element numbers that a view names."""
    steps = [np.arange(extent) * stride for extent, stride in zip(map.shape, map.strides, strict=True)]
    grid = np.asarray(map.offset + (0 if offset is None else int(offset)))
    for step in steps:
        grid = grid[..., None] + step
    return grid


def _check_reach(base: TileType, map: ViewMap, name: str) -> None:
    if map.size:
        low, high = map.bounds()
        if low < 0 or high >= base.size:
            raise KernelValueError(f"{name}: a view {map} reaches outside a {base}")


@builtin(operator="view", view=True)
def view_of(base: Tile, offset: Scalar | None, map: ViewMap) -> Tile:
    """The elements of a tile that a map names, under another shape."""


@view_of.result
def _view_result(base: TileType, offset: ScalarType | None, map: ViewMap) -> TileType:
    if offset is None:
        _check_reach(base, map, "view")
    return TileType(base.dtype, map.shape)


@view_of.reference
def _view_reference(base: Any, offset: Any, map: ViewMap) -> Any:
    return base.reshape(-1)[numbers(map, offset)]


@view_of.emit
def _view_emit(cx: Any, results: Any, base: Any, offset: str | None, map: ViewMap) -> None:
    cx.alias(results[0], base, map, offset)


@builtin(operator="view=", reuses=("base",), cooperative=True)
def view_replace(base: Tile, value: Tile, offset: Scalar | None, map: ViewMap) -> Tile:
    """A tile with the elements that a map names replaced by those of another tile."""


@view_replace.result
def _replace_result(base: TileType, value: TileType, offset: ScalarType | None, map: ViewMap) -> TileType:
    if value.shape != map.shape or value.dtype != base.dtype:
        raise KernelTypeError(f"cannot write a {value} into a view of shape {map.shape} of a {base}")
    if map.overlaps_itself():
        raise KernelTypeError("cannot write through a broadcast view: several of its elements are one")
    if offset is None:
        _check_reach(base, map, "view")
    return base


@view_replace.reference
def _replace_reference(base: Any, value: Any, offset: Any, map: ViewMap) -> Any:
    result = base.copy().reshape(-1)
    result[numbers(map, offset)] = value
    return result.reshape(base.shape)


@view_replace.emit
def _replace_emit(cx: Any, results: Any, base: Any, value: Any, offset: str | None, map: ViewMap) -> None:
    target = cx.tile(results[0])
    cx.copy_tiles([(target, base)])
    part = cx.viewed(target, map, offset)
    with cx.each_element(part) as index:
        cx.line(f"{part.at(index)} = {value.at(index)};")


def tile_transpose(a: Tile) -> Tile:
    """Swap the two axes of a tile, as a view.

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
    if len(a.shape) != 2:
        raise KernelValueError(f"tile_transpose: a tile with two axes is needed, got a {a.type}")
    whole = ViewMap.identity(a.shape)
    return Tile.view(a, ViewMap(whole.shape[::-1], whole.strides[::-1]))


OPERATORS["transpose"] = tile_transpose
