"""Copies of tiles from one place to another, which passes make where a value must lie elsewhere."""

from __future__ import annotations

from typing import Any

from tilekit.ir.builtin import builtin
from tilekit.ir.operands import Tiles
from tilekit.ir.types import TileType


@builtin(late=True, by_element=True, moves=("sources",))
def move_tiles(sources: Tiles) -> Any:
    """The same tiles in other places: each is copied after the other, or all element by element.

    A place that is written is read later only where its elements change places with those of others, one by one.
    """


@move_tiles.result
def _result(sources: tuple[TileType, ...]) -> tuple[TileType, ...]:
    return sources


@move_tiles.reference
def _reference(sources: Any) -> tuple[Any, ...]:
    return tuple(source.copy() for source in sources)


@move_tiles.emit
def _emit(cx: Any, results: Any, sources: Any) -> None:
    cx.copy_tiles([(cx.tile(result), source) for result, source in zip(results, sources, strict=True)])
