"""What the threads of a block do for each other: they wait, and one tells the others what it has found."""

from __future__ import annotations

from typing import Any

from tilekit.ir.builtin import builtin
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.types import ScalarType, TileType


@builtin(late=True)
def barrier() -> None:
    """All threads of the block have done what comes before it, and see each other's writes.

    It is no side effect: nothing that it keeps apart depends on it in one thread. Passes that drop what nothing uses
    come before it.
    """


@barrier.result
def _barrier_result() -> tuple[()]:
    return ()


@barrier.reference
def _barrier_reference() -> tuple[()]:
    return ()


@barrier.emit
def _barrier_emit(cx: Any) -> None:
    cx.sync()


@builtin(late=True)
def publish(x: Scalar) -> Tile:
    """A number that one thread of the block has found, in memory that all of them read."""


@publish.result
def _publish_result(x: ScalarType) -> TileType:
    return TileType(x.dtype, ())


@publish.reference
def _publish_reference(x: Any) -> Any:
    return x


@publish.emit
def _publish_emit(cx: Any, results: Any, x: str) -> None:
    with cx.leader():
        cx.line(f"{cx.tile(results[0]).at(())} = {x};")
