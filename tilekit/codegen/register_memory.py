"""Tiles in registers from and to arrays: which neighbours a thread moves at once, and the native calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilekit.codegen.layouts import Layout
from tilekit.codegen.orders import PACK_BYTES
from tilekit.codegen.refs import TileRef
from tilekit.codegen.storage import Buffer

if TYPE_CHECKING:
    from tilekit.codegen.cuda_emitter import CudaEmitter


@dataclass(frozen=True)
class Pack:
    """Neighbours in an array that a thread moves at once."""

    axis: int
    """Along which they are neighbours."""
    width: int
    """How many there are."""
    known: bool
    """Whether they always lie at a multiple of their size, and all inside or all outside; else a launch finds out."""


def pack_of(cx: CudaEmitter, tile: TileRef, array: str, offset: str) -> Pack:
    """What a thread moves at once between an array and a tile in its registers.

    Args:
        cx: What writes the code of the current op.
        tile: The tile, which has a layout.
        array: The op's operand.
        offset: The operand with the tile's place in the array.
    """
    layout, last = tile.layout, len(tile.shape) - 1
    assert isinstance(layout, Layout)
    axis, sure = cx.packs_of(array, offset)
    by_axes = layout.rank == len(tile.shape)
    axis = last if axis < 0 else axis
    if axis != last and not by_axes:
        return Pack(last, 1, True)
    width = min(layout.neighbours(axis if by_axes else 0), PACK_BYTES // tile.type.dtype.itemsize)
    while tile.shape[axis] % width:
        width //= 2
    return Pack(axis, width, True) if sure else Pack(last, width if axis == last else 1, axis != last or width == 1)


def gathered(layout: Layout, pack: Pack, wanted: int) -> list[tuple[int, int]]:
    """Which bits of registers and lanes change places so that a thread has ``wanted`` neighbours along an axis.

    Example:
        >>> from tilekit.codegen.layouts.cores import mma_sums
        >>> gathered(Layout(mma_sums(0, 0), (16, 8)), Pack(0, 1, True), 2)
        [(0, 2)]
        >>> gathered(Layout(mma_sums(0, 0), (16, 8)), Pack(1, 2, True), 4)
        [(1, 0)]
    """
    core, swaps = layout.core, []
    low = [(pack.axis, position) for position in range(wanted.bit_length() - 1)]
    free = [number for number, bit in enumerate(core.registers) if bit not in low]
    for bit in low:
        if bit in core.registers:
            continue
        if not free or bit not in core.lanes or layout.shape[pack.axis] % wanted:
            return []
        swaps.append((free.pop(0), core.lanes.index(bit)))
    return swaps


def load_registers(cx: CudaEmitter, tile: TileRef, array: str, offset: str) -> None:
    """Write the call that loads a tile, or the registers of the running chunk, from an operand at ``at``."""
    pack = pack_of(cx, tile, array, offset)
    layout = tile.layout
    assert isinstance(layout, Layout)
    begin, count = ("", layout.registers) if cx.chunk is None else (f", {cx.chunk.first}", cx.chunk.size)
    given = f"{_template(cx, layout, pack)}, {count}, {_dims(tile)}"
    cx.line(f"tk::load_registers<{given}>(team.rank(), {tile.pointer}, {cx.operands[array]}, at{begin});")


def store_registers(cx: CudaEmitter, tile: TileRef, array: str, offset: str) -> None:
    """Write the call that stores a tile to an operand at ``at``; a thread stores two neighbours at once at least."""
    pack = pack_of(cx, tile, array, offset)
    tile, pack = _gathered(cx, tile, pack, 1 if pack.axis == len(tile.shape) - 1 else 2)
    _call(cx, "store_registers", tile, array, pack)


def add_registers(cx: CudaEmitter, tile: TileRef, array: str, offset: str) -> None:
    """Write the call that adds a tile to an operand at ``at``, four neighbours at once."""
    pack = pack_of(cx, tile, array, offset)
    along = pack.axis == len(tile.shape) - 1 and tile.type.dtype.itemsize == 4
    tile, pack = _gathered(cx, tile, pack, 4 if along else 1)
    _call(cx, "add_registers", tile, array, pack)


def _gathered(cx: CudaEmitter, tile: TileRef, pack: Pack, wanted: int) -> tuple[TileRef, Pack]:
    """The tile in registers in which a thread holds so many neighbours, if lanes beside it have them."""
    layout = tile.layout
    assert isinstance(layout, Layout)
    swaps = gathered(layout, pack, wanted) if pack.known and layout.rank == len(tile.shape) else []
    for register, lane in swaps:
        layout, name = layout.swapped(register, lane), cx.fresh("swapped")
        cx.line(f"{tile.element} {name}[{layout.registers}];")
        cx.line(f"tk::swap_bits<{register}, {lane}>(team.rank(), {name}, {tile.pointer});")
        tile = replace(tile, pointer=name, buffer=Buffer(tile.type, -1, layout))
    return tile, replace(pack, width=wanted) if swaps else pack


def _call(cx: CudaEmitter, name: str, tile: TileRef, array: str, pack: Pack) -> None:
    layout = tile.layout
    assert isinstance(layout, Layout)
    given = f"{_template(cx, layout, pack)}, {_dims(tile)}"
    cx.line(f"tk::{name}<{given}>(team.rank(), {tile.pointer}, {cx.operands[array]}, at);")


def _template(cx: CudaEmitter, layout: Layout, pack: Pack) -> str:
    return f"{cx.layout_name(layout)}, {pack.axis}, {pack.width}, {str(pack.known).lower()}"


def _dims(tile: TileRef) -> str:
    return ", ".join(map(str, tile.shape))
