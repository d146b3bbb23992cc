"""Products on tensor cores of a real GPU against float64: tails, orders, epilogues, dtypes, every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS, arguments, there

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]

HOST = {tk.float16: np.float16, tk.bfloat16: ml_dtypes.bfloat16, tk.float32: np.float32, tk.float64: np.float64}
UNIT = {tk.float16: 2.0**-11, tk.bfloat16: 2.0**-8, tk.float32: 2.0**-24, tk.float64: 2.0**-53}
INPUT = {"tf32": 2.0**-11, "tf32x3": 2.0**-22, "default": 0.0}
"""How far rounding moves a float32 factor."""


def product(
    tile: tuple[int, int, int],
    a_type: Any,
    b_type: Any,
    out_type: Any,
    order: str = "NN",
    precision: str = "default",
    alpha: float = 1.0,
    after: Callable[[Any], Any] = lambda t: t,
):
    m, n, k = tile
    total = tk.float64 if tk.float64 in (a_type, b_type, out_type) else tk.float32

    @tk.kernel
    def gemm(a: tk.array2d[a_type], b: tk.array2d[b_type], size: int, c: tk.array2d[out_type]):
        i, j = tk.tid()
        acc = tk.tile_full(shape=(m, n), value=0.25, dtype=total)
        for s in range(0, size, k):
            if order[0] == "T":
                x = tk.tile_transpose(tk.tile_load(a, shape=(k, m), offset=(s, i * m)))
            else:
                x = tk.tile_load(a, shape=(m, k), offset=(i * m, s))
            if order[1] == "T":
                y = tk.tile_transpose(tk.tile_load(b, shape=(n, k), offset=(j * n, s)))
            else:
                y = tk.tile_load(b, shape=(k, n), offset=(s, j * n))
            tk.tile_matmul(x, y, acc, alpha=alpha, precision=precision)
        tk.tile_store(c, tk.tile_astype(after(acc), out_type), offset=(i * m, j * n))

    return gemm


def check(
    tile: tuple[int, int, int],
    sizes: tuple[int, int, int],
    a_type: Any,
    b_type: Any,
    out_type: Any,
    backend: str = "mma",
    numpy_after: Callable[[Any], Any] = lambda t: t,
    **more: Any,
) -> None:
    """The product of random matrices of any size is within the bound of its sums; nothing else is written."""
    (rows, cols, depth), (m, n, _) = sizes, tile
    order, alpha = more.get("order", "NN"), more.get("alpha", 1.0)
    rng = np.random.default_rng(rows * cols + depth)
    a = rng.standard_normal((rows, depth) if order[0] == "N" else (depth, rows)).astype(HOST[a_type])
    b = rng.standard_normal((depth, cols) if order[1] == "N" else (cols, depth)).astype(HOST[b_type])
    c = np.full((rows + 1, cols), 7.0).astype(HOST[out_type])  # the last row is not the kernel's
    held = [there(array) for array in (a, b, c)]
    x, y, z = arguments(held)
    kernel = product(tile, a_type, b_type, out_type, **more)
    grid = (-(-(rows + 1) // m), -(-cols // n))
    with tk.config.scoped(gemm=backend):
        tk.launch_tiled(kernel, dim=grid, inputs=[x, y, depth], outputs=[z], block_dim=128)
    found = held[2].numpy().astype(np.float64)
    left, right = (t.astype(np.float64) for t in (a if order[0] == "N" else a.T, b if order[1] == "N" else b.T))
    wanted = numpy_after(0.25 + alpha * (left @ right))
    size = abs(alpha) * (np.abs(left) @ np.abs(right)) + 0.25
    total = tk.float64 if tk.float64 in (a_type, b_type, out_type) else tk.float32
    bound = (depth + 8) * UNIT[total] * size + 2.5 * INPUT[more.get("precision", "default")] * size
    bound = bound + 2 * UNIT[out_type] * np.abs(wanted) + 1e-30
    assert (np.abs(found[:rows] - wanted) <= bound).all(), np.max(np.abs(found[:rows] - wanted) / bound)
    assert (found[rows] == numpy_after(np.full(cols, 0.25)).astype(HOST[out_type]).astype(np.float64)).all()


DTYPES = [
    (tk.float16, tk.float16, tk.float32, "default"),
    (tk.float16, tk.float16, tk.float16, "default"),
    (tk.bfloat16, tk.bfloat16, tk.bfloat16, "default"),
    (tk.float16, tk.bfloat16, tk.float32, "default"),
    (tk.float32, tk.float32, tk.float32, "default"),
    (tk.float32, tk.float32, tk.float32, "tf32"),
    (tk.float32, tk.float32, tk.float32, "tf32x3"),
    (tk.float64, tk.float64, tk.float64, "default"),
    (tk.float32, tk.float16, tk.float32, "default"),
    (tk.float32, tk.float64, tk.float64, "default"),
]
NAMES = [f"{a.short}-{b.short}-{out.short}-{precision}" for a, b, out, precision in DTYPES]
TILES = [
    ((64, 64, 32), (128, 128, 128)),
    ((64, 64, 32), (131, 77, 90)),
    ((128, 128, 16), (256, 136, 200)),
    ((16, 24, 24), (50, 72, 61)),
    ((40, 56, 24), (97, 113, 75)),
    ((1, 1, 1), (3, 5, 4)),
]


@pytest.mark.parametrize(("tile", "sizes"), TILES, ids=str)
@pytest.mark.parametrize("dtypes", DTYPES, ids=NAMES)
def test_any_size_in_every_dtype(dtypes: tuple[Any, Any, Any, str], tile: Any, sizes: Any) -> None:
    check(tile, sizes, *dtypes[:3], precision=dtypes[3])


@pytest.mark.parametrize("order", ["NT", "TN", "TT"])
@pytest.mark.parametrize("dtypes", DTYPES, ids=NAMES)
def test_transposed_factors(dtypes: tuple[Any, Any, Any, str], order: str) -> None:
    for sizes in ((128, 128, 128), (131, 77, 90)):
        check((64, 64, 32), sizes, *dtypes[:3], precision=dtypes[3], order=order)


def relu(t: Any) -> Any:
    return tk.tile_map(lambda x: tk.max(x * 0.5 - 1.0, 0.0), t)


def shared(t: Any) -> Any:
    """Sums that another thread reads."""
    return tk.tile_transpose(tk.tile_transpose(t) + 1.0)


@pytest.mark.parametrize("dtypes", DTYPES[:5], ids=NAMES[:5])
@pytest.mark.parametrize("backend", ["mma", "scalar", "auto"])
def test_epilogues_and_factors(dtypes: tuple[Any, Any, Any, str], backend: str) -> None:
    for sizes in ((128, 128, 64), (70, 77, 90)):
        given = ((64, 64, 32), sizes, *dtypes[:3], backend)
        check(*given, alpha=0.5)
        check(*given, after=relu, numpy_after=lambda t: np.maximum(t * 0.5 - 1.0, 0.0))
        check(*given, after=shared, numpy_after=lambda t: t + 1.0)


def test_large_tiles_and_no_steps() -> None:
    check((128, 256, 32), (512, 512, 512), tk.float16, tk.float16, tk.float32)
    check((128, 256, 64), (300, 520, 333), tk.float16, tk.float16, tk.float16)
    check((64, 64, 32), (64, 64, 0), tk.float16, tk.float16, tk.float32)


def test_tiles_that_eight_warps_hold_where_sixteen_do_not() -> None:
    check((256, 192, 32), (300, 210, 70), tk.float16, tk.float16, tk.float32)
    check((128, 192, 16), (140, 200, 40), tk.float64, tk.float64, tk.float64)


def test_long_functions_of_sums_are_called() -> None:
    check(
        (128, 128, 32),
        (130, 140, 70),
        tk.float16,
        tk.float16,
        tk.float32,
        after=lambda t: tk.tile_map(lambda x: tk.asinh(tk.log1p(x * x)), t),
        numpy_after=lambda t: np.arcsinh(np.log1p(t * t)),
    )


def test_it_is_repeatable_and_every_row_is_its_own() -> None:
    rows = np.arange(256, dtype=np.float32)[:, None] * np.ones((1, 128), np.float32)
    a, b = rows.astype(np.float16), np.eye(128, dtype=np.float16)
    results = []
    for _ in range(3):
        c = np.full((256, 128), np.nan, np.float32)
        held = [there(array) for array in (a, b, c)]
        kernel = product((64, 64, 32), tk.float16, tk.float16, tk.float32)
        tk.launch_tiled(kernel, dim=(4, 2), inputs=[*held[:2], 128], outputs=held[2:], block_dim=128)
        results.append(held[2].numpy())
    assert np.array_equal(results[0], rows + 0.25)
    assert all(np.array_equal(results[0], other) for other in results)


@tk.kernel
def written_out(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], c: tk.array2d[tk.bfloat16]):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(32, 48), dtype=float)
    for k in range(3):
        x = tk.tile_load(a, shape=(32, 20), offset=(i * 32, k * 20))
        tk.tile_matmul(x, tk.tile_load(b, shape=(20, 48), offset=(k * 20, j * 48)), acc)
    alone = tk.tile_load(a, shape=(32, 20), offset=(i * 32, 0)) @ tk.tile_load(b, shape=(20, 48), offset=(0, j * 48))
    tk.tile_store(c, tk.tile_astype(acc + tk.tile_astype(alone, float), tk.bfloat16), offset=(i * 32, j * 48))


def test_products_without_a_loop() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((60, 57)).astype("f2"), rng.standard_normal((57, 90)).astype("f2")
    held = [there(array) for array in (a, b, np.zeros((60, 90), ml_dtypes.bfloat16))]
    tk.launch_tiled(written_out, dim=(2, 2), inputs=held[:2], outputs=[held[2].tensor], block_dim=64)
    left, right = a.astype("f8"), b.astype("f8")
    wanted = left @ right + left[:, :20] @ right[:20]
    assert np.allclose(held[2].numpy().astype("f8"), wanted, rtol=2.0**-7, atol=2e-2)


@tk.kernel
def residual(
    a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], d: tk.array2d[float], size: int, c: tk.array2d[float]
):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(64, 64), dtype=float)
    for s in range(0, size, 32):
        x = tk.tile_load(a, shape=(64, 32), offset=(i * 64, s))
        tk.tile_matmul(x, tk.tile_load(b, shape=(32, 64), offset=(s, j * 64)), acc)
    bias = tk.tile_load(d, shape=(64, 64), offset=(i * 64 - 1, j * 64 + 1))
    tk.tile_store(c, acc + bias, offset=(i * 64, j * 64))


def test_a_tile_is_added() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((100, 70)).astype("f2"), rng.standard_normal((70, 90)).astype("f2")
    d = rng.standard_normal((100, 90)).astype("f4")
    held = [there(array) for array in (a, b, d, np.zeros((100, 90), np.float32))]
    tk.launch_tiled(residual, dim=(2, 2), inputs=[*held[:3], 70], outputs=held[3:], block_dim=64)
    wanted = a.astype("f8") @ b.astype("f8")
    wanted[1:, :-1] += d[:-1, 1:]
    assert np.allclose(held[3].numpy(), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [tk.float16, tk.bfloat16, tk.float32, tk.float64], ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("block_dim", [32, 128, 256])
def test_factors_that_the_block_computes(dtype: Any, block_dim: int) -> None:
    """Softmax-less attention: one product's result is the factor of the next; ragged tiles, a view, alpha and beta."""
    total = tk.float64 if dtype is tk.float64 else tk.float32

    @tk.kernel
    def attention(q: tk.array2d[dtype], k: tk.array2d[dtype], v: tk.array2d[dtype], count: int, out: tk.array2d[total]):
        i = tk.tid()
        x = tk.tile_load(q, shape=(24, 40), offset=(i * 24, 0)) * dtype(0.5)
        acc = tk.tile_full(shape=(24, 36), value=1.0, dtype=total)
        for s in range(count):
            y = tk.tile_load(k, shape=(20, 40), offset=(s * 20, 0))
            p = tk.tile_zeros(shape=(24, 20), dtype=total)
            tk.tile_matmul(x, y.T, p, alpha=0.25, beta=0.0)
            w = tk.tile_load(v, shape=(20, 40), offset=(s * 20, 0))
            tk.tile_matmul(tk.tile_astype(p, dtype), w[:, 3:39], acc, beta=0.5)
        tk.tile_store(out, acc, offset=(i * 24, 0))

    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal(shape).astype(HOST[dtype]) for shape in ((72, 40), (60, 40), (60, 40)))
    held = [there(array) for array in (q, k, v, np.zeros((72, 36), HOST[total]))]
    given = arguments(held)
    tk.launch_tiled(attention, dim=3, inputs=[*given[:3], 3], outputs=given[3:], block_dim=block_dim)
    x, y, z = (t.astype("f8") for t in (q, k, v))
    wanted = np.ones((72, 36))
    for s in range(3):
        part = slice(20 * s, 20 * s + 20)
        wanted = 0.5 * wanted + 0.125 * (x @ y[part].T) @ z[part, 3:39]
    assert np.allclose(held[3].numpy(), wanted, rtol=8 * UNIT[dtype], atol=30 * UNIT[dtype])
