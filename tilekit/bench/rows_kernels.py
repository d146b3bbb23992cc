"""Kernels of rows and of matrices, written plainly: softmax, norms, column sums, transposes."""

from __future__ import annotations

from typing import Any

import tilekit as tk

EPSILON = 1e-5
"""Added to a variance."""


def softmax(dtype: Any, total: Any, rows: int, columns: int) -> Any:
    """``exp(x) / sum(exp(x))`` of each row, ``rows`` of them a block."""

    @tk.kernel
    def softmax(x: tk.array2d[dtype], out: tk.array2d[dtype]) -> None:
        at = (tk.tid() * rows, 0)
        t = tk.tile_astype(tk.tile_load(x, shape=(rows, columns), offset=at), total)
        e = tk.exp(t - tk.tile_max(t, axis=1, keepdims=True))
        e = e / tk.tile_sum(e, axis=1, keepdims=True)
        tk.tile_store(out, tk.tile_astype(e, dtype), offset=at)

    return softmax


def layer_norm(dtype: Any, total: Any, rows: int, columns: int) -> Any:
    """Each row with mean 0 and variance 1, times ``weight`` plus ``bias``."""

    @tk.kernel
    def layer_norm(
        x: tk.array2d[dtype], weight: tk.array1d[dtype], bias: tk.array1d[dtype], out: tk.array2d[dtype]
    ) -> None:
        at = (tk.tid() * rows, 0)
        t = tk.tile_astype(tk.tile_load(x, shape=(rows, columns), offset=at), total)
        t = t - tk.tile_sum(t, axis=1, keepdims=True) / total(columns)
        variance = tk.tile_sum(t * t, axis=1, keepdims=True) / total(columns)
        t = t * tk.rsqrt(variance + total(EPSILON))
        t = t * tk.tile_astype(tk.tile_load(weight, shape=columns), total)[None, :]
        t = t + tk.tile_astype(tk.tile_load(bias, shape=columns), total)[None, :]
        tk.tile_store(out, tk.tile_astype(t, dtype), offset=at)

    return layer_norm


def rms_norm(dtype: Any, total: Any, rows: int, columns: int) -> Any:
    """Each row with a mean square of 1, times ``weight``."""

    @tk.kernel
    def rms_norm(x: tk.array2d[dtype], weight: tk.array1d[dtype], out: tk.array2d[dtype]) -> None:
        at = (tk.tid() * rows, 0)
        t = tk.tile_astype(tk.tile_load(x, shape=(rows, columns), offset=at), total)
        square = tk.tile_sum(t * t, axis=1, keepdims=True) / total(columns)
        t = t * tk.rsqrt(square + total(EPSILON))
        t = t * tk.tile_astype(tk.tile_load(weight, shape=columns), total)[None, :]
        tk.tile_store(out, tk.tile_astype(t, dtype), offset=at)

    return rms_norm


def column_sum(dtype: Any, total: Any, rows: int, columns: int) -> Any:
    """Sums of columns, ``columns`` of them a block: row ``i`` of ``out`` sums the ``i``-th ``steps * rows`` rows."""

    @tk.kernel
    def column_sum(x: tk.array2d[dtype], steps: int, out: tk.array2d[total]) -> None:
        i, j = tk.tid()
        found = tk.tile_zeros(shape=(rows, columns), dtype=total)
        for step in range(steps):
            t = tk.tile_load(x, shape=(rows, columns), offset=((i * steps + step) * rows, j * columns))
            found = found + tk.tile_astype(t, total)
        tk.tile_store(out, tk.tile_sum(found, axis=0, keepdims=True), offset=(i, j * columns))

    return column_sum


def transpose(dtype: Any, side: int) -> Any:
    """``out = x.T``, a square of ``side`` rows and columns a block."""

    @tk.kernel
    def transpose(x: tk.array2d[dtype], out: tk.array2d[dtype]) -> None:
        i, j = tk.tid()
        t = tk.tile_load(x, shape=(side, side), offset=(i * side, j * side))
        tk.tile_store(out, tk.tile_transpose(t), offset=(j * side, i * side))

    return transpose
