"""One source for two languages: the kernels of the benchmarks, as tilekit's and as Warp's."""

# No `from __future__ import annotations`: Warp would look for the names in its annotations among the globals.

from typing import Any

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


def product_loop(language: Any, dtype: Any, total: Any, tile: Tile, precision: str = "default", **options: Any) -> Any:
    """``c = a @ b`` with sums of another dtype, rounded once where they are stored; ``options`` are the kernel's."""
    m, n, k = tile
    default, tf32 = precision == "default", precision == "tf32"

    @language.kernel(**options)
    def product(
        a: language.array2d(dtype=dtype),  # type: ignore[valid-type]
        b: language.array2d(dtype=dtype),  # type: ignore[valid-type]
        steps: int,
        c: language.array2d(dtype=dtype),  # type: ignore[valid-type]
    ):
        i, j = language.tid()
        acc = language.tile_zeros(shape=(m, n), dtype=total)
        for step in range(steps):
            x = language.tile_load(a, shape=(m, k), offset=(i * m, step * k))
            y = language.tile_load(b, shape=(k, n), offset=(step * k, j * n))
            if default:  # Warp wants a precision written out, and looks at what is chosen alone
                language.tile_matmul(x, y, acc)
            elif tf32:
                language.tile_matmul(x, y, acc, precision="tf32")
            else:
                language.tile_matmul(x, y, acc, precision="tf32x3")
        language.tile_store(c, language.tile_astype(acc, dtype), offset=(i * m, j * n))

    return product


def product_batch(language: Any, dtype: Any, total: Any, tile: Tile, precision: str = "default", **options: Any) -> Any:
    """Products of square matrices that lie one below the other, one a block; ``steps`` is one."""
    m, n, k = tile
    default, tf32 = precision == "default", precision == "tf32"

    @language.kernel(**options)
    def product(
        a: language.array2d(dtype=dtype),  # type: ignore[valid-type]
        b: language.array2d(dtype=dtype),  # type: ignore[valid-type]
        steps: int,
        c: language.array2d(dtype=dtype),  # type: ignore[valid-type]
    ):
        i = language.tid()
        acc = language.tile_zeros(shape=(m, n), dtype=total)
        x = language.tile_load(a, shape=(m, k), offset=(i * m, 0))
        y = language.tile_load(b, shape=(k, n), offset=(i * k, 0))
        if default:
            language.tile_matmul(x, y, acc)
        elif tf32:
            language.tile_matmul(x, y, acc, precision="tf32")
        else:
            language.tile_matmul(x, y, acc, precision="tf32x3")
        language.tile_store(c, language.tile_astype(acc, dtype), offset=(i * m, 0))

    return product


def heat(language: Any) -> Any:
    """A step of the heat equation at each point, under a guard that leaves out the rim."""

    @language.kernel(enable_backward=False)
    def heat(
        u: language.array2d(dtype=float),  # type: ignore[valid-type]
        o: language.array2d(dtype=float),  # type: ignore[valid-type]
        c: float,
    ):
        i, j = language.tid()
        if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
            o[i, j] = u[i, j] + c * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])

    return heat


def scale(language: Any) -> Any:
    """``o = c * u``; points outside return."""

    @language.kernel(enable_backward=False)
    def scale(
        u: language.array2d(dtype=float),  # type: ignore[valid-type]
        o: language.array2d(dtype=float),  # type: ignore[valid-type]
        c: float,
    ):
        i, j = language.tid()
        if i >= u.shape[0] or j >= u.shape[1]:
            return
        o[i, j] = c * u[i, j]

    return scale


def blur(language: Any) -> Any:
    """``c`` times the sum of five neighbours in a row, without a guard: the grid has four columns fewer."""

    @language.kernel(enable_backward=False)
    def blur(
        u: language.array2d(dtype=float),  # type: ignore[valid-type]
        o: language.array2d(dtype=float),  # type: ignore[valid-type]
        c: float,
    ):
        i, j = language.tid()
        o[i, j + 2] = c * (u[i, j] + u[i, j + 1] + u[i, j + 2] + u[i, j + 3] + u[i, j + 4])

    return blur
