"""Which tiles the variables of a loop may share from one iteration to the next.

Each iteration starts with handles of its own, which stand for what the one before left. Where that may be another
tile of the kernel, or one tile under two names, updating one in place must make the other unreadable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilekit.frontend.carried import CarriedTile
from tilekit.ir.handles import Tile


class Aliases:
    """What the carried tiles of a loop, told apart by their place among them, may be after an iteration."""

    def __init__(self) -> None:
        self.outer: dict[tuple[int, int], Tile] = {}
        """A tile from before the loop that a carried one may be."""
        self.pairs: dict[tuple[int, int], None] = {}
        """Two carried ones that may be one tile."""

    def find(self, carried: Sequence[CarriedTile], tiles: Iterable[Tile]) -> bool:
        """Note what the next iteration's handles may be; whether this one's did not know of it."""
        known = len(self.outer) + len(self.pairs)
        before = {id(tile) for tile in tiles}
        for a, slot in enumerate(carried):
            left = _may_be(slot.after)
            for tile in left:
                if id(tile) in before and _is_news(slot, tile):
                    self.outer[a, id(tile)] = tile
            for b, other in enumerate(carried[:a]):
                one = other.after is not None and any(tile is other.after.base for tile in left)
                if one and (slot.handle is None or other.handle is None or _is_news(slot, other.handle)):
                    self.pairs[a, b] = None
        return known != len(self.outer) + len(self.pairs)

    def link(self, carried: Sequence[CarriedTile]) -> None:
        """Let the handles of the carried tiles know what else they may be."""
        links: list[tuple[Tile | None, Tile | None]] = [
            (carried[a].handle, tile) for (a, _), tile in self.outer.items()
        ]
        links += [(carried[a].handle, carried[b].handle) for a, b in self.pairs]
        for handle, other in links:
            if handle is not None and other is not None and handle.base is not other.base:
                handle.twin(other)


def _may_be(tile: Tile | None) -> list[Tile]:
    return [] if tile is None else [tile.base, *tile.twins()]


def _is_news(slot: CarriedTile, tile: Tile) -> bool:
    return all(tile is not known for known in _may_be(slot.handle))
