"""Elementwise ops over many registers become one loop, loads where they are first read, and mean the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.emulator import EmulatedKernels
from tests.passes.test_choose_gemm import lowered
from tilekit.ir.core import Block
from tilekit.runtime.program import compile_kernel

F2 = tk.array2d[float]
H2 = tk.array2d[tk.float16]
M, N = 64, 96
"""48 elements for each of 128 threads."""


@tk.kernel
def sunk(a: H2, b: H2, c: F2, d: F2):
    """Both are read before anything else, and used after it."""
    i, j = tk.tid()
    x = tk.tile_load(a, shape=(M, N), offset=(i * M, j * N))
    y = tk.tile_load(b, shape=(M, N), offset=(i * M, j * N))
    z = tk.tile_load(c, shape=(M, N), offset=(i * M, j * N))
    z = tk.tile_map(tk.sqrt, z) + tk.tile_astype(x, float)
    tk.tile_store(d, z * tk.tile_astype(y, float), offset=(i * M, j * N))


@tk.kernel
def twice(a: H2, b: H2, c: F2, d: F2):
    """What is made of the sum is used after the loop as well."""
    i, j = tk.tid()
    x = tk.tile_astype(tk.tile_load(a, shape=(M, N), offset=(i * M, j * N)), float)
    y = x + tk.tile_astype(tk.tile_load(b, shape=(M, N), offset=(i * M, j * N)), float)
    z = y * tk.tile_load(c, shape=(M, N), offset=(i * M, j * N))
    tk.tile_store(c, z, offset=(i * M, j * N))
    tk.tile_store(d, y - z, offset=(i * M, j * N))


@tk.kernel
def written(a: H2, b: H2, c: F2, d: F2):
    """What is read before a store is not read after it."""
    i, j = tk.tid()
    old = tk.tile_load(d, shape=(M, N), offset=(i * M, j * N))
    x = tk.tile_load(c, shape=(M, N), offset=(i * M, j * N))
    tk.tile_store(d, x * 2.0, offset=(i * M, j * N))
    tk.tile_store(c, old + x, offset=(i * M, j * N))


@tk.kernel
def in_a_loop(a: H2, b: H2, c: F2, d: F2):
    """What is read before a loop is not read in it, and what is read after it is."""
    i, j = tk.tid()
    x = tk.tile_load(c, shape=(M, N), offset=(i * M, j * N))
    y = tk.tile_load(a, shape=(M, N), offset=(i * M, j * N))
    total = tk.tile_zeros(shape=(M, N), dtype=float)
    for k in range(a.shape[0] / M):
        z = tk.tile_astype(tk.tile_load(b, shape=(M, N), offset=(k * M, j * N)), float)
        total = total + z * x
    tk.tile_store(d, total + tk.tile_astype(y, float), offset=(i * M, j * N))


@tk.kernel
def broadcast(a: H2, b: H2, c: F2, d: F2):
    """A row lies in memory, where a loop reads it that would otherwise be two."""
    i, j = tk.tid()
    x = tk.tile_load(a, shape=(M, N), offset=(i * M, j * N))
    row = tk.tile_load(c, shape=(1, N), offset=(i * M, j * N)) * 2.0
    y = tk.tile_astype(x, float) + tk.tile_load(d, shape=(M, N), offset=(i * M, j * N))
    tk.tile_store(d, y + tk.tile_broadcast(row, shape=(M, N)), offset=(i * M, j * N))


LOAD, MAP = "tile_load", "map_elements"
KERNELS = {
    sunk: [[LOAD, LOAD, LOAD, MAP]],
    twice: [[LOAD, LOAD, MAP, LOAD, MAP]],
    written: [[LOAD, MAP]],
    in_a_loop: [[LOAD, MAP], [LOAD, MAP]],
    broadcast: [[LOAD, LOAD, MAP]],
}
"""With the ops of their loops over registers."""


def loops(block: Block) -> list[list[str]]:
    """The ops of each loop over registers."""
    found = []
    for op in block.ops:
        if op.builtin.name == "fused_elements":
            found.append([inner.builtin.name for inner in op.blocks[0].ops])
        else:
            found += [loop for inner in op.blocks for loop in loops(inner)]
    return found


def names(kernel: tk.Kernel) -> list[str]:
    """Of the ops of a function, without the points where threads wait."""
    found = [op.builtin.name for op in lowered(kernel)[0].body.ops]
    return [name for name in found if name != "barrier"]


def arguments() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    shape = 2 * M - 5, 2 * N
    return [rng.random(shape).astype(dtype) for dtype in ("f2", "f2", "f4", "f4")]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_neighbours_are_one_loop(kernel: tk.Kernel) -> None:
    fn, _, storage = lowered(kernel)
    assert loops(fn.body) == KERNELS[kernel]
    assert storage.size == (N * 4 if kernel is broadcast else 0)


def test_a_load_waits_for_its_reader_but_not_for_longer_than_until_a_store() -> None:
    assert names(written)[-5:] == ["fused_elements", LOAD, "tile_store", MAP, "tile_store"]
    assert names(in_a_loop)[-5:] == ["tile_full", LOAD, "for_range", "fused_elements", "tile_store"]


def test_few_registers_stay_as_they_are() -> None:
    @tk.kernel
    def small(a: H2, b: F2):
        tk.tile_store(b, tk.tile_astype(tk.tile_load(a, shape=(64, 64)), float))

    fn, _, _ = lowered(small)
    assert loops(fn.body) == []


def test_they_mean_the_same(tmp_path: Path) -> None:
    found = [compile_kernel(kernel, device="cuda", arch="90a") for kernel in KERNELS]
    emulated = EmulatedKernels([each.generated for each in found], tmp_path)
    for number, kernel in enumerate(KERNELS):
        want, got = arguments(), arguments()
        grid = (2, 2)
        tk.launch_tiled(kernel, dim=grid, inputs=want, device="interpret")
        emulated.launch(number, grid, dict(zip("abcd", got, strict=True)))
        for a, b in zip(want, got, strict=True):
            np.testing.assert_array_equal(a, b)
