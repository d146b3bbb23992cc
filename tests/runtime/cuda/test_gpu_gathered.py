"""Backward launches on a GPU: products gathered on tensor cores, and what is added atomically."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS, Bfloat16, arguments, there
from tilekit.runtime.adjoint import launch_adjoint

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]
RNG = np.random.default_rng(11)


def back(held: Any) -> Any:
    return held.numpy().astype(np.float64)


def backward(kernel: Any, grid: Any, given: list[Any], gradients: dict[str, Any]) -> dict[str, Any]:
    """The gradients of one backward launch."""
    held, wanted = [there(value) for value in given], {name: there(value) for name, value in gradients.items()}
    adjoints = dict(zip(wanted, arguments(list(wanted.values())), strict=True))
    launch_adjoint(kernel, grid, arguments(held), adjoints, device="cuda:0", block_dim=128)
    return {name: back(value) for name, value in wanted.items()}


KINDS = {
    "tf32": (tk.float32, np.float32, "tf32", 2e-3),
    "bf16": (tk.bfloat16, ml_dtypes.bfloat16, "default", 2e-2),
    "fp16": (tk.float16, np.float16, "default", 4e-3),
    "fp32": (tk.float32, np.float32, "default", 1e-5),
    "fp64": (tk.float64, np.float64, "default", 1e-13),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_plain_product_gathers_and_has_the_same_bits_every_time(kind: str) -> None:
    dtype, stored, precision, bound = KINDS[kind]
    total = tk.float64 if kind == "fp64" else tk.float32

    @tk.kernel(deterministic=True)
    def product(a: tk.array2d[dtype], b: tk.array2d[dtype], n: int, c: tk.array2d[dtype]):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(32, 64), dtype=total)
        for k in range(n):
            x = tk.tile_load(a, shape=(32, 16), offset=(i * 32, k * 16))
            y = tk.tile_load(b, shape=(16, 64), offset=(k * 16, j * 64))
            tk.tile_matmul(x, y, acc, precision=precision)
        tk.tile_store(c, tk.tile_astype(acc, dtype), offset=(i * 32, j * 64))

    m, n, k = 70, 130, 72
    a, b, seed = (RNG.standard_normal(shape).astype(stored) for shape in ((m, k), (k, n), (m, n)))
    zeros = {"a": np.zeros_like(a), "b": np.zeros_like(b)}
    runs = [backward(product, (3, 3), [a, b, 5, np.zeros_like(seed)], {**zeros, "c": seed}) for _ in range(2)]
    wide = [x.astype(np.float64) for x in (a, b, seed)]
    for name, exact in {"a": wide[2] @ wide[1].T, "b": wide[0].T @ wide[2]}.items():
        np.testing.assert_array_equal(runs[0][name], runs[1][name])
        np.testing.assert_allclose(runs[0][name], exact, rtol=0, atol=bound * np.abs(exact).max(), err_msg=name)
    assert not runs[0]["c"].any()


@pytest.mark.parametrize("dtype", [tk.float32, tk.bfloat16])
def test_overlapping_tiles_are_added_atomically(dtype: Any) -> None:
    """Ragged, and not aligned to 16 bytes in every block."""
    stored = np.float32 if dtype is tk.float32 else ml_dtypes.bfloat16

    @tk.kernel
    def windows(a: tk.array2d[dtype], out: tk.array2d[dtype]):
        i, j = tk.tid()
        rows = tk.tile_load(a, shape=(8, 64), offset=(i * 4, j * 32)) + tk.tile_load(
            a, shape=(8, 64), offset=(i * 4 + 1, j * 32 + 3)
        )
        tk.tile_store(out, rows, offset=(i * 8, j * 64))

    a, seed = RNG.integers(-3, 4, (21, 150)).astype(stored), RNG.integers(-3, 4, (40, 256)).astype(stored)
    found = backward(windows, (5, 4), [a, np.zeros_like(seed)], {"a": np.zeros_like(a), "out": seed})
    exact = np.zeros((40, 300))
    for i, j in np.ndindex(5, 4):
        tile = seed[8 * i : 8 * i + 8, 64 * j : 64 * j + 64].astype(np.float64)
        exact[4 * i : 4 * i + 8, 32 * j : 32 * j + 64] += tile
        exact[4 * i + 1 : 4 * i + 9, 32 * j + 3 : 32 * j + 67] += tile
    np.testing.assert_array_equal(found["a"], exact[:21, :150])
    assert isinstance(there(a), Bfloat16) == (dtype is tk.bfloat16)


def test_products_that_overlap_are_added_atomically() -> None:
    """As threads hold them: four neighbours of a row at a time, which lanes exchange first."""

    @tk.kernel
    def convolution(a: tk.array2d[float], w: tk.array2d[float], out: tk.array2d[float], n: int):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(32, 32), dtype=tk.float32)
        for k in range(n):
            x = tk.tile_load(a, shape=(32, 16), offset=(i * 32, k * 4 + j))
            tk.tile_matmul(x, tk.tile_load(w, shape=(16, 32), offset=(k * 16, 0)), acc, precision="tf32")
        tk.tile_store(out, acc, offset=(i * 32, j * 32))

    a, w = RNG.integers(-3, 4, (50, 27)).astype(np.float32), RNG.integers(-3, 4, (48, 32)).astype(np.float32)
    seed = RNG.integers(-3, 4, (50, 64)).astype(np.float32)
    found = backward(convolution, (2, 2), [a, w, np.zeros_like(seed), 3], {"a": np.zeros_like(a), "out": seed})
    exact = np.zeros((50, 64))
    for j, k in np.ndindex(2, 3):
        exact[:, 4 * k + j : 4 * k + j + 16] += seed[:, 32 * j : 32 * j + 32] @ w[16 * k : 16 * k + 16].T
    np.testing.assert_array_equal(found["a"], exact[:, :27])
