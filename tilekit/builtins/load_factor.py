"""Loads whose result only matrix products read, as a pass finds them: the product reads the array where it can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilekit.builtins.memory import emitted_offset, tile_load
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import Array, Tile
from tilekit.ir.operands import Index, Shape
from tilekit.ir.types import ArrayType, TileType


@builtin(late=True, reads=("a",), cooperative=True)
def load_factor(a: Array, shape: Shape, offset: Index, step: tuple[int, int]) -> Tile:
    """``tile_load`` for the factors of matrix products, which read it before the array changes.

    The next product's tile lies ``step`` elements further along each axis; it is fetched meanwhile.
    """


@load_factor.result
def _result(a: ArrayType, shape: tuple[int, ...], offset: tuple[Any, ...]) -> TileType:
    (type,) = tile_load.result_types({"a": a, "offset": offset}, {"shape": shape, "storage": "register"})
    assert isinstance(type, TileType)
    return type


@load_factor.reference
def _reference(a: Any, shape: tuple[int, ...], offset: tuple[Any, ...], types: Any) -> Any:
    return tile_load.apply("reference", {"a": a, "offset": offset}, {"shape": shape}, types=types)


@load_factor.emit
def _emit(
    cx: Any,
    results: Any,
    a: str,
    shape: tuple[int, ...],
    offset: tuple[str, ...],
    step: tuple[int, int],
    types: Any,
) -> None:
    if not cx.target.is_cpu:  # products there read tiles
        operands, attrs = {"a": a, "offset": offset}, {"shape": shape}
        tile_load.apply("emit", operands, attrs, cx=cx, results=results, types=types)
        return
    tile, name = cx.tile(results[0]), cx.fresh("factor")
    at = ", ".join(emitted_offset(offset, types["offset"], len(shape)))
    given = f"{tile.pointer}, {a}, {{{at}}}, {{{step[0]}, {step[1]}}}, {shape[0]}, {shape[1]}"
    cx.line(f"const auto {name} = tk::load_operand<{tile.element}>({given});")
    # Its elements may lie in the array, where only a product finds them: the pointer is a name that does not exist.
    cx.tiles[results[0]] = replace(tile, pointer=f"{name}_is_only_a_factor", factor=name)
