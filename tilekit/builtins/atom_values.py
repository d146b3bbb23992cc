"""What atoms compute off the GPU: their functions in the native headers, and their meaning in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilekit.builtins.atom_conversions import FUNCTIONS
from tilekit.builtins.atom_formats import Array
from tilekit.builtins.atom_records import Atom
from tilekit.ir.float_state import ieee_state

_MODIFIERS = {"NaN": "NAN_WINS"}
"""Names in C++ of modifiers that are not simply written large."""
_FLAGS = ("ftz", "sat", "relu", "oob", "satfinite", "NaN", "xorsign", "abs")
_VARIANTS = ("approx", "full")
"""Modifiers that choose another function."""


def _function(atom: Atom) -> str:
    """The name of what computes it, the same in C++ and here."""
    return "_".join((atom.cpu, *(name for name in _VARIANTS if name in atom.flags)))


def cpu_expression(atom: Atom, operands: Sequence[str]) -> str:
    """The C++ expression of an atom's result on the CPU.

    Args:
        atom: An atom of registers.
        operands: Expressions of what the registers hold: floats of 32 and 64 bits as they are, those of 16 bits and
            packed ones as the unsigned integers that are their bits.

    Returns:
        An expression of what the destination's register holds.

    Example:
        >>> import tilekit as tk
        >>> cpu_expression(tk.ptx["add.rz.sat.f32"], ["x", "1.0f"])
        'tk::atom::add<tk::atom::F32, tk::atom::F32, tk::atom::F32, tk::atom::RZ, tk::atom::SAT>(x, 1.0f)'
    """
    if atom.cpu == "mov":
        return operands[0]
    types = [f"tk::atom::{slot.ptx_type[:-2].upper()}x2" if slot.ptx_type.endswith("x2")
             else f"tk::atom::{slot.ptx_type.upper()}" for slot in atom.slots]  # fmt: skip
    rounding = f"tk::atom::{(atom.rounding or 'rn').upper()}"
    flags = [f"tk::atom::{_MODIFIERS.get(flag, flag.upper())}" for flag in _FLAGS if flag in atom.flags]
    arguments = ", ".join((*types, rounding, " | ".join(flags) or "0"))
    return f"tk::atom::{_function(atom)}<{arguments}>({', '.join(operands)})"


def evaluate(atom: Atom, operands: Sequence[Any]) -> Array:
    """The result of an atom in NumPy, bit for bit where the atom is exact.

    Args:
        atom: An atom of registers.
        operands: What the registers hold, arrays that broadcast together: float32, float64 and integers as they are,
            16-bit floats as uint16, packed ones as uint32 and uint64.

    Returns:
        What the destination's registers hold.

    Example:
        >>> import numpy as np
        >>> import tilekit as tk
        >>> third = np.float32(1) / np.float32(3)
        >>> [float(evaluate(tk.ptx[f"div.{r}.f32"], [np.float32(1), np.float32(3)]) - third) for r in ("rm", "rp")]
        [-2.9802322387695312e-08, 0.0]
    """
    given = [np.asarray(values) for values in np.broadcast_arrays(*operands)]
    if atom.cpu == "mov":
        return given[0].copy()
    types = [slot.ptx_type for slot in atom.slots]
    with ieee_state(), np.errstate(all="ignore"):
        found: Array = _computed(_function(atom), types, atom, given)
    return found


def _computed(name: str, types: Sequence[str], atom: Atom, given: Sequence[Array]) -> Any:
    if not types[0].endswith("x2"):
        return FUNCTIONS[name](types, atom.rounding or "rn", atom.flags, *given)
    singles = [type.removesuffix("x2") for type in types]
    if name == "cvt" and len(given) == 2:  # the upper half comes first
        low, high = (
            _computed(name, (singles[0], type), atom, [v]) for type, v in zip(types[:0:-1], given[::-1], strict=True)
        )
        return _joined(low, high)
    halves = [_halves(values, type) for values, type in zip(given, types[1:], strict=True)]
    low, high = (_computed(name, singles, atom, [pair[i] for pair in halves]) for i in (0, 1))
    return _joined(low, high)


def _halves(values: Array, type: str) -> tuple[Any, Any]:
    """The two values of each register, the lower one first, as one register of its type would hold them."""
    half = np.dtype("float32" if type == "f32x2" else "int16" if type == "s16x2" else "uint16")
    pairs = np.ascontiguousarray(values).reshape(-1).view(half).reshape(*values.shape, 2)
    return np.ascontiguousarray(pairs[..., 0]), np.ascontiguousarray(pairs[..., 1])


def _joined(low: Array, high: Array) -> Any:
    whole = np.dtype(f"uint{16 * low.itemsize}")
    return np.stack([low, high], -1).reshape(-1).view(whole).reshape(low.shape)
