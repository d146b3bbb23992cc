"""Gradients that other tile languages get wrong without a word: each with its right value, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.cases.everywhere import everywhere, gradients
from tilekit.errors import KernelNotImplementedError

T = 8
RNG = np.random.default_rng(22)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


# The four that any tile language with a K loop bound at run time must pass.


def relu(v):
    if v > 0.0:
        return v
    return v * 0.0


@tk.kernel
def tanh_layers(
    x: tk.array2d[tk.float64], w: tk.array2d[tk.float64], v: tk.array2d[tk.float64], n: int, out: tk.array2d[tk.float64]
):
    acc = tk.tile_zeros(shape=(T, T), dtype=tk.float64)
    for k in range(n):
        acc += tk.tile_matmul(
            tk.tile_load(x, shape=(T, T), offset=(0, k * T)), tk.tile_load(w, shape=(T, T), offset=(k * T, 0))
        )
    tk.tile_store(out, tk.tile_matmul(tk.tanh(acc), tk.tile_load(v, shape=(T, T))))


def tiles_deep(depth: int) -> Any:
    """The same with a bound known beforehand."""

    @tk.kernel
    def layers(
        x: tk.array2d[tk.float64],
        w: tk.array2d[tk.float64],
        v: tk.array2d[tk.float64],
        n: int,
        out: tk.array2d[tk.float64],
    ):
        acc = tk.tile_zeros(shape=(T, T), dtype=tk.float64)
        for k in range(depth):
            x_tile = tk.tile_load(x, shape=(T, T), offset=(0, k * T))
            acc += tk.tile_matmul(x_tile, tk.tile_load(w, shape=(T, T), offset=(k * T, 0)))
        tk.tile_store(out, tk.tile_matmul(tk.tanh(acc), tk.tile_load(v, shape=(T, T))))

    return layers


@tk.kernel
def relu_layers(
    x: tk.array2d[tk.float64], w: tk.array2d[tk.float64], v: tk.array2d[tk.float64], n: int, out: tk.array2d[tk.float64]
):
    acc = tk.tile_zeros(shape=(T, T), dtype=tk.float64)
    for k in range(n):
        tk.tile_matmul(
            tk.tile_load(x, shape=(T, T), offset=(0, k * T)), tk.tile_load(w, shape=(T, T), offset=(k * T, 0)), acc
        )
    tk.tile_store(out, tk.tile_matmul(tk.tile_map(relu, acc), tk.tile_load(v, shape=(T, T))))


@everywhere
@pytest.mark.parametrize(
    ("kernel", "n"), [(tiles_deep(2), 2), (tanh_layers, 2), (tiles_deep(17), 17), (tanh_layers, 17), (relu_layers, 3)]
)
def test_an_epilogue_after_a_loop_over_k(device: str, kernel: Any, n: int) -> None:
    """Case 22, warp#729: with a bound at run time dX, dW1 and dW2 were wrong, dW2 all zero; with ReLU all of them."""
    x, w, v, seed, out = normal(T, n * T), normal(n * T, T) / n, normal(T, T), normal(T, T), np.zeros((T, T))
    found = gradients(kernel, device, [x, w, v, n], out, seed)
    h = np.tanh(x @ w) if kernel is not relu_layers else np.maximum(x @ w, 0)
    slope = 1 - h * h if kernel is not relu_layers else h > 0
    dh = (seed @ v.T) * slope
    close(out, h @ v)
    for got, want in zip(found, (dh @ w.T, x.T @ dh, h.T @ seed), strict=False):
        close(got, want)


# Carried numbers.


@tk.kernel
def before_a_loop(x: tk.array1d[tk.float64], w: tk.array1d[tk.float64], n: int, out: tk.array1d[tk.float64]):
    g = x[0] * x[0]
    s = tk.float64(0.0)
    for i in range(n):
        s += w[i]
    out[0] = g * s


