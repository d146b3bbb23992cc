"""What a block that lacks lanes does with tiles of one element a lane; a pass records it."""

from __future__ import annotations

from typing import Any

from tilekit.builtins.lanes import present
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import Array, Scalar, Tile
from tilekit.ir.interpret import Machine
from tilekit.ir.operands import Index
from tilekit.ir.types import ArrayType, ScalarType, TileType, int32


@builtin(late=True, cooperative=True)
def fill_missing(t: Tile, fill: Scalar | None, lanes: int) -> Tile:
    """The tile with ``fill`` for the elements of lanes that are missing; without it lane 0's element."""


@fill_missing.result
def _fill_result(t: TileType) -> TileType:
    return t


@fill_missing.reference
def _fill_reference(machine: Machine, t: Any, fill: Any, lanes: int) -> Any:
    found = t.copy()
    found[machine.present or lanes :] = t[0] if fill is None else fill
    return found


@fill_missing.emit
def _fill_emit(cx: Any, results: Any, t: Any, fill: str | None, lanes: int) -> None:
    target = cx.tile(results[0])
    count = cx.hold("tk::i32", present(lanes))
    missing = t.at(["0"]) if fill is None else f"tk::cast<{t.element}>({fill})"
    with cx.each_element(target) as index:
        cx.line(f"{target.at(index)} = {index[0]} < {count} ? {t.at(index)} : {missing};")


@builtin(late=True)
def present_lanes(lanes: int) -> Scalar:
    """How many of its lanes the block has."""


@present_lanes.result
def _present_result(lanes: int) -> ScalarType:
    return ScalarType(int32)


@present_lanes.reference
def _present_reference(machine: Machine, lanes: int) -> Any:
    return machine.present or lanes


@present_lanes.emit
def _present_emit(cx: Any, lanes: int) -> str:
    return present(lanes)


@builtin(late=True)
def clip_missing(a: Array, offset: Index, lanes: int) -> Array:
    """The array without where a tile at ``offset`` has elements of missing lanes, and what is behind that."""


@clip_missing.result
def _clip_result(a: ArrayType) -> ArrayType:
    return a


@clip_missing.reference
def _clip_reference(machine: Machine, a: Any, offset: tuple[Any, ...], lanes: int) -> Any:
    return a[: max(int(offset[0]) + (machine.present or lanes), 0)]


@clip_missing.emit
def _clip_emit(cx: Any, a: str, offset: tuple[str, ...], lanes: int) -> str:
    return f"tk::clipped({a}, (tk::i64)({offset[0]}) + {present(lanes)})"
