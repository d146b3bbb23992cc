"""What a call of ``tile_apply`` gives an atom: checked against its slots, and brought into one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilekit.builtins.atom_bounds import repeats_of
from tilekit.builtins.atom_ops import shape_of
from tilekit.builtins.atoms import Atom, Slot
from tilekit.builtins.overlap import refuse_shifted
from tilekit.errors import KernelTypeError, KernelValueError, counted, shown
from tilekit.ir.core import Const
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile
from tilekit.ir.operands import constant, describe, describe_for_tile
from tilekit.ir.types import DType, bfloat16, bool_, float64, int32, to_numpy_scalar, uint32
from tilekit.ir.views import ViewMap


@dataclass(frozen=True)
class Operands:
    """The operands of one call, in the order of the slots, and its repeats."""

    atom: Atom
    given: tuple[Any, ...]
    repeats: tuple[int, ...]


def matched(atom: Atom, given: Sequence[Any]) -> Operands:
    """The operands under that form of the atom that takes them.

    Raises:
        KernelTypeError: too many or too few, or one that its slot does not take.
        KernelValueError: their repeats differ, or the destination overlaps a source.
    """
    forms = (atom, *atom.variants)
    fitting = [form for form in forms if len(form.slots) == len(given)]
    if not fitting:
        wanted = " or ".join(f"({form.operands})" for form in forms)
        raise KernelTypeError(f"{atom} takes {counted(len(atom.slots), 'operand')}, {wanted}, got {len(given)}")
    form = next((form for form in fitting if _has_registers(form, given)), fitting[0])
    items = [_operand(form, slot, item) for slot, item in zip(form.slots, given, strict=True)]
    repeats = _repeats(form, items)
    items = [_shaped(item, slot, repeats) for item, slot in zip(items, form.slots, strict=True)]
    _check_overlap(form, items)
    return Operands(form, tuple(items), repeats)


def _has_registers(form: Atom, given: Sequence[Any]) -> bool:
    """Whether the dtypes of the tiles are those of a form: they tell forms with several registers an operand apart."""
    return all(
        item.dtype in slot.carriers for slot, item in zip(form.slots, given, strict=True) if isinstance(item, Tile)
    )


def _operand(atom: Atom, slot: Slot, item: Any) -> Any:
    if slot.kind == "memory":
        return _memory(atom, slot, item)
    if isinstance(item, Array):
        raise KernelTypeError(
            f"{atom}: operand {slot.name} is {describe(item)}, but it takes registers; load a tile of it with "
            f'tk.ptx["ld.global.{slot.ptx_type}"] or tk.tile_load'
        )
    if isinstance(item, Tile):
        _check_dtype(atom, slot, item.dtype, item)
        return item
    if slot.access == "w":
        raise KernelTypeError(
            f"{atom}: the destination {slot.name} must be a tile, got {describe_for_tile(item)}; a scalar cannot be "
            f"written, make a tile with tk.tile_empty(shape=..., dtype=tk.{slot.carriers[0].name})"
        )
    return _scalar(atom, slot, item)


def _memory(atom: Atom, slot: Slot, item: Any) -> Array:
    if not isinstance(item, Array):
        raise KernelTypeError(f"{atom}: operand {slot.name} is memory and must be an array, got {describe(item)}")
    _check_dtype(atom, slot, item.dtype, item)
    return item


def _check_dtype(atom: Atom, slot: Slot, dtype: DType, item: Any) -> None:
    if dtype in slot.carriers:
        return
    names, instead = " or ".join(carrier.name for carrier in slot.carriers), _instead(slot, dtype, item)
    raise KernelTypeError(
        f"{atom}: operand {slot.name} (.{slot.ptx_type}) takes {names}, got {describe(item)}{instead}"
    )


def _instead(slot: Slot, dtype: DType, item: Any) -> str:
    """What to write where the dtype is wrong."""
    wanted = slot.carriers[0]
    packed = {"f16x2": "float16", "bf16x2": "bfloat16", "f32x2": "float32"}.get(slot.ptx_type)
    if packed is not None:
        if not isinstance(item, Tile):
            return f"; write tk.pack2(low, high, tk.{packed})"
        if dtype.name == packed:
            return f"; view pairs of its elements with tk.tile_bitcast(t, tk.{wanted.name})"
        return ""
    if isinstance(item, Tile):
        return f"; atoms do not convert their operands: use tk.tile_astype(t, tk.{wanted.name})"
    if isinstance(item, Array):
        return f"; loads and stores do not convert: spell a type of its width, such as .b{dtype.bits}"
    number = f"tk.{wanted.name}(...)"
    if type(item) is int and wanted.is_float:
        number = repr(float(to_numpy_scalar(item, float64)))
    return f"; atoms do not convert their operands: write {number}"


def _scalar(atom: Atom, slot: Slot, item: Any) -> Any:
    """A number as an operand of one of the slot's carriers."""
    if slot.lanes > 1:
        raise KernelTypeError(f"{atom}: operand {slot.name} has {slot.lanes} registers, got {describe(item)}")
    if isinstance(item, Scalar):
        _check_dtype(atom, slot, item.dtype, item)
        return item
    found = constant(item)
    if found is None:
        raise KernelTypeError(f"{atom}: operand {slot.name} must be a tile or a number, got {describe(item)}")
    if not found.type.weak:
        _check_dtype(atom, slot, found.type.dtype, item)
        return item
    return _literal(atom, slot, item, found)


