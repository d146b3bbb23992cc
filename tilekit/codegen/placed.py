"""Where the tiles of a function lie, as its user sees it: type, size, lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilekit.codegen.layouts import AnyLayout
from tilekit.codegen.storage import Buffer, Storage
from tilekit.errors import Location
from tilekit.ir.core import Function, Op, Value
from tilekit.ir.regions import emitted, emitted_params
from tilekit.ir.types import TileType


@dataclass(frozen=True)
class Placed:
    """A place for tiles, and the lines that make the tiles that lie there, one after another."""

    buffer: Buffer
    locations: tuple[Location, ...]

    @property
    def type(self) -> TileType:
        return self.buffer.type

    @property
    def size(self) -> int:
        """Bytes."""
        return self.buffer.size

    @property
    def layout(self) -> AnyLayout | None:
        """How the block's threads hold it in registers, where they do."""
        return self.buffer.layout

    @property
    def lines(self) -> str:
        """``line 8`` or ``lines 8, 12``."""
        numbers = [str(location.line) for location in self.locations]
        return f"line{'s' * (len(numbers) > 1)} {', '.join(numbers)}" if numbers else "no line"


def placed_tiles(fn: Function, storage: Storage) -> list[Placed]:
    """The places of all tiles of a function, the largest first."""
    locations: dict[Buffer, dict[tuple[str, int], Location]] = {}
    for op, value in _made(fn):
        buffer = storage.buffers.get(value)
        if buffer is not None:
            lines = locations.setdefault(buffer, {})
            if op.location is not None and not (_only_passes_on(op) and lines):
                lines.setdefault((op.location.file, op.location.line), op.location)
    found = [Placed(buffer, tuple(lines.values())) for buffer, lines in locations.items()]
    return sorted(found, key=lambda place: -place.size)


def _only_passes_on(op: Op) -> bool:
    """Whether it is a region, whose results its ops have made, or a pass copies tiles by it."""
    return op.builtin.carries or (op.builtin.late and bool(op.builtin.moves))


def _made(fn: Function) -> Iterator[tuple[Op, Value]]:
    """Tile values with the ops that make them. Those come last that pass on what other ops have made."""
    for op in sorted(emitted(fn.body), key=_only_passes_on):
        for value in (*op.results, *emitted_params(op)):
            if isinstance(value.type, TileType):
                yield op, value
