"""Gradients of loops that carry more than a sum, with their right values, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.cases.everywhere import everywhere, gradients

T = 8
RNG = np.random.default_rng(22)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@tk.kernel
def log_sum_exp(x: tk.array1d[tk.float64], n: int, out: tk.array1d[tk.float64]):
    most = x[0]
    total = tk.float64(1.0)
    for i in range(1, n):
        larger = tk.max(most, x[i])
        total = total * tk.exp(most - larger) + tk.exp(x[i] - larger)
        most = larger
    out[0] = most + tk.log(total)


@everywhere
def test_log_sum_exp_over_a_loop(device: str) -> None:
    """It was infinite. The numbers are too large for a sum of plain exponentials."""
    x, out = np.array([3.0, 801.0, 800.5, -2.0, 802.0]), np.zeros(1)
    (found, _) = gradients(log_sum_exp, device, [x, len(x)], out, 2.0)
    want = np.exp(x - 802) / np.exp(x - 802).sum()
    close(out, 802 + np.log(np.exp(x - 802).sum()))
    close(found, 2 * want)


@tk.kernel
def powers(a: tk.array2d[tk.float64], n: int, out: tk.array2d[tk.float64]):
    x = tk.tile_load(a, shape=(T, T))
    for _ in range(3):
        t = tk.tile_matmul(x, x)
        x = t
    tk.tile_store(out, x)


@tk.kernel
def powers_in_place(a: tk.array2d[tk.float64], n: int, out: tk.array2d[tk.float64]):
    x = tk.tile_load(a, shape=(T, T))
    t = tk.tile_zeros(shape=(T, T), dtype=tk.float64)
    for _ in range(n):
        tk.tile_matmul(x, x, t, beta=0.0)
        x = t
    tk.tile_store(out, x)


@everywhere
@pytest.mark.parametrize("kernel", [powers, powers_in_place])
def test_a_tile_that_is_used_again(device: str, kernel: Any) -> None:
    """Case 33: forward was exact, the gradient 100 % wrong; here also with the bound at run time."""
    a, seed, out = normal(T, T) / 2, normal(T, T), np.zeros((T, T))
    found = gradients(kernel, device, [a, 3], out, seed)[0]
    values, want = [a], seed
    for _ in range(3):
        values.append(values[-1] @ values[-1])
    for value in reversed(values[:-1]):
        want = want @ value.T + value.T @ want
    close(out, values[-1])
    close(found, want)


@tk.kernel
def attention(
    q: tk.array2d[tk.float64], k: tk.array2d[tk.float64], v: tk.array2d[tk.float64], n: int, out: tk.array2d[tk.float64]
):
    rows = tk.tile_load(q, shape=(4, 4))
    most = tk.tile_full(shape=4, value=-1.0e30, dtype=tk.float64)
    total = tk.tile_zeros(shape=4, dtype=tk.float64)
    acc = tk.tile_zeros(shape=(4, 4), dtype=tk.float64)
    for j in range(n):
        scores = tk.tile_matmul(rows, tk.tile_transpose(tk.tile_load(k, shape=(4, 4), offset=(4 * j, 0))))
        larger = tk.max(most, tk.tile_max(scores, axis=1))
        p = tk.exp(scores - larger[:, None])
        shrink = tk.exp(most - larger)
        total = total * shrink + tk.tile_sum(p, axis=1)
        acc = acc * shrink[:, None] + tk.tile_matmul(p, tk.tile_load(v, shape=(4, 4), offset=(4 * j, 0)))
        most = larger
    tk.tile_store(out, acc / total[:, None])


@everywhere
def test_softmax_times_values_over_a_loop(device: str) -> None:
    """Case 22, with rescaling: plain flash attention."""
    q, k, v, seed, out = normal(4, 4), normal(12, 4), normal(12, 4), normal(4, 4), np.zeros((4, 4))
    found = gradients(attention, device, [q, k, v, 3], out, seed)
    p = np.exp(q @ k.T)
    p /= p.sum(axis=1, keepdims=True)
    dp = seed @ v.T
    ds = p * (dp - (dp * p).sum(axis=1, keepdims=True))
    close(out, p @ v)
    for got, want in zip(found, (ds @ k, ds.T @ q, p.T @ seed), strict=False):
        close(got, want)


@tk.kernel
def product(x: tk.array1d[tk.float64], n: int, out: tk.array1d[tk.float64]):
    p = tk.float64(1.0)
    for i in range(n):
        p *= x[i]
    out[0] = p


@everywhere
def test_a_product_over_a_loop(device: str) -> None:
    """Case 25: was [32, 8, 2]. Also with a zero among the factors."""
    for x, want in (([2.0, 2.0, 2.0], [4.0, 4.0, 4.0]), ([2.0, 0.0, 3.0], [0.0, 6.0, 0.0])):
        assert gradients(product, device, [np.array(x), 3], np.zeros(1), 1.0)[0].tolist() == want


@tk.kernel
def one_lane(a: tk.array1d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    _, lane = tk.tid()
    x, y = tk.tile_load(a, shape=16), tk.tile_load(b, shape=16)
    dot, most, least = tk.tile_sum(x * y)[0], tk.tile_max(x)[0], tk.tile_min(y)[0]
    if lane == 0:
        out[0] = dot + 2.0 * most + 3.0 * least


@everywhere
def test_a_reduction_that_one_lane_stores(device: str) -> None:
    """Case 28, warp#1374: a.grad was [16, 0, 0, ...]: the gradient of what all lanes have is the sum over them."""
    a, b, out = normal(16), normal(16), np.zeros(1)
    found = gradients(one_lane, device, [a, b], out, 1.0, block_dim=64)
    close(out[0], a @ b + 2 * a.max() + 3 * b.min())
    close(found[0], b + 2 * (a == a.max()))
    close(found[1], a + 3 * (b == b.min()))
