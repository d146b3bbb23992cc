"""Kernels that the tests of ``inspect`` look at."""

from __future__ import annotations

from typing import Any

import tilekit as tk


@tk.kernel
def scale(x: tk.array1d[float], factor: float):
    i = tk.tid()
    tk.tile_store(x, tk.tile_load(x, shape=4, offset=i * 4) * factor, offset=i * 4)


@tk.kernel
def generic(x: tk.array(dtype=Any, ndim=2), factor: Any):
    i, j = tk.tid()
    tk.tile_store(x, tk.tile_load(x, shape=(2, 2), offset=(i, j)) * factor, offset=(i, j))


class Holder:
    """Kernels may stand in classes."""

    @tk.kernel
    def wide(x: tk.array1d[tk.float64]):
        tk.tile_store(x, tk.tile_zeros(shape=8, dtype=tk.float64))


@tk.kernel
def wrong(x: tk.array2d[float], y: tk.array2d[float]):
    a = tk.tile_load(x, shape=(4, 3))
    b = tk.tile_load(y, shape=(4, 8))
    tk.tile_store(x, tk.tile_matmul(a, b))


@tk.kernel
def rounded(x: tk.array2d[float]):
    t = tk.tile_load(x, shape=(4, 4))
    tk.tile_store(x, tk.tile_matmul(t, t, precision="tf32"))


@tk.kernel
def doubled(x: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    tk.tile_store(out, 2.0 * tk.tile_load(x, shape=4, offset=i * 4), offset=i * 4)
