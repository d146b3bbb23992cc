"""Gradients through scalars, subarrays, functions with control flow, and loops of loops."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.passes.finite_differences import check_gradient

RNG = np.random.default_rng(6)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


@tk.kernel
def batched(a: tk.array3d[tk.float64], b: tk.array3d[tk.float64], out: tk.array3d[tk.float64], n: int):
    i = tk.tid()
    acc = tk.tile_zeros(shape=(3, 5), dtype=tk.float64)
    for k in range(n):
        for j in range(2):
            x = tk.tile_load(a[i], shape=(3, 2), offset=(0, 2 * k + j))
            acc += tk.tile_matmul(x, tk.tile_load(b[j], shape=(2, 5), offset=(k, 0)))
    tk.tile_store(out[i], acc)


def test_arrays_of_arrays_in_nested_loops() -> None:
    arguments = {"a": normal(2, 3, 7), "b": normal(2, 4, 5), "out": np.zeros((2, 3, 5)), "n": np.int32(3)}
    check_gradient(batched, arguments, ("out",), grid=(2,))


@tk.kernel
def scalar_sum(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    x = tk.tile_load(a, shape=6)
    total = tk.float64(1.0)
    for k in range(n):
        total = total + x[k] * x[0]
        if k % 2 == 0:
            total -= x[k + 1]
    tk.tile_store(out, x * total)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_scalar_that_a_loop_adds_up(n: int) -> None:
    check_gradient(scalar_sum, {"a": normal(6), "out": np.zeros(6), "n": n}, ("out",))


def series(v, n):
    total = v * 0.0
    for k in range(n):
        if k == 1:
            total += tk.exp(v * 0.25)
        else:
            total += v * v
    if total > 0.0:
        total = total * v
    return total


@tk.kernel
def mapped_series(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    tk.tile_store(out, tk.tile_map(series, tk.tile_load(a, shape=5), n))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_mapped_function_with_a_loop_and_branches(n: int) -> None:
    check_gradient(mapped_series, {"a": normal(5), "out": np.zeros(5), "n": n}, ("out",))


@tk.kernel
def epilogue(a: tk.array2d[tk.float64], w: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    """A layer: product over K, bias, tanh, then a second product, all in one kernel."""
    acc = tk.tile_zeros(shape=(3, 4), dtype=tk.float64)
    for k in range(n):
        tk.tile_matmul(
            tk.tile_load(a, shape=(3, 2), offset=(0, 2 * k)), tk.tile_load(w, shape=(2, 4), offset=(2 * k, 0)), acc
        )
    hidden = tk.tanh(acc + tk.tile_broadcast(tk.tile_load(w, shape=(1, 4)), shape=(3, 4)))
    tk.tile_store(out, tk.tile_matmul(hidden, tk.tile_load(w, shape=(4, 3), offset=(1, 0))))


@pytest.mark.parametrize("n", [2, 17])
def test_an_epilogue_after_a_loop_over_k(n: int) -> None:
    """The layer whose gradient Warp loses without a word when the bound is known at run time."""
    check_gradient(
        epilogue, {"a": normal(3, 2 * n), "w": normal(max(2 * n, 5), 4), "out": np.zeros((3, 3)), "n": n}, ("out",)
    )


@tk.kernel
def reused(a: tk.array2d[tk.float64], out: tk.array2d[tk.float64]):
    x = tk.tile_load(a, shape=(4, 4))
    for _ in tk.static_range(3):
        t = tk.tile_matmul(x, x)
        x = t * 0.5
    tk.tile_store(out, x)


def test_a_tile_reused_in_an_unrolled_loop() -> None:
    check_gradient(reused, {"a": normal(4, 4), "out": np.zeros((4, 4))}, ("out",))


@tk.kernel
def overwritten(a: tk.array2d[tk.float64], out: tk.array2d[tk.float64]):
    t = tk.tile_load(a, shape=(8, 8))
    row = t[2]
    rows = t[4:8]
    tk.tile_assign(t, tk.sin(rows), offset=(0, 0))
    t[1] = row * t[5]
    tk.tile_store(out, t * t)


def test_a_tile_written_through_views_of_itself() -> None:
    check_gradient(overwritten, {"a": normal(8, 8), "out": np.zeros((8, 8))}, ("out",))


@tk.kernel
def counted_offset(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    at = 0
    total = tk.tile_zeros(shape=2, dtype=tk.float64)
    for _ in range(n):
        total += tk.tile_load(a, shape=2, offset=at)
        at = at * 2 + 1
    tk.tile_store(out, total)


@tk.kernel
def product_of_all(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    x = tk.tile_load(a, shape=4)
    p = tk.float64(1.0)
    for k in range(n):
        p *= x[k]
    tk.tile_store(out, x * p)


@pytest.mark.parametrize("kernel", [counted_offset, product_of_all])
def test_numbers_that_a_loop_carries_and_its_gradient_needs(kernel: tk.Kernel) -> None:
    check_gradient(kernel, {"a": normal(8), "out": np.zeros(4), "n": 3}, ("out",))
