"""Kernels of one loop over K, in every order of the factors: what tests compile for backends and architectures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilekit as tk

Tile = tuple[int, int, int]
Epilogue = Callable[[Any], Any]


def product(
    tile: Tile,
    dtype: Any,
    out: Any = None,
    precision: str = "default",
    after: Epilogue = lambda t: t,
    order: str = "NN",
    **options: Any,
) -> tk.Kernel:
    """A kernel of a tile of products, stored as ``out``, by default the dtype of the sums.

    ``order`` says of each factor whether its array holds it as it is (N) or transposed (T).
    """
    m, n, k = tile
    total = tk.float64 if dtype is tk.float64 else tk.float32
    stored = total if out is None else out

    @tk.kernel(**options)
    def gemm(a: tk.array2d[dtype], b: tk.array2d[dtype], c: tk.array2d[stored], steps: int):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(m, n), dtype=total)
        for s in range(steps):
            if order[0] == "T":
                x = tk.tile_transpose(tk.tile_load(a, shape=(k, m), offset=(s * k, i * m)))
            else:
                x = tk.tile_load(a, shape=(m, k), offset=(i * m, s * k))
            if order[1] == "T":
                y = tk.tile_transpose(tk.tile_load(b, shape=(n, k), offset=(j * n, s * k)))
            else:
                y = tk.tile_load(b, shape=(k, n), offset=(s * k, j * n))
            tk.tile_matmul(x, y, acc, precision=precision)
        tk.tile_store(c, tk.tile_astype(after(acc), stored), offset=(i * m, j * n))

    return gemm
