"""Many atoms in one kernel, on operands that tell them apart: what one device gives is held against another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tilekit as tk
from tests.builtins.atom_cases import operands_of
from tilekit.builtins.atoms import Atom, atoms
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.types import ArrayType, DType

SIZE = 128
"""Elements of a tile."""
TOGETHER = 24
"""Atoms of one kernel."""


@dataclass(frozen=True)
class Batch:
    """Atoms of one signature, and operands for all of them."""

    atoms: tuple[Atom, ...]
    operands: tuple[np.ndarray[Any, Any], ...]

    @property
    def dtype(self) -> DType:
        return self.atoms[0].slots[0].carriers[0]

    def function(self) -> Function:
        """The kernel as it is traced: three arrays, of which it reads one for each operand, and the results."""
        types = [slot.carriers[0] for slot in self.atoms[0].slots[1:]]
        kernel = kernel_of(self.atoms, len(types), self.dtype)
        given = [ArrayType(dtype, 1) for dtype in (types * 3)[:3]]
        return kernel.trace(dict(zip(kernel.parameters, (*given, ArrayType(self.dtype, 2)), strict=True)), LaunchForm())

    def arguments(self) -> dict[str, Any]:
        """Arrays for a run; ``Out`` gets a row for each atom."""
        found = np.zeros((len(self.atoms), self.operands[0].size), memory_dtype(self.dtype))
        return {**dict(zip("ABC", (self.operands * 3)[:3], strict=True)), "Out": found}

    @property
    def grid(self) -> tuple[int, ...]:
        return (self.operands[0].size // SIZE,)


def kernel_of(applied: tuple[Atom, ...], count: int, dtype: DType) -> Any:
    @tk.kernel
    def apply_all(A: tk.array1d[Any], B: tk.array1d[Any], C: tk.array1d[Any], Out: tk.array2d[Any]):
        start = tk.tid() * SIZE
        given = (tk.tile_load(A, SIZE, start), tk.tile_load(B, SIZE, start), tk.tile_load(C, SIZE, start))
        for row in tk.static_range(len(applied)):
            found = tk.tile_empty(SIZE, dtype=dtype)
            tk.tile_apply(applied[row], found, *given[:count])
            tk.tile_store(Out, tk.tile_reshape(found, (1, SIZE)), offset=(row, start))

    return apply_all


def memory_dtype(dtype: DType) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16) if dtype is tk.bfloat16 else dtype.numpy


def register_atoms(arch: str) -> list[Atom]:
    """Those of one result and at most three operands in registers, that a GPU has."""
    return [atom for atom in atoms() if atom.runs_on(arch) and all(s.kind == "register" for s in atom.slots)]


def one_of_each_kind(found: Iterable[Atom]) -> list[Atom]:
    """Atoms among which each mnemonic has every type of a result and of operands that it takes."""
    kept: dict[Any, Atom] = {}
    for atom in found:
        to, *of = (slot.ptx_type for slot in atom.slots)
        for kind in ((atom.mnemonic, to), (atom.mnemonic, tuple(of), "operands")):
            kept.setdefault(kind, atom)
    return list(dict.fromkeys(kept.values()))


def batches(found: Sequence[Atom], count: int, seed: int = 1) -> list[Batch]:
    """The atoms by signature, with about so many operands each."""
    groups: dict[Any, list[Atom]] = {}
    for atom in found:
        groups.setdefault(tuple((slot.ptx_type, slot.carriers[0]) for slot in atom.slots), []).append(atom)
    batched = []
    for signature, members in groups.items():
        given = operands_of([type for type, _ in signature[1:]], count, seed)
        whole = -(-given[0].size // SIZE) * SIZE
        operands = tuple(
            np.ascontiguousarray(np.resize(bits, whole).astype(f"u{dtype.itemsize}")).view(memory_dtype(dtype))
            for bits, (_, dtype) in zip(given, signature[1:], strict=True)
        )
        for first in range(0, len(members), TOGETHER):
            batched.append(Batch(tuple(members[first : first + TOGETHER]), operands))
    return batched


def differing(batch: Batch, one: Any, other: Any, limit: int = 3) -> list[str]:
    """Where two devices' results differ, as text."""
    bits = [np.ascontiguousarray(found["Out"]).view(f"u{found['Out'].itemsize}") for found in (one, other)]
    unequal = bits[0] != bits[1]
    texts = []
    for row, atom in enumerate(batch.atoms):
        for place in np.flatnonzero(unequal[row])[:limit]:
            given = ", ".join(f"{int(v.view(f'u{v.itemsize}')[place]):x}" for v in batch.operands)
            texts.append(f"{atom}({given}): {int(bits[0][row, place]):x} and {int(bits[1][row, place]):x}")
    return texts