@everywhere
def test_a_value_from_before_a_loop_that_is_used_after_it(device: str) -> None:
    """Case 23, warp#1694: dx was 0."""
    found = gradients(before_a_loop, device, [np.array([3.0]), np.array([1.0, 2.0, 3.0]), 3], np.zeros(1), 1.0)
    assert [grad.tolist() for grad in found[:2]] == [[36.0], [9.0] * 3]


@tk.kernel
def nested(x: tk.array1d[tk.float64], n: int, m: int, out: tk.array1d[tk.float64]):
    total = tk.float64(0.0)
    turned = tk.tile_load(x, shape=4)
    for i in range(n):
        for _ in range(m):
            total = total + x[i]
            turned = turned * 0.5 + total
    tk.tile_store(out, turned)


@everywhere
def test_carries_of_nested_loops(device: str) -> None:
    """Case 26, warp#1293: the gradient came out twice as large. Here with a number and a tile."""
    x, seed = normal(4), np.array([1.0, -2.0, 0.5, 3.0])
    (found, *_) = gradients(nested, device, [x, 2, 3], np.zeros(4), seed)
    matrix = np.zeros((4, 4))
    for column in range(4):
        total, turned = 0.0, np.eye(4)[column]
        for i in range(2):
            for _ in range(3):
                total += float(i == column)
                turned = turned * 0.5 + total
        matrix[:, column] = turned
    close(found, seed @ matrix)


@pytest.mark.xfail(strict=True, raises=AttributeError, reason="vectors and quaternions come with part 8")
def test_nested_loops_that_carry_a_vector_and_a_quaternion() -> None:
    """Case 26 as it was reported."""
    assert tk.vec3(0.0, 0.0, 0.0) and tk.quat(0.0, 0.0, 0.0, 1.0)


# Writes over what was there.


@tk.kernel
def assigned(a: tk.array2d[tk.float64], b: tk.array2d[tk.float64], out: tk.array2d[tk.float64]):
    t = tk.tile_load(a, shape=(8, 8))
    tk.tile_assign(t, tk.tile_map(tk.sin, tk.tile_load(b, shape=(4, 8))), offset=(4, 0))
    tk.tile_store(out, t)


@everywhere
def test_an_assigned_tile(device: str) -> None:
    """Case 29, warp#1232: what is overwritten has no gradient, what is written has it once."""
    a, b, seed = normal(8, 8), normal(4, 8), normal(8, 8)
    found = gradients(assigned, device, [a, b], np.zeros((8, 8)), seed)
    close(found[0], np.concatenate([seed[:4], np.zeros((4, 8))]))
    close(found[1], seed[4:] * np.cos(b))


@tk.kernel
def factors(
    a: tk.array2d[tk.float64],
    b: tk.array2d[tk.float64],
    s: tk.array1d[tk.float64],
    c: tk.array2d[tk.float64],
    out: tk.array2d[tk.float64],
):
    acc = tk.tile_load(c, shape=(4, 4))
    tk.tile_matmul(tk.tile_load(a, shape=(4, 4)), tk.tile_load(b, shape=(4, 4)), acc, alpha=s[0], beta=s[1])
    tk.tile_store(out, acc)


@everywhere
def test_factors_from_arrays(device: str) -> None:
    """Case 31: their gradient was 0."""
    a, b, c, seed, s = normal(4, 4), normal(4, 4), normal(4, 4), normal(4, 4), np.array([2.0, -0.5])
    found = gradients(factors, device, [a, b, s, c], np.zeros((4, 4)), seed)
    wants = 2 * seed @ b.T, 2 * a.T @ seed, [np.sum(seed * (a @ b)), np.sum(seed * c)], -0.5 * seed
    for got, want in zip(found, wants, strict=True):
        close(got, want)


@tk.kernel
def scaled_in_place(b: tk.array1d[tk.float64], a: tk.array1d[tk.float64]):
    i = tk.tid()
    a[i] *= b[i]


