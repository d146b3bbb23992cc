"""What an H200 (driver of CUDA 13.0) gave for atoms where the PTX ISA is silent: measured, not computed.

``measured_atoms.npz.xz`` holds a part of it; ``python -m tests.native.probe_atoms FOLDER`` asks a GPU to make it anew.
"""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FILE = Path(__file__).parent / "measured_atoms.npz.xz"
ROWS = {"ftz": 500, "nans": 60, "others": 300, "fma": 4096}
"""How many operands of each form are kept: of each family of triples, of NaNs, of those near the least normal number;
and all that combine special numbers."""
APPROXIMATED = "tanh.approx.bf16"
"""The only approximation that is less exact than the ISA says; of it are the results of all operands."""


@cache
def kept() -> dict[str, list[Array]]:
    """By spelling the results' bits, and those of each operand."""
    return read(FILE)


def read(file: Path) -> dict[str, list[Array]]:
    """The same of another file."""
    found: dict[str, list[Array]] = {}
    with np.load(io.BytesIO(lzma.decompress(file.read_bytes()))) as arrays:
        for key in arrays.files:  # in the order of the places
            found.setdefault(key.rpartition("/")[0], []).append(arrays[key].astype(np.uint64))
    found[APPROXIMATED].append(np.arange(1 << 16, dtype=np.uint64))
    return found


def keep(folder: Path) -> None:
    """Make the file in ``folder`` of what a GPU gave, which is there."""
    found: dict[str, list[Array]] = {}
    for spelling, rows in _measured(folder):
        before = found.get(spelling, [column[:0] for column in rows])
        found[spelling] = [np.concatenate(both) for both in zip(before, rows, strict=True)]
    memory = io.BytesIO()
    np.savez(memory, **{f"{text}/{place}": _narrow(bits) for text in found for place, bits in enumerate(found[text])})
    (folder / FILE.name).write_bytes(lzma.compress(memory.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _measured(folder: Path) -> Iterator[tuple[str, list[Array]]]:
    for type in ("f32", "f16"):
        with np.load(folder / f"ftz_{type}.npz") as file:
            for family, mode in (key.split("/") for key in file.files if "/r" in key):
                names = (mode, *"abc")
                yield f"fma.{mode}.ftz.{type}", [file[f"{family}/{name}"][: ROWS["ftz"]] for name in names]
    for name in ("nans", "others"):
        with np.load(folder / f"{name}.npz") as file:
            columns: dict[str, list[Array]] = {}
            for key in file.files:
                columns.setdefault(key.rpartition("/")[0], []).append(file[key])
            for spelling, rows in columns.items():
                count = ROWS["fma" if spelling.startswith("fma") else name]
                yield spelling, [column[:count] for column in rows]
    with np.load(folder / "half_approx.npz") as file:
        yield APPROXIMATED, [file[APPROXIMATED]]


def _narrow(bits: Array) -> Array:
    """In as few bytes as hold all of them."""
    return bits.astype(np.min_scalar_type(int(bits.max(initial=0))))
