"""Rows of the first table: names that are bound to tiles."""

from __future__ import annotations

import numpy as np

import tilekit as tk
from tests.from_warp.rows import A, row, run


@row("`p, q = a, c` shares the tiles of `a` and `c`, where `p = a` copies: `p += 1` changes `a`")
def _() -> None:
    @tk.kernel
    def k(x: tk.array2d[float], out: tk.array1d[float]):
        a = tk.tile_load(x[0], shape=4)
        c = tk.tile_load(x[1], shape=4)
        p, q = a, c
        p += 1.0
        q += 2.0
        tk.tile_store(out, a + c * 100.0)

    assert np.array_equal(run(k, A), A[0] + A[1] * 100)


@row("`p, q = x[0], x[1]` reads `x` when `p` is used: after `x[0] = 5` `p` is 5")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array1d[float]):
        x = tk.tile_load(a[1], shape=4)
        p, q = x[0], x[1]
        x[0] = 50.0
        tk.tile_store(out, x * p + q)

    assert np.array_equal(run(k, A), np.float32([50, 5, 6, 7]) * 4 + 5)


@row("`a, c = c, a` in a run-time loop makes both the same tile")
def _() -> None:
    @tk.kernel
    def k(x: tk.array2d[float], n: int, out: tk.array1d[float]):
        a = tk.tile_load(x[0], shape=4)
        c = tk.tile_load(x[1], shape=4)
        for _ in range(n):
            a, c = c, a
        tk.tile_store(out, a + c * 100.0)

    assert np.array_equal(run(k, A, 4), A[0] + A[1] * 100)
    assert np.array_equal(run(k, A, 5), A[1] + A[0] * 100)


@row("`v = v + 1` of a view in a run-time loop writes the tile under it")
def _() -> None:
    @tk.kernel
    def k(x: tk.array2d[float], n: int, out: tk.array1d[float]):
        a = tk.tile_load(x[0], shape=4)
        v = a[0:2]
        for _ in range(n):
            v = v + 1.0
        a[2:4] = v
        tk.tile_store(out, a)

    assert run(k, A, 3).tolist() == [0, 1, 3, 4]


@row("`t = t + 1` of a parameter of a `@wp.func` in a run-time loop writes the caller's tile")
def _() -> None:
    @tk.func
    def grown(t: tk.tile[float, 4], n: int):
        for _ in range(n):
            t = t + 1.0
        return t

    @tk.kernel
    def k(x: tk.array2d[float], n: int, out: tk.array1d[float]):
        a = tk.tile_load(x[0], shape=4)
        b = grown(a, n)
        tk.tile_store(out, a + b * 100.0)

    assert np.array_equal(run(k, A, 3), A[0] + (A[0] + 3) * 100)