@tk.kernel
def added_up(y: tk.array1d[tk.float64], n: int, x: tk.array1d[tk.float64]):
    i = tk.tid()
    for j in range(n):
        x[i] += y[j]


@tk.kernel
def summed_first(y: tk.array1d[tk.float64], n: int, x: tk.array1d[tk.float64]):
    i = tk.tid()
    s = tk.float64(0.0)
    for j in range(n):
        s += y[j]
    x[i] = s


@everywhere
def test_elements_that_are_read_and_written(device: str) -> None:
    """Case 32: db was 20; it is 10, what a held before, which is gone when the gradient is computed."""
    wanted = r"the gradient needs what array 'a' held when line \d+ read it, but line \d+ writes it; write to another"
    with pytest.raises(KernelNotImplementedError, match=wanted):
        gradients(scaled_in_place, device, [np.array([2.0])], np.array([10.0]), 1.0, dim=1, tiled=False)


@everywhere
def test_both_spellings_of_a_sum(device: str) -> None:
    """Case 40, taichi#8356: 5 elements of x by 3 of y; dy is 5 in both."""
    y = normal(3)
    for kernel in (summed_first, added_up):
        close(gradients(kernel, device, [y, 3], np.zeros(5), 1.0, dim=5, tiled=False)[0], [5.0] * 3)


def squared(x: float):
    return x * x


@tk.kernel
def with_gradient(x: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    tk.tile_store(out, tk.tile_map(squared, tk.tile_load(x, shape=4)))


@tk.kernel(enable_backward=False)
def without_gradient(x: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    tk.tile_store(out, tk.tile_map(squared, tk.tile_load(x, shape=4)))


@everywhere
def test_a_helper_of_kernels_with_and_without_a_gradient(device: str) -> None:
    """Case 38: the kernel without one took it away from the other."""
    x, out = normal(4), np.zeros(4)
    where: dict[str, Any] = {} if device == "cuda" else {"device": device}
    if device != "cuda":
        tk.launch_tiled(without_gradient, dim=1, inputs=[x], outputs=[out], **where)
    close(gradients(with_gradient, device, [x], out, 1.0)[0], 2 * x)


@tk.kernel
def turned_in_place(a: tk.array2d[tk.float64], w: tk.array2d[tk.float64], out: tk.array2d[tk.float64]):
    i = tk.tid()
    t = tk.tile_load(a, shape=(16, 16), offset=(16 * i, 0))
    w_tile = tk.tile_load(w, shape=(16, 16))
    tk.tile_assign(t, tk.tile_transpose(t), offset=(0, 0))
    t += tk.tile_matmul(t, w_tile)
    tk.tile_assign(t[1:16], t[0:15] * 2.0, offset=(0, 0))
    tk.tile_store(out, t, offset=(16 * i, 0))


@everywhere
def test_moves_within_a_tile_give_the_same_bits_each_time(device: str) -> None:
    """Case 41, Megatron-LM#5981: a move whose source and destination overlap, in a kernel of several warps."""
    a, w, seed, out = normal(64, 16), normal(16, 16), normal(64, 16), np.zeros((64, 16))
    first = gradients(turned_in_place, device, [a, w], out, seed, dim=4, block_dim=128)
    for _ in range(2 if device == "interpret" else 50):
        again = gradients(turned_in_place, device, [a, w], out, seed, dim=4, block_dim=128)
        assert [grad.tobytes() for grad in again] == [grad.tobytes() for grad in first]
    blocks, dw = [], 0
    for block, grad in zip(np.split(a, 4), np.split(seed, 4), strict=True):
        grad = grad.copy()
        moved = 2 * grad[1:]
        grad[1:] = 0
        grad[:15] += moved
        blocks.append((grad + grad @ w.T).T)
        dw = dw + block @ grad
    close(first[0], np.concatenate(blocks))
    close(first[1], dw)
