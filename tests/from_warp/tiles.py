"""Rows about elements, shapes and views of tiles and arrays."""

from __future__ import annotations

import numpy as np

import tilekit as tk
from tests.from_warp.rows import A, row, run


@row("`a[i] += 1` and its kin are not atomic in arrays of 8 and 16-bit integers")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[tk.uint8]):
        out[1] += tk.uint8(1)

    for _ in range(5):
        out = np.zeros(3, np.uint8)
        tk.launch(k, dim=100_000, outputs=[out])
        assert out.tolist() == [0, 100_000 % 256, 0]


@row("reductions have no `keepdims`, and `t[:, None]` is refused")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(4, 4))
        tk.tile_store(out, tk.tile_sum(t, axis=1, keepdims=True))
        tk.tile_store(out, t[0][:, None], offset=(0, 1))

    assert run(k, A, size=(4, 2)).tolist() == np.stack([A.sum(1), A[0]], 1).tolist()


@row("`t + u` of tiles with other extents is refused")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(4, 4))
        tk.tile_store(out, tk.where(t > t[1:2], t + t[:, 0:1], 0.0))

    assert run(k, A, size=(4, 4)).tolist() == np.where(A > A[1:2], A + A[:, :1], 0).tolist()
