"""What PTX registers hold of values: in NumPy and in C++, from and to elements of the dtypes that carry them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilekit.builtins.atom_values import evaluate
from tilekit.builtins.atoms import Atom, Slot
from tilekit.codegen.text import cpp_type
from tilekit.ir.core import Const
from tilekit.ir.interpret import from_memory, to_memory
from tilekit.ir.types import DType, bfloat16, to_numpy_scalar

_OF_BITS = {8: ("h", "tk::u16"), 16: ("h", "tk::u16"), 32: ("r", "tk::u32"), 64: ("l", "tk::u64")}
_FLOATS = {"f32": ("f", "tk::f32"), "f64": ("d", "tk::f64")}


def constraint(slot: Slot) -> str:
    """The letter by which inline assembly takes a register of the slot."""
    return _register(slot)[0]


def held_type(slot: Slot) -> str:
    """The C++ type of a register of the slot; assembly has none of 8 bits."""
    return _register(slot)[1]


def memory_type(slot: Slot) -> str:
    """The C++ type of what a load or store moves for a register of the slot."""
    return "tk::u8" if slot.carriers[0].bits == 8 else held_type(slot)


def read_slots(atom: Atom) -> list[Slot]:
    """The operands that an atom reads from registers."""
    return [slot for slot in atom.slots if slot.access == "r" and slot.kind == "register"]


def _register(slot: Slot) -> tuple[str, str]:
    return _FLOATS.get(slot.ptx_type) or _OF_BITS[slot.carriers[0].bits]


def to_register(value: str, dtype: DType, slot: Slot) -> str:
    """The C++ of an element as a register of the slot."""
    held = held_type(slot)
    if cpp_type(dtype) == held:
        return value
    if dtype.is_float and dtype.bits == 16:
        return f"{value}.bits"
    return f"tk::bit_cast<{held}>({value})" if dtype.is_float else f"({held}){value}"


def from_register(value: str, dtype: DType, slot: Slot) -> str:
    """The C++ of a register of the slot as an element."""
    element = cpp_type(dtype)
    if element == held_type(slot):
        return value
    if dtype.is_float and dtype.bits == 16:
        return f"{element}{{{value}}}"
    return f"tk::bit_cast<{element}>({value})" if dtype.is_float else f"({element}){value}"


def immediate(operand: Any, slot: Slot) -> str | None:
    """A constant as it stands in PTX, by its bits; None for what is passed in a register."""
    if not isinstance(operand, Const) or slot.ptx_type not in _FLOATS or slot.kind == "memory":
        return None
    number = to_numpy_scalar(operand.value, slot.carriers[0])
    bits = int(np.asarray(number).view(f"u{number.itemsize}"))
    return f"0f{bits:08X}" if slot.ptx_type == "f32" else f"0d{bits:016X}"


# The interpreter.


def computed(atom: Atom, registers: Sequence[Any]) -> Any:
    """The destination's registers, from those of the operands."""
    given = np.broadcast_arrays(*registers)
    return evaluate(atom, [values.reshape(-1) for values in given]).reshape(given[0].shape)


def _numpy(slot: Slot) -> np.dtype[Any]:
    """16-bit floats are their bits, everything else is the natural dtype's number."""
    first = slot.carriers[0]
    return np.dtype(np.uint16) if first.is_float and first.bits == 16 else first.numpy


def data_to_register(values: Any, dtype: DType, slot: Slot) -> Any:
    """Elements as the interpreter's arithmetic takes them."""
    found = to_memory(np.asarray(values), dtype, np.dtype(np.uint16))
    return np.ascontiguousarray(found).view(_numpy(slot)).reshape(np.shape(values))


def data_from_register(values: Any, dtype: DType) -> Any:
    """What the interpreter's arithmetic gives, as elements."""
    found = np.ascontiguousarray(values)
    if dtype is bfloat16:
        return from_memory(found.view(np.uint16), bfloat16).reshape(np.shape(values))
    return found.view(dtype.numpy).reshape(np.shape(values))
