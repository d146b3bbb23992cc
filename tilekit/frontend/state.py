"""The state that a branch or a loop may change: the variables that its bodies assign, and the tiles that exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CellType
from typing import Any

from tilekit.frontend.merge import UNBOUND
from tilekit.ir.context import Builder, active
from tilekit.ir.handles import Tile

Names = tuple[tuple[str, bool, bool | str], ...]
"""What bodies assign: a name, whether by a plain assignment, whether anything outside the bodies reads it (``"later"``
where only the next iteration of a loop around may do so)."""
Body = Callable[..., Any]


class Cells:
    """The variables that bodies assign, read and set through their closures."""

    def __init__(self, names: Names, *bodies: Body) -> None:
        self.plain = {name: plain for name, plain, _ in names}
        self.live = {name for name, _, live in names if live}
        self.later = {name for name, _, live in names if live == "later"}
        self.cells: dict[str, CellType] = {}
        for body in bodies:
            for name, cell in zip(body.__code__.co_freevars, body.__closure__ or (), strict=True):
                if name in self.plain:
                    self.cells[name] = cell

    def read(self) -> dict[str, Any]:
        return {name: self.get(cell) for name, cell in self.cells.items()}

    @staticmethod
    def get(cell: CellType) -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return UNBOUND

    def write(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if value is UNBOUND:
                try:
                    del self.cells[name].cell_contents
                except ValueError:
                    continue
            else:
                self.cells[name].cell_contents = value


@dataclass
class Snapshot:
    """The values of the tiles that exist when a region begins."""

    tiles: list[tuple[Tile, Any]]
    count: int

    @classmethod
    def take(cls) -> Snapshot:
        live = current_builder().live
        tiles = [tile for tile in (reference() for reference in live) if tile is not None]
        live[:] = [reference for reference in live if reference() is not None]
        return cls([(tile, tile._datum) for tile in tiles], len(live))

    def restore(self) -> None:
        for tile, datum in self.tiles:
            tile.rebind(datum)

    def values(self) -> list[Any]:
        return [tile._datum for tile, _ in self.tiles]

    def changed(self) -> bool:
        """Whether a tile was updated since."""
        return any(tile._datum is not datum for tile, datum in self.tiles)

    def forget_later(self, region: str) -> None:
        """Tiles made inside a region do not outlive it."""
        live = current_builder().live
        for reference in live[self.count :]:
            tile = reference()
            if tile is not None:
                tile.kill(region)
        del live[self.count :]


def current_builder() -> Builder:
    context = active()
    assert isinstance(context, Builder)
    return context
