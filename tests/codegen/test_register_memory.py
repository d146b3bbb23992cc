"""What a thread moves at once between an array and a tile in its registers: what is known of the array decides."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.emulator import EmulatedKernels
from tilekit.codegen.target import ArrayClass
from tilekit.runtime.arrays import view_of
from tilekit.runtime.program import compile_kernel
from tilekit.runtime.spec import class_of, dense_class

A2 = tk.array2d[float]
DENSE = dense_class(2)


@tk.kernel
def moved(a: A2, b: A2, by: int):
    i = tk.tid()
    t = tk.tile_load(a, shape=(16, 64), offset=(i * 16, 4))
    tk.tile_store(b, t * 2.0, offset=(i * 16, by))


def packs(**classes: ArrayClass) -> list[tuple[str, str, str]]:
    """Axis, width and whether the width is known, of the load and of the store."""
    source = compile_kernel(moved, device="cuda", arch="90a", arrays=classes).source
    return re.findall(r"tk::(?:load|store)_registers<L0, (\d), (\d), (true|false)", source)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (DENSE, ("1", "4", "true")),
        (replace(DENSE, whole=False), ("1", "4", "false")),  # rows may end inside a pack
        (replace(DENSE, aligned=False, whole=False), ("1", "4", "false")),
        (replace(DENSE, unit_axis=0), ("0", "1", "true")),  # of a column a thread has no neighbours
        (ArrayClass(-1, False, (False, False), False), ("1", "4", "false")),
    ],
    ids=["dense", "ends", "unaligned", "columns", "apart"],
)
def test_packs_are_known_of_whole_aligned_rows_alone(known: ArrayClass, expected: tuple[str, str, str]) -> None:
    load, store = packs(a=known)
    assert load == expected
    assert store == ("1", "4", "false")  # nothing is known of the offset


@pytest.mark.parametrize("columns", [96, 94])
def test_rows_that_end_inside_a_pack_are_another_class(columns: int, tmp_path: Path) -> None:
    rows = np.arange(32 * 96, dtype=np.float32).reshape(32, 96)
    a, b = rows[:, :columns], np.zeros((32, 96), np.float32)
    classes = {name: class_of(aligned(each)) for name, each in (("a", a), ("b", b))}
    found = compile_kernel(moved, device="cuda", arch="90a", arrays=classes)
    assert classes["a"].whole == (columns == 96)
    EmulatedKernels([found.generated], tmp_path).launch(0, (2,), {"a": a, "b": b, "by": 30})
    want = np.zeros((32, 96), np.float32)
    want[:, 30:94] = a[:, 4:68] * 2
    np.testing.assert_array_equal(b, want)


def aligned(array: Any) -> Any:
    """What describes the array, at an address that is a multiple of 16."""
    view = view_of(array)
    view.pointer = 4096
    return view
