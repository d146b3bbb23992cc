"""Products of integers: sums in int32 that wrap, on the CPU, in the interpreter and on CUDA, in loops and by views."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.both import out, run
from tests.emulator import EmulatedKernels
from tests.nvrtc import ARCHES, needs_nvrtc
from tests.passes.finite_differences import check_gradient

rng = np.random.default_rng(12)
M, N, K = 40, 24, 32
A = rng.integers(-128, 128, (M, K)).astype(np.int8)
B = rng.integers(0, 256, (K, N)).astype(np.uint8)
BIG = rng.integers(-(2**31), 2**31, (M, K)).astype(np.int32)


def exact(a: Any, b: Any) -> Any:
    """The product in int64, as int32 holds it."""
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


@tk.kernel
def product(a: tk.array2d[Any], b: tk.array2d[Any], n: int, x: tk.array2d[int]):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(8, 12), dtype=int)
    for k in range(n):
        p = tk.tile_load(a, shape=(8, 16), offset=(i * 8, k * 16))
        tk.tile_matmul(p, tk.tile_load(b, shape=(16, 12), offset=(k * 16, j * 12)), acc)
    tk.tile_store(x, acc, offset=(i * 8, j * 12))


@pytest.mark.parametrize("a", [A, A.view(np.uint8), A.astype(np.int16), BIG], ids=lambda a: str(a.dtype))
def test_a_loop_over_k_sums_in_int32(a: Any) -> None:
    (x,) = run(product, [a, B, K // 16], [out(M, N, dtype=np.int32)], dim=(M // 8, N // 12))
    assert np.array_equal(x, exact(a, B))


@tk.kernel
def forms(a: tk.array2d[tk.int8], c: tk.array2d[int], s: int, x: tk.array2d[int]):
    t, acc = tk.tile_load(a, shape=(8, 16)), tk.tile_load(c, shape=(8, 8))
    tk.tile_store(x, t @ t.T)
    tk.tile_matmul(t[:, ::-1], t.T, acc, alpha=s, beta=-1)
    tk.tile_store(x, acc, offset=(8, 0))
    tk.tile_store(x, tk.tile_matmul(t, t.T, alpha=3.0), offset=(16, 0))


def test_views_and_factors() -> None:
    c = rng.integers(-(2**31), 2**31, (8, 8)).astype(np.int32)
    (x,) = run(forms, [A, c, -7], [out(24, 8, dtype=np.int32)])
    a = A[:8, :16].astype(np.int64)
    wanted = [a @ a.T, -7 * (a[:, ::-1] @ a.T) - c, 3 * (a @ a.T)]
    assert np.array_equal(x, np.concatenate(wanted).astype(np.int32))


@tk.kernel
def written_out(a: tk.array2d[tk.int8], b: tk.array2d[tk.int8], x: tk.array2d[int]):
    acc = tk.tile_zeros(shape=(16, 16), dtype=int)
    for k in range(4):
        tk.tile_matmul(tk.tile_load(a, (16, 16), (0, k * 16)), tk.tile_load(b, (16, 16), (k * 16, 0)), acc)
    tk.tile_store(x, acc)


def test_ordinary_cores_multiply_on_a_gpu_and_the_plan_says_so(tmp_path: Path) -> None:
    with pytest.warns(tk.errors.FallbackWarning, match="without tensor cores: integers are not multiplied on tensor"):
        made = tk.compile(written_out, device="cuda", arch="90a")
    assert "i8 x i8 -> i32: scalar (threads multiply and add integers)" in str(made.plans[0])
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 64), (64, 16)))
    x = np.zeros((16, 16), np.int32)
    EmulatedKernels([made.generated], tmp_path).launch(0, (1,), {"a": a, "b": b, "x": x})
    assert np.array_equal(x, exact(a, b))


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHES)
def test_compiles_for_cuda(arch: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tk.errors.FallbackWarning)
        made = tk.compile(product, [A, B, 2, np.zeros((M, N), np.int32)], dim=(1, 1), arch=arch, device="cuda")
        assert made.cubin


@tk.kernel
def integers_between(f: tk.array2d[tk.float64], n: tk.array2d[int], out: tk.array2d[tk.float64]):
    t = tk.tile_load(n, shape=(4, 4))
    counts = tk.tile_matmul(t, t, alpha=2)
    tk.tile_store(out, tk.tile_astype(counts, tk.float64) * tk.tile_load(f, shape=(4, 4)))


def test_a_product_of_integers_carries_no_gradient_and_stops_no_other() -> None:
    n = rng.integers(-3, 4, (4, 4)).astype(np.int32)
    found = check_gradient(
        integers_between, {"f": rng.standard_normal((4, 4)), "n": n, "out": np.zeros((4, 4))}, ("out",)
    )
    seed = np.random.default_rng(7).standard_normal((4, 4))
    np.testing.assert_allclose(found["f"], seed * (2 * n @ n), rtol=1e-12)
    assert "n" not in found
