"""The op behind ``tile_apply`` where an atom works on registers: one instruction a repeat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilekit.builtins.atom_bounds import over_elements, repeats_of
from tilekit.builtins.atom_code import Instruction, Source, emit_instruction
from tilekit.builtins.atom_gradients import gradients
from tilekit.builtins.atom_registers import computed, data_from_register, data_to_register, read_slots
from tilekit.builtins.atoms import Atom, Slot
from tilekit.builtins.construct import poison
from tilekit.codegen.repeats import registers_of
from tilekit.codegen.text import literal
from tilekit.errors import VerificationError
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.operands import DTypeLike, Shape, Tiles
from tilekit.ir.types import DType, TileType, bool_


@builtin(by_element=True, cooperative=True, exact_block=True, puns=True, run="run", reuses=("dst", "sources"))
def apply_atom(
    dst: Tile | None,
    sources: Tiles,
    pred: Scalar | Tile | None,
    atom: Atom,
    shape: Shape,
    dtype: DTypeLike,
    run: int,
    everyone: bool,
) -> Tile:
    """What an atom leaves in its destination; where ``pred`` is false, what ``dst`` holds, or nothing defined.

    ``run`` is how many neighbours a repeat takes of each tile, 0 where the tiles differ in that or where ``everyone``,
    each thread, runs all repeats.
    """


@builtin(by_element=True, cooperative=True, exact_block=True, puns=True, run="run")
def apply_atom_apart(
    dst: Tile | None,
    sources: Tiles,
    pred: Scalar | Tile | None,
    atom: Atom,
    shape: Shape,
    dtype: DTypeLike,
    run: int,
    everyone: bool,
) -> Tile:
    """``apply_atom`` with a place of its own for the result: others still read what a thread has done with."""


@apply_atom.result
@apply_atom_apart.result
def _result(
    dst: TileType | None, sources: Any, pred: Any, atom: Atom, shape: tuple[int, ...], dtype: DType
) -> TileType:
    found, slot = TileType(dtype, shape), atom.slots[0]
    repeats = repeats_of(shape, slot.lanes)
    fits = dst in (None, found) and dtype in slot.carriers
    for of, given in zip(read_slots(atom), sources, strict=True):
        fits &= given.dtype in of.carriers
        fits &= not isinstance(given, TileType) or repeats_of(given.shape, of.lanes) == repeats
    if not fits or (isinstance(pred, TileType) and pred.shape != repeats):
        raise VerificationError(f"{atom} does not take {(dst, *sources)} with pred {pred} for a {found}")
    return found


@apply_atom.ignores
@apply_atom_apart.ignores
def _ignores() -> tuple[str, ...]:
    return ("dst",)  # elements that keep their value are not read


# In the interpreter.


@apply_atom.reference
@apply_atom_apart.reference
def _reference(dst: Any, sources: Any, pred: Any, atom: Atom, types: Any) -> Any:
    type, lanes = types[0], atom.slots[0].lanes
    repeats = repeats_of(type.shape, lanes)
    given = [
        np.broadcast_to(data_to_register(values, dtype_of(values, slot), slot), shape_of(repeats, slot.lanes))
        for values, slot in zip(sources, read_slots(atom), strict=True)
    ]
    found = data_from_register(_computed(atom, given, type.shape), type.dtype)
    before = np.asarray(poison(type.dtype), type.dtype.numpy) if dst is None else dst
    return found if pred is None else np.where(over_elements(pred, type.shape, lanes), found, before)


def dtype_of(values: Any, slot: Slot) -> DType:
    """The dtype of the interpreter's data: that carrier of the slot which NumPy holds so."""
    kind = np.asarray(values).dtype
    return next(dtype for dtype in slot.carriers if dtype.numpy == kind)


def shape_of(repeats: tuple[int, ...], lanes: int) -> tuple[int, ...]:
    """The shape of a tile of which each repeat takes so many neighbours."""
    return repeats if lanes == 1 else (*repeats[:-1], repeats[-1] * lanes)


def _computed(atom: Atom, given: Sequence[Any], shape: tuple[int, ...]) -> Any:
    slot = atom.slots[0]
    if slot.lanes == read_slots(atom)[0].lanes:
        return computed(atom, given)
    # A mov that puts registers together, or takes one apart: memory has them in that order.
    return np.ascontiguousarray(given[0]).view(slot.carriers[0].numpy).reshape(shape)


# In emitted code.


def each_repeat(cx: Any, type: TileType, slot: Slot, run: int, everyone: bool) -> Iterator[Any]:
    """The indices of the repeats over a tile of registers of a slot."""
    yield from cx.repeats(TileType(bool_, repeats_of(type.shape, slot.lanes)), max(run, 1), everyone)


def elements(tile: Any, repeat: Any, slot: Slot) -> list[str]:
    """Those of a tile that a repeat takes."""
    return [tile.at(index) for index in registers_of(repeat, slot.lanes)]


def sources_of(cx: Any, sources: Sequence[Any], repeat: Any, atom: Atom) -> list[list[Source]]:
    """What a repeat reads from registers."""
    operands = cx.op.operands["sources"]
    return [
        [Source(given, operand.type.dtype, operand)]
        if isinstance(given, str)
        else [Source(text, operand.type.dtype) for text in elements(given, repeat, slot)]
        for given, operand, slot in zip(sources, operands, read_slots(atom), strict=True)
    ]


def predicate_of(pred: Any, repeat: Any) -> str | None:
    """The predicate of a repeat as an expression."""
    return pred if pred is None or isinstance(pred, str) else str(pred.at(repeat))


def held_before(cx: Any, dst: Any, pred: Any, repeat: Any, slot: Slot, dtype: DType) -> list[str] | None:
    """What the destination holds before, where that matters: in checked mode, what shows that it is undefined."""
    if dst is not None:
        return elements(dst, repeat, slot)
    return [literal(poison(dtype), dtype)] * slot.lanes if pred is not None and cx.target.checked else None


def emit_repeat(cx: Any, target: Any, repeat: Any, slot: Slot, instruction: Instruction) -> None:
    """Write a repeat whose result goes to elements of a tile."""
    for place, found in zip(elements(target, repeat, slot), emit_instruction(cx, instruction), strict=True):
        cx.line(f"{place} = {found};")


@apply_atom.emit
@apply_atom_apart.emit
def _emit(
    cx: Any, results: Any, dst: Any, sources: Any, pred: Any, atom: Atom, dtype: DType, run: int, everyone: bool
) -> None:
    target, slot = cx.tile(results[0]), atom.slots[0]
    for repeat in each_repeat(cx, target.type, slot, run, everyone):
        given = sources_of(cx, sources, repeat, atom)
        held = held_before(cx, dst, pred, repeat, slot, dtype)
        instruction = Instruction(atom, given, dtype, "", predicate_of(pred, repeat), held)
        emit_repeat(cx, target, repeat, slot, instruction)


@apply_atom.adjoint
@apply_atom_apart.adjoint
def _adjoint(cx: Any, grad: Any, value: Any, result: Any, atom: Atom) -> dict[str, Any]:
    return gradients(cx, grad, value, result, atom)
