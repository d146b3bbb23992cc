"""What loops carry, and where they stand."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk


@tk.kernel
def carries_two(a: tk.array2d[float], out: tk.array2d[float], n: int):
    total = tk.tile_zeros(shape=(4, 8), dtype=float)
    kept = tk.tile_ones(shape=(4, 8), dtype=float)
    same = tk.tile_ones(shape=(4, 8), dtype=float)
    for k in range(n):
        total += tk.tile_load(
            a,
            shape=(4, 8),
            offset=(k * 4, 0),
        )
        while k > 2:
            k = k - 1
            kept = kept + same
    tk.tile_store(out, total)
    tk.tile_store(out, kept)


def test_a_loop_carries_what_its_body_changes_and_nothing_else() -> None:
    ops = list(walk(carries_two.trace(carries_two.default_types(), LaunchForm()).body))
    (loop,) = [op for op in ops if op.builtin.name == "for_range"]
    (inner,) = [op for op in ops if op.builtin.name == "while_loop"]
    assert [str(value.type) for value in loop.results] == ["tile<4x8xf32>"] * 2
    assert [str(value.type) for value in inner.results] == ["i32", "tile<4x8xf32>"]


def test_a_region_stands_at_the_head_of_its_statement() -> None:
    ops = list(walk(carries_two.trace(carries_two.default_types(), LaunchForm()).body))
    shown = [op.location.excerpt().splitlines() for op in ops if op.blocks and not op.builtin.cooperative]
    assert shown == [["    for k in range(n):", "    " + "^" * 17], ["    while k > 2:", "    " + "^" * 11]]


@tk.kernel
def counts(a: int, b: int, s: int, out: tk.array1d[tk.int32]):
    for _ in range(a, b, s):
        out[0] += 1
        if out[0] > 99:
            return
    for _ in range(a, b, s):
        out[1] += 1
    for _ in range(a, b, 5):
        out[2] += 1
    for _ in range(a, b, -3):
        out[3] += 1
        if out[3] > 99:
            break


@pytest.mark.parametrize(("a", "b", "s"), [(2**31 - 8, 2**31 - 1, 5), (-(2**31) + 4, -(2**31), -3), (0, 9, 2)])
@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_an_index_does_not_wrap_past_the_end_of_its_range(a: int, b: int, s: int, device: str) -> None:
    out = np.zeros(4, np.int32)
    tk.launch_tiled(counts, dim=1, inputs=[a, b, s, out], device=device)
    assert out.tolist() == [len(range(a, b, s)), len(range(a, b, s)), len(range(a, b, 5)), len(range(a, b, -3))]
