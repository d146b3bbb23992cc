"""The ops behind ``tile_apply`` where an atom loads or stores: one instruction a repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.builtins.atom_bounds import Access, repeats_of
from tilekit.builtins.atom_code import Instruction, emit_instruction
from tilekit.builtins.atom_ops import (
    dtype_of,
    each_repeat,
    emit_repeat,
    held_before,
    predicate_of,
    sources_of,
)
from tilekit.builtins.atom_registers import data_from_register, data_to_register
from tilekit.builtins.atoms import Atom, Slot
from tilekit.builtins.construct import poison
from tilekit.errors import VerificationError
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import Array, Scalar, Tile
from tilekit.ir.interpret import from_memory, to_memory
from tilekit.ir.operands import DTypeLike, Index, Shape, Tiles
from tilekit.ir.types import ArrayType, DType, TileType


def _check(atom: Atom, a: ArrayType, tile: Any, pred: Any, memory: Slot, registers: Slot) -> None:
    fits = tile.dtype in registers.carriers and a.dtype in memory.carriers and a.ndim == len(tile.shape)
    if not fits or (isinstance(pred, TileType) and pred.shape != repeats_of(tile.shape, registers.lanes)):
        raise VerificationError(f"{atom} does not take {a} and {tile} with pred {pred}")


def _array_dtype(a: Any, slot: Slot) -> DType:
    """The dtype of an array of the interpreter, which has bfloat16 as 16 bits."""
    return next((dtype for dtype in slot.carriers if dtype.numpy == a.dtype), slot.carriers[0])


@builtin(by_element=True, cooperative=True, exact_block=True, run="run", reads=("a",), may_fail=True, reuses=("dst",))
def load_atom(
    dst: Tile | None,
    a: Array,
    offset: Index,
    pred: Scalar | Tile | None,
    atom: Atom,
    shape: Shape,
    dtype: DTypeLike,
    run: int,
    everyone: bool,
    name: str,
) -> Tile:
    """What a load leaves in its destination; where ``pred`` is false, what ``dst`` holds, or nothing defined.

    ``run`` and ``everyone`` are as for ``apply_atom``; ``name`` is the array's in errors.
    """


@load_atom.result
def _load_result(
    dst: TileType | None, a: ArrayType, pred: Any, atom: Atom, shape: tuple[int, ...], dtype: DType
) -> TileType:
    found = dst or TileType(dtype, shape)
    _check(atom, a, found, pred, atom.slots[1], atom.slots[0])
    return found


@load_atom.ignores
def _load_ignores() -> tuple[str, ...]:
    return ("dst",)  # elements that keep their value are not read


@load_atom.reference
def _load_reference(
    dst: Any, a: Any, offset: tuple[Any, ...], pred: Any, atom: Atom, shape: tuple[int, ...], name: str, types: Any
) -> Any:
    (to, of), dtype = atom.slots, types[0].dtype
    mask, index = Access(atom, to, shape, name).elements(a, offset, pred)
    found = np.full(shape, poison(dtype), dtype.numpy) if dst is None else dst.copy()
    given = _array_dtype(a, of)
    found[mask] = data_from_register(data_to_register(from_memory(a[index], given), given, to), dtype)
    return found


@load_atom.emit
def _load_emit(
    cx: Any,
    results: Any,
    dst: Any,
    a: str,
    offset: tuple[str, ...],
    pred: Any,
    atom: Atom,
    dtype: DType,
    run: int,
    everyone: bool,
    name: str,
    types: Any,
) -> None:
    target, slot = cx.tile(results[0]), atom.slots[0]
    access = Access(atom, slot, target.shape, name)
    with cx.braces():
        at = access.emit_start(cx, a, offset, types["offset"], pred)
        for repeat in each_repeat(cx, target.type, slot, run, everyone):
            address = access.emit_address(cx, a, at, repeat, pred)
            held = held_before(cx, dst, pred, repeat, slot, dtype)
            instruction = Instruction(atom, (), dtype, address, predicate_of(pred, repeat), held)
            emit_repeat(cx, target, repeat, slot, instruction)


@builtin(by_element=True, cooperative=True, exact_block=True, run="run", writes=("a",), side_effect=True)
def store_atom(
    a: Array,
    sources: Tiles,
    offset: Index,
    pred: Scalar | Tile | None,
    atom: Atom,
    run: int,
    everyone: bool,
    name: str,
) -> None:
    """Store a tile, the only one of ``sources``, to an array; repeats where ``pred`` is false do nothing."""


@store_atom.result
def _store_result(a: ArrayType, sources: Any, pred: Any, atom: Atom) -> None:
    _check(atom, a, sources[0], pred, atom.slots[0], atom.slots[1])


@store_atom.reference
def _store_reference(a: Any, sources: Any, offset: tuple[Any, ...], pred: Any, atom: Atom, name: str) -> None:
    (values,), (to, of) = sources, atom.slots
    mask, index = Access(atom, of, values.shape, name).elements(a, offset, pred)
    dtype = _array_dtype(a, to)
    registers = data_to_register(values, dtype_of(values, of), of)
    a[index] = to_memory(data_from_register(registers[mask], dtype), dtype, a.dtype)


@store_atom.emit
def _store_emit(
    cx: Any,
    a: str,
    sources: Any,
    offset: tuple[str, ...],
    pred: Any,
    atom: Atom,
    run: int,
    everyone: bool,
    name: str,
    types: Any,
) -> None:
    (tile,), slot = sources, atom.slots[1]
    access = Access(atom, slot, tile.shape, name)
    with cx.braces():
        at = access.emit_start(cx, a, offset, types["offset"], pred)
        for repeat in each_repeat(cx, tile.type, slot, run, everyone):
            address = access.emit_address(cx, a, at, repeat, pred)
            given = sources_of(cx, sources, repeat, atom)
            emit_instruction(cx, Instruction(atom, given, None, address, predicate_of(pred, repeat)))


load_atom.has_no_adjoint("atoms that load have no adjoint; use tk.tile_load")
store_atom.has_no_adjoint("atoms that store have no adjoint; use tk.tile_store")
