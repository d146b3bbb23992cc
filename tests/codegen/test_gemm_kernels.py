"""Whole kernels with several products, run on the emulator of tensor cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.emulator import EmulatedKernels
from tilekit.runtime.program import compile_kernel

HALF = tk.float16


@tk.kernel
def attention(q: tk.array2d[HALF], k: tk.array2d[HALF], v: tk.array2d[HALF], out: tk.array2d[float], n: int):
    """What it computes is multiplied again; no product is a loop alone."""
    i = tk.tid()
    x = tk.tile_load(q, shape=(32, 32), offset=(i * 32, 0))
    acc = tk.tile_zeros(shape=(32, 32), dtype=float)
    for s in range(n):
        y = tk.tile_load(k, shape=(48, 32), offset=(s * 48, 0))
        p = tk.tile_map(lambda t: tk.max(t * 0.125, 0.0), tk.tile_matmul(x, y.T))
        tk.tile_matmul(p, tk.tile_load(v, shape=(48, 32), offset=(s * 48, 0)), acc)
    tk.tile_store(out, acc, offset=(i * 32, 0))


@tk.kernel
def two_sums(q: tk.array2d[HALF], k: tk.array2d[HALF], v: tk.array2d[HALF], out: tk.array2d[float], n: int):
    """Two products of a loop, of which the second is read by another thread than holds it."""
    i = tk.tid()
    first = tk.tile_zeros(shape=(32, 32), dtype=float)
    second = tk.tile_zeros(shape=(32, 32), dtype=float)
    for s in range(n):
        x = tk.tile_load(q, shape=(32, 16), offset=(i * 32, s * 16))
        tk.tile_matmul(x, tk.tile_load(k, shape=(16, 32), offset=(s * 16, 0)), first)
        tk.tile_matmul(x, tk.tile_load(v, shape=(16, 32), offset=(s * 16, 0)), second)
    tk.tile_store(out, first - second.T, offset=(i * 32, 0))


@tk.kernel
def written_out(q: tk.array2d[HALF], k: tk.array2d[HALF], v: tk.array2d[HALF], out: tk.array2d[float], n: int):
    """Products in a row, which become a loop, and one that is added to what was there before."""
    i = tk.tid()
    before = tk.tile_load(out, shape=(32, 32), offset=(i * 32, 0))
    tk.tile_store(out, tk.tile_zeros(shape=(32, 32), dtype=float), offset=(i * 32, 0))
    acc = tk.tile_matmul(tk.tile_load(q, shape=(32, 16), offset=(i * 32, 0)), tk.tile_load(k, shape=(16, 32)))
    acc = tk.tile_astype(acc, float)
    for s in tk.static_range(2):
        x = tk.tile_load(q, shape=(32, 16), offset=(i * 32, 16 * s))
        tk.tile_matmul(x, tk.tile_load(v, shape=(16, 32), offset=(16 * s, 0)), acc)
    tk.tile_store(out, acc + before, offset=(i * 32, 0))


@tk.kernel
def softmax_attention(q: tk.array2d[HALF], k: tk.array2d[HALF], v: tk.array2d[HALF], out: tk.array2d[float], n: int):
    """With the greatest of each row so far, and the sum, as products leave their sums: reduced where they are."""
    i = tk.tid()
    x = tk.tile_load(q, shape=(32, 32), offset=(i * 32, 0))
    acc = tk.tile_zeros(shape=(32, 32), dtype=float)
    most = tk.tile_full(shape=(32, 1), value=-1e30, dtype=float)
    total = tk.tile_zeros(shape=(32, 1), dtype=float)
    for s in range(n):
        y = tk.tile_load(k, shape=(48, 32), offset=(s * 48, 0))
        score = tk.tile_zeros(shape=(32, 48), dtype=float)
        tk.tile_matmul(x, y.T, score, alpha=0.125)
        new = tk.tile_map(tk.max, most, tk.tile_reshape(tk.tile_max(score, axis=1), (32, 1)))
        p = tk.exp(score - tk.tile_broadcast(new, (32, 48)))
        shrunk = tk.exp(most - new)
        total = total * shrunk + tk.tile_reshape(tk.tile_sum(p, axis=1), (32, 1))
        acc = acc * tk.tile_broadcast(shrunk, (32, 32))
        tk.tile_matmul(tk.tile_astype(p, HALF), tk.tile_load(v, shape=(48, 32), offset=(s * 48, 0)), acc)
        most = new
    tk.tile_store(out, acc / tk.tile_broadcast(total, (32, 32)), offset=(i * 32, 0))


def wanted(name: str, q: Any, k: Any, v: Any, before: Any) -> Any:
    if name == "attention":
        return np.maximum(0.125 * (q @ k.T), 0) @ v
    if name == "two_sums":
        second = (q @ v[:32]).reshape(-1, 32, 32)
        return q @ k[:32] - second.transpose(0, 2, 1).reshape(-1, 32)
    return q[:, :16] @ k[:16] + q @ v[:32] + before


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> EmulatedKernels:
    found = [compile_kernel(kernel, device="cuda", arch="90a") for kernel in (attention, two_sums, written_out)]
    found.append(compile_kernel(softmax_attention, device="cuda", arch="90a", block_dim=64))
    assert found[3].source.count("tk::reduce_fragment<") == 2
    assert all(plan.backend == "mma" for each in found for plan in each.plans)
    return EmulatedKernels([each.generated for each in found], tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize(("number", "steps"), [(0, 2), (1, 2), (2, 0)], ids=["attention", "two_sums", "written_out"])
def test_it_computes_what_it_says(number: int, steps: int, kernels: EmulatedKernels) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((64, 32), (96, 32), (96, 32)))
    q[:, 0] = np.arange(64) % 29
    out = rng.integers(-9, 9, (64, 32)).astype(np.float32)
    wide = [x.astype(float) for x in (q, k, v, out)]
    kernels.launch(number, (2,), {"q": q, "k": k, "v": v, "out": out, "n": steps})
    name = ("attention", "two_sums", "written_out")[number]
    assert np.array_equal(out, wanted(name, *wide))


def test_attention_with_a_softmax(kernels: EmulatedKernels) -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 32), (96, 32), (96, 32)))
    out = np.full((64, 32), np.nan, np.float32)
    kernels.launch(3, (2,), {"q": q, "k": k, "v": v, "out": out, "n": 2})
    scores = 0.125 * (q.astype(float) @ k.T.astype(float))
    weights = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out, weights @ v.astype(float) / weights.sum(1, keepdims=True), atol=2e-3)
