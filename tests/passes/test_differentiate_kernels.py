"""Gradients of whole kernels: loops, jumps, views, writes and reductions together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.passes.test_differentiate_loops import check
from tilekit.runtime.adjoint import launch_adjoint

A1, A2 = tk.array1d[tk.float64], tk.array2d[tk.float64]


@tk.kernel
def lse(x: A2, out: A1, n: int):
    m = tk.float64(-1e30)
    s = tk.float64(0.0)
    for k in range(n):
        t = tk.tile_load(x, shape=(1, 4), offset=(k, 0))
        b = tk.max(m, tk.tile_max(t)[0])
        s = s * tk.exp(m - b) + tk.tile_sum(tk.exp(t - b))[0]
        m = b
    out[0] = m + tk.log(s)


@tk.kernel
def early(x: A2, out: A2, n: int):
    s = tk.tile_load(x, shape=(1, 4))
    for k in range(n):
        s = tk.sin(s) + tk.tile_load(x, shape=(1, 4), offset=(k, 0))
        tk.tile_store(out, s * s, offset=(k, 0))
        if tk.tile_sum(s)[0] > 1.5:
            return
        t = tk.tile_load(x, shape=(1, 4), offset=(0, 0))
        j = 0
        while True:
            t = t * s + 0.1
            j += 1
            if j >= 3 or tk.tile_sum(t)[0] > 5.0:
                break
        s = s + t
    tk.tile_store(out, s, offset=(n, 0))


@tk.kernel
def empty(x: A2, out: A2, n: int):
    buf = tk.tile_empty(shape=(1, 4), dtype=tk.float64)
    s = tk.tile_load(x, shape=(1, 4))
    last = 0
    for k in range(n):
        tk.tile_assign(buf, s * s)
        s = tk.sin(buf) * s
        last = k
    if last > 1:
        tk.tile_store(out, s * tk.float64(last))
    else:
        tk.tile_store(out, s)


@tk.kernel
def attention(q: A2, k: A2, v: A2, out: A2, n: int):
    i = tk.tid()
    a = tk.tile_load(q, shape=(2, 3), offset=(2 * i, 0))
    m = tk.tile_full((2, 1), -1e30, tk.float64)
    total = tk.tile_zeros(shape=(2, 1), dtype=tk.float64)
    acc = tk.tile_zeros(shape=(2, 3), dtype=tk.float64)
    for j in range(n):
        s = tk.tile_matmul(a, tk.tile_transpose(tk.tile_load(k, shape=(2, 3), offset=(2 * j, 0))))
        mn = tk.tile_map(tk.max, m, tk.tile_reshape(tk.tile_max(s, axis=1), (2, 1)))
        p = tk.exp(s - tk.tile_broadcast(mn, (2, 2)))
        c = tk.exp(m - mn)
        total = total * c + tk.tile_reshape(tk.tile_sum(p, axis=1), (2, 1))
        acc = acc * tk.tile_broadcast(c, (2, 3)) + tk.tile_matmul(p, tk.tile_load(v, shape=(2, 3), offset=(2 * j, 0)))
        m = mn
    tk.tile_store(out, acc / tk.tile_broadcast(total, (2, 3)), offset=(2 * i, 0))


@tk.kernel
def branchy(x: A2, out: A2, n: int):
    s = tk.tile_load(x, shape=(2, 4))
    u = s * 2.0
    for k in range(n):
        if k % 2 == 0:
            s, u = u * s, s
            s[0, 1] = u[1, 0] * 0.5
        else:
            u += s * 0.25
            r = s[0]
            r[1] = 0.25
        v = tk.tile_view(s, offset=(1, 0), shape=(1, 4))
        tk.tile_assign(s, tk.sin(v), offset=(0, 0))
    tk.tile_store(out, s + u)


@tk.kernel
def down(x: A1, out: A1, n: int):
    p = tk.float64(1.0)
    for k in range(n - 1, -1, -2):
        q = p
        for j in range(k):
            q = q * x[j] + p
        p = p + q * x[k]
    out[0] = p


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(6).standard_normal(shape)


deep = pytest.mark.deep


@pytest.mark.parametrize(
    ("kernel", "grid", "arguments"),
    [
        (lse, 1, {"x": normal(5, 4), "out": np.zeros(1), "n": 5}),
        (early, 1, {"x": np.abs(normal(6, 4)) * 0.6, "out": np.zeros((7, 4)), "n": 6}),
        pytest.param(early, 1, {"x": normal(6, 4) * 0.3, "out": np.zeros((7, 4)), "n": 6}, marks=deep),
        pytest.param(empty, 1, {"x": normal(6, 4) * 0.3, "out": np.zeros((1, 4)), "n": 6}, marks=deep),
        (attention, 2, {"q": normal(4, 3), "k": normal(6, 3), "v": normal(6, 3), "out": np.zeros((4, 3)), "n": 3}),
        (branchy, 1, {"x": normal(2, 4), "out": np.zeros((2, 4)), "n": 5}),
        pytest.param(down, 1, {"x": normal(7), "out": np.zeros(1), "n": 7}, marks=deep),
    ],
)
def test_whole_kernels(kernel: tk.Kernel, grid: int, arguments: dict[str, Any]) -> None:
    with tk.config.scoped(checkpoints=2):
        check(kernel, grid=(grid,), **arguments)


@tk.kernel
def long_chain(x: A2, w: A2, out: A2):
    i = tk.tid()
    t = tk.tile_load(x, shape=(2, 2), offset=(2 * i, 0))
    factors = tk.tile_load(w, shape=(2, 2))
    for _ in tk.static_range(120):
        t = tk.sin(t) @ factors
        if t[0, 0] > 9.0:
            t = t * 0.5
    tk.tile_store(out, t, offset=(2 * i, 0))


def test_a_chain_longer_than_pythons_stack() -> None:
    """As an unrolled loop gives it."""
    x, w = np.random.default_rng(4).standard_normal((4, 2)), np.array([[0.8, -0.7], [0.7, 0.8]])
    out, seed = np.zeros((4, 2)), np.ones((4, 2))
    found = {"x": np.zeros((4, 2)), "w": np.zeros((2, 2)), "out": seed.copy()}
    launch_adjoint(long_chain, 2, [x, w, out], found, device="interpret")
    states = [x]
    for _ in range(120):
        states.append(np.sin(states[-1]) @ w)
    grad, weights = seed, np.zeros((2, 2))
    for state in reversed(states[:-1]):
        weights += np.sin(state).T @ grad
        grad = grad @ w.T * np.cos(state)
    np.testing.assert_allclose(found["x"], grad, rtol=1e-10)
    np.testing.assert_allclose(found["w"], weights, rtol=1e-10)
