"""Tiles that a launch keeps in scratch memory for its gradient: where they lie, how they are stored and loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilekit.builtins.grid import coordinate
from tilekit.builtins.memory import tile_load, tile_store
from tilekit.ir.array_parts import ArrayRoots
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.context import Builder, building, using
from tilekit.ir.core import Block, Function, Op, Value
from tilekit.ir.handles import Array, wrap
from tilekit.ir.program import Scratch
from tilekit.ir.sizes import Dim, Product, Size, simplified
from tilekit.ir.types import ArrayType, TileType
from tilekit.passes.activity import written_arrays
from tilekit.passes.contributions import without


@dataclass(frozen=True)
class SavedTile:
    """The tile that each block keeps, side by side with those of other blocks.

    The coordinates of the grid move along the first axes. Where they are more than the tile has, the tile lies along
    the last ones.
    """

    array: Value
    """The parameter that is the scratch array."""
    type: TileType
    ndim: int
    """Dimensions of the launch's grid."""

    @staticmethod
    def new(name: str, type: TileType, ndim: int) -> SavedTile:
        """One in a new array, whose dimensions are at most four, as those of tiles and grids."""
        return SavedTile(Value(ArrayType(type.dtype, max(ndim, len(type.shape))), name), type, ndim)

    @property
    def scratch(self) -> Scratch:
        """The array, which lives until backward."""
        extents = (*(1,) * self._before, *self.type.shape)
        shape: list[Size] = [
            simplified(Product(Dim(axis), extent)) if axis < self.ndim else extent
            for axis, extent in enumerate(extents)
        ]
        return Scratch(self.array, tuple(shape), until_backward=True)

    def save(self, value: Value) -> None:
        """Record that the block keeps the tile."""
        tile_store(self._part(self.array), wrap(value), self._offset())

    def load(self, array: Value, builder: Builder) -> Value:
        """Record a load of the tile; ``array`` is what stands for the array there."""
        with using(builder):
            found = tile_load(self._part(array), self.type.shape, self._offset()).read()
        assert isinstance(found, Value)
        return found

    @property
    def _before(self) -> int:
        """Axes of the array that the tile does not lie along."""
        return max(self.ndim - len(self.type.shape), 0)

    def _part(self, array: Value) -> Any:
        index = tuple(coordinate(axis) for axis in range(self._before))
        return REGISTRY["subarray"](Array(array), index, array.hint) if index else Array(array)

    def _offset(self) -> tuple[Any, ...]:
        axes = range(self._before, self._before + len(self.type.shape))
        moved = zip(axes, self.type.shape, strict=True)
        return tuple(coordinate(axis) * extent if axis < self.ndim else 0 for axis, extent in moved)


def with_saves(fn: Function, saved: Mapping[Value, SavedTile]) -> Function:
    """The function that also keeps values of its outermost block, each in a parameter that follows its own."""
    ops: list[Op] = []
    for op in fn.body.ops:
        ops.append(op)
        with building() as builder:
            for result in op.results:
                if result in saved:
                    saved[result].save(result)
        ops += [made.with_(location=op.location) for made in builder.ops]
    params = {**fn.params, **{tile.array.hint: tile.array for tile in saved.values()}}
    return replace(fn, params=params, body=Block((), tuple(ops), fn.body.results))


def without_saves(fn: Function, names: Collection[str], ndim: int) -> tuple[Function, dict[Value, SavedTile]]:
    """The function without what keeps values in parameters of these names, and where each of these is kept."""
    found: dict[Value, SavedTile] = {}
    saves: set[Op] = set()
    roots = ArrayRoots(fn.body)
    for name in names:
        for op in fn.body.ops:
            if any(fn.params[name] in roots.of(array) for array in written_arrays(op)):
                (value,) = (value for value in op.inputs() if isinstance(value.type, TileType))
                assert isinstance(value.type, TileType)
                found[value] = SavedTile(fn.params[name], value.type, ndim)
                saves.add(op)
    return (without(fn, lambda op: op in saves) if saves else fn), found
