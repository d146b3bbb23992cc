"""Views of a tile's bits under another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.ir.context import Datum
from tilekit.ir.handles import OPERATORS, Tile, wrap
from tilekit.ir.types import DType, TileType
from tilekit.ir.views import ViewMap


class BitsTile(Tile):
    """A tile whose elements are the bits of another one's: read and written through that one.

    Its map numbers elements of the other dtype, over all of ``source``.
    """

    __slots__ = ("source", "whole")

    source: Tile
    whole: TileType
    """The type of all of ``source`` under the other dtype."""

    @classmethod
    def of(cls, source: Tile, dtype: DType, shape: tuple[int, ...]) -> BitsTile:
        tile = cls.__new__(cls)
        tile.source, tile.whole = source, TileType(dtype, shape)
        tile.base, tile.made_at, tile.named = source.base, source.made_at, False
        tile._map, tile._offset, tile._repeats = ViewMap.identity(shape), None, source._repeats
        return tile

    def sibling(self) -> Tile:
        found = BitsTile.__new__(BitsTile)
        found.source, found.whole = self.source, self.whole
        return found

    @property
    def type(self) -> TileType:
        return TileType(self.whole.dtype, self.view_map.shape)

    def places(self) -> Any:
        """The numbers of all elements of the base whose bits these are."""
        narrow, wide = sorted((self.whole.dtype.itemsize, self.source.dtype.itemsize))
        numbers = self.view_map.numbers()
        if self.whole.dtype.itemsize == wide:
            numbers = numbers[..., None] * (wide // narrow) + np.arange(wide // narrow)
        else:
            numbers = numbers // (wide // narrow)
        return self.source.places().reshape(-1)[numbers]

    def _all(self) -> Tile:
        source = self.source
        if not self._in_place:  # its elements do not lie one after the other where a wider one may begin
            source = OPERATORS["cast"](source, source.dtype)
        return _bits(source, self.whole)

    @property
    def _in_place(self) -> bool:
        map, size = self.source.view_map, self.source.dtype.itemsize
        aligned = map.offset * size % self.whole.dtype.itemsize == 0
        return map.is_dense() and aligned and self.source.view_offset is None

    @property
    def _covers(self) -> bool:
        return self._offset is None and self.view_map.is_identity(self.whole.shape)

    def read(self, unread: bool = False) -> Datum:
        self.source.read(unread)
        whole = self._all()
        found: Tile = whole if self._covers else OPERATORS["view"](whole, self._offset, self._map)
        return found._datum

    def _assign(self, datum: Datum) -> None:
        given = wrap(datum)
        self._put(given if self._covers else OPERATORS["view="](self._all(), given, self._offset, self._map))

    def _fill(self, value: Any, operator: str) -> None:
        self._put(OPERATORS[operator](self._all(), value, self._offset, self.view_map))

    def update(self, symbol: str, value: Any) -> None:
        """Rebind the storage to a value with this one element updated, as ``+=`` does."""
        self._check_writable()
        self._put(OPERATORS["element op="](self._all(), value, self._offset, self.view_map, symbol))

    def _put(self, whole: Tile) -> None:
        self.source.assign(_bits(whole, self.source.type)._datum)


def _bits(t: Tile, type: TileType) -> Tile:
    found: Tile = OPERATORS["bits"](t, type.dtype, type.shape, t.dtype)
    return found
