"""What loops carry, and where they stand."""

from __future__ import annotations

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