def _literal(atom: Atom, slot: Slot, item: Any, found: Const) -> Any:
    """A Python number: it adopts the dtype of a slot of its kind, and is refused by packed ones."""
    dtype = slot.carriers[0]
    bits = slot.ptx_type[0] == "b" or slot.ptx_type.endswith("x2")
    if bits or found.type.dtype.is_float != dtype.is_float:
        _check_dtype(atom, slot, _NONE, item)
    if dtype.is_integer and not dtype.holds(int(found.value)):
        raise KernelValueError(f"{atom}: operand {slot.name}: the constant {shown(item)} does not fit {dtype.name}")
    return OPERATORS["cast"](item, dtype) if dtype is bfloat16 else to_numpy_scalar(item, dtype)


_NONE = DType("none", "n", 0)
"""The dtype of a literal where none will do."""


# Repeats.


def _repeats(atom: Atom, items: Sequence[Any]) -> tuple[int, ...]:
    """The repeats of the tiles, which must agree."""
    found: dict[str, tuple[int, ...]] = {}
    for slot, item in zip(atom.slots, items, strict=True):
        if not isinstance(item, Tile):
            continue
        if slot.lanes > 1 and (not item.shape or item.shape[-1] % slot.lanes):
            raise KernelValueError(
                f"{atom}: operand {slot.name} takes {slot.lanes} registers a repeat, but the last extent of "
                f"{describe(item)} is not a multiple of {slot.lanes}"
            )
        found[slot.name] = repeats_of(item.shape, slot.lanes)
    if not found:
        raise KernelTypeError(f"{atom} needs a tile, whose shape gives the number of repeats; all operands are numbers")
    first = next(iter(found.values()))
    if any(not _agree(first, shape) for shape in found.values()):
        shown = ", ".join(f"{name} has {shape}" for name, shape in found.items())
        raise KernelValueError(
            f"{atom}: the repeats of its operands differ: {shown}; tiles are not broadcast, use tk.tile_broadcast"
        )
    return first


def _agree(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two shapes are the same but for one last extent of 1."""
    return a == b or a == (*b, 1) or (*a, 1) == b


def _shaped(item: Any, slot: Slot, repeats: tuple[int, ...]) -> Any:
    """A tile in the shape that goes with the repeats."""
    if not isinstance(item, Tile):
        return item
    shape = shape_of(repeats, slot.lanes)
    if item.shape == shape:
        return item
    return Tile.view(item, ViewMap.identity(shape))


def _check_overlap(atom: Atom, items: Sequence[Any]) -> None:
    (to, out), *others = zip(atom.slots, items, strict=True)
    for slot, item in others if isinstance(out, Tile) else ():
        if isinstance(item, Tile):
            refuse_shifted(out, item, f"{atom}: the destination {to.name} and operand {slot.name}")


# The predicate.


def predicate(atom: Atom, pred: Any, repeats: tuple[int, ...]) -> Any:
    """The predicate: None, one bool, or a tile of them with one a repeat.

    Raises:
        KernelTypeError: it is something else.
        KernelValueError: a tile of another shape.
    """
    if pred is None or isinstance(pred, bool | np.bool_):
        return pred if pred is None else bool(pred)
    if isinstance(pred, Scalar) and pred.dtype in (bool_, int32, uint32):
        return pred if pred.dtype == bool_ else OPERATORS["!="](pred, 0)
    if not isinstance(pred, Tile) or pred.dtype != bool_:
        raise KernelTypeError(
            f"{atom}: pred must be a bool, an int32 or uint32, or a tile of bools, got {describe(pred)}"
        )
    if not _agree(pred.shape, repeats):
        raise KernelValueError(f"{atom}: pred is {describe(pred)}, but the repeats are {repeats}; they must agree")
    return pred if pred.shape == repeats else Tile.view(pred, ViewMap.identity(repeats))
