"""The kernels of the benchmarks, as tilekit's and as Warp's: one source for both where one will do."""

# No `from __future__ import annotations`: Warp would look for the names in its annotations among the globals.

from typing import Any

import tilekit as tk
from tilekit.bench.gemm_problems import Tile


def gemm(language: Any, dtype: Any, tile: tuple[int, int, int]) -> Any:
    """``c = a @ b``, one tile of ``c`` a block: load, load, multiply in a loop over K, store."""
    m, n, k = tile

    @language.kernel(enable_backward=False)
    def gemm(
        a: language.array2d(dtype=dtype),  # type: ignore[valid-type]
        b: language.array2d(dtype=dtype),  # type: ignore[valid-type]
        c: language.array2d(dtype=dtype),  # type: ignore[valid-type]
        steps: int,
    ):
        i, j = language.tid()
        total = language.tile_zeros(shape=(m, n), dtype=dtype)
        for step in range(steps):
            a_tile = language.tile_load(a, shape=(m, k), offset=(i * m, step * k))
            b_tile = language.tile_load(b, shape=(k, n), offset=(step * k, j * n))
            language.tile_matmul(a_tile, b_tile, total)
        language.tile_store(c, total, offset=(i * m, j * n))

    return gemm


def copy(language: Any) -> Any:
    """Hardly any work, so that its time is that of a launch."""

    @language.kernel(enable_backward=False)
    def copy(
        a: language.array1d(dtype=float),  # type: ignore[valid-type]
        b: language.array1d(dtype=float),  # type: ignore[valid-type]
    ):
        language.tile_store(b, language.tile_load(a, shape=16))

    return copy


def product_loop(dtype: Any, total: Any, tile: Tile, precision: str = "default", gemm: str | None = None) -> Any:
    """``c = a @ b`` with sums of another dtype, rounded once where they are stored; ``gemm`` is its own option."""
    m, n, k = tile

    @tk.kernel(enable_backward=False, module_options={"gemm": gemm})
    def product(
        a: tk.array2d(dtype=dtype),  # type: ignore[valid-type]
        b: tk.array2d(dtype=dtype),  # type: ignore[valid-type]
        steps: int,
        c: tk.array2d(dtype=dtype),  # type: ignore[valid-type]
    ):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(m, n), dtype=total)
        for step in range(steps):
            x = tk.tile_load(a, shape=(m, k), offset=(i * m, step * k))
            y = tk.tile_load(b, shape=(k, n), offset=(step * k, j * n))
            tk.tile_matmul(x, y, acc, precision=precision)
        tk.tile_store(c, tk.tile_astype(acc, dtype), offset=(i * m, j * n))

    return product


def product_batch(dtype: Any, total: Any, tile: Tile, precision: str = "default", gemm: str | None = None) -> Any:
    """Products of square matrices that lie one below the other, one a block; ``steps`` is one."""
    m, n, k = tile

    @tk.kernel(enable_backward=False, module_options={"gemm": gemm})
    def product(
        a: tk.array2d(dtype=dtype),  # type: ignore[valid-type]
        b: tk.array2d(dtype=dtype),  # type: ignore[valid-type]
        steps: int,
        c: tk.array2d(dtype=dtype),  # type: ignore[valid-type]
    ):
        i = tk.tid()
        acc = tk.tile_zeros(shape=(m, n), dtype=total)
        x = tk.tile_load(a, shape=(m, k), offset=(i * m, 0))
        y = tk.tile_load(b, shape=(k, n), offset=(i * k, 0))
        tk.tile_matmul(x, y, acc, precision=precision)
        tk.tile_store(c, tk.tile_astype(acc, dtype), offset=(i * m, 0))

    return product


WARP_OPTIONS = {"enable_backward": False}
"""Of a module: a kernel's own option of that name does not reach its products, which then take three times as long to
compile, and refuse bfloat16."""


def warp_loop(warp: Any, dtype: Any, total: Any, tile: Tile, tf32: bool) -> Any:
    """:func:`product_loop` for Warp, where a precision must be written out, and each kernel a module of its own."""
    m, n, k = tile

    @warp.kernel(module="unique", module_options=WARP_OPTIONS)
    def default(
        a: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
        b: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
        steps: int,
        c: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
    ):
        i, j = warp.tid()
        acc = warp.tile_zeros(shape=(m, n), dtype=total)
        for step in range(steps):
            x = warp.tile_load(a, shape=(m, k), offset=(i * m, step * k))
            y = warp.tile_load(b, shape=(k, n), offset=(step * k, j * n))
            warp.tile_matmul(x, y, acc)
        warp.tile_store(c, warp.tile_astype(acc, dtype), offset=(i * m, j * n))

    @warp.kernel(module="unique", module_options=WARP_OPTIONS)
    def rounded(
        a: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
        b: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
        steps: int,
        c: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
    ):
        i, j = warp.tid()
        acc = warp.tile_zeros(shape=(m, n), dtype=total)
        for step in range(steps):
            x = warp.tile_load(a, shape=(m, k), offset=(i * m, step * k))
            y = warp.tile_load(b, shape=(k, n), offset=(step * k, j * n))
            warp.tile_matmul(x, y, acc, precision="tf32")
        warp.tile_store(c, acc, offset=(i * m, j * n))

    return rounded if tf32 else default


def warp_batch(warp: Any, dtype: Any, total: Any, tile: Tile, tf32: bool) -> Any:
    """:func:`product_batch` for Warp."""
    m, n, k = tile

    @warp.kernel(module="unique", module_options=WARP_OPTIONS)
    def default(
        a: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
        b: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
        steps: int,
        c: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
    ):
        i = warp.tid()
        acc = warp.tile_zeros(shape=(m, n), dtype=total)
        x = warp.tile_load(a, shape=(m, k), offset=(i * m, 0))
        y = warp.tile_load(b, shape=(k, n), offset=(i * k, 0))
        warp.tile_matmul(x, y, acc)
        warp.tile_store(c, warp.tile_astype(acc, dtype), offset=(i * m, 0))

    @warp.kernel(module="unique", module_options=WARP_OPTIONS)
    def rounded(
        a: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
        b: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
        steps: int,
        c: warp.array2d(dtype=dtype),  # type: ignore[valid-type]
    ):
        i = warp.tid()
        acc = warp.tile_zeros(shape=(m, n), dtype=total)
        x = warp.tile_load(a, shape=(m, k), offset=(i * m, 0))
        y = warp.tile_load(b, shape=(k, n), offset=(i * k, 0))
        warp.tile_matmul(x, y, acc, precision="tf32")
        warp.tile_store(c, acc, offset=(i * m, 0))

    return rounded if tf32 else default
