"""Gradients of products whose factors are not finite outside of arrays, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.passes.finite_differences import traced
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.passes.differentiate import differentiate, made_ready
from tilekit.passes.finite_outside import FiniteOutside

ROWS, K, COLUMNS = 7, 8, 8


@tk.kernel
def of_unit_rows(x: tk.array2d[Any], w: tk.array2d[Any], y: tk.array2d[float]):
    """Rows by their sum of squares, 0 / 0 in the row that the array lacks, times ``w``."""
    i = tk.tid()
    t = tk.tile_load(x, shape=(4, K), offset=(4 * i, 0))
    unit = t / tk.tile_astype(tk.tile_sum(t * t, axis=1, keepdims=True), x.dtype)
    acc = tk.tile_zeros(shape=(4, COLUMNS), dtype=float)
    tk.tile_matmul(unit, tk.tile_load(w, shape=(K, COLUMNS)), acc)
    tk.tile_store(y, acc, offset=(4 * i, 0))


@tk.kernel
def in_a_loop(x: tk.array2d[Any], w: tk.array2d[Any], y: tk.array2d[float]):
    """The same in parts of K, with alpha and a tile that is left of the product."""
    i = tk.tid()
    acc = tk.tile_zeros(shape=(4, COLUMNS), dtype=float)
    for k in range(K // 4):
        t = tk.tile_load(x, shape=(4, 4), offset=(4 * i, 4 * k))
        b = tk.tile_load(w, shape=(4, COLUMNS), offset=(4 * k, 0))
        tk.tile_matmul(tk.tile_map(reciprocal, t), b, acc, alpha=2.0)
    tk.tile_store(y, acc, offset=(4 * i, 0))


@tk.func
def reciprocal(x: Any):
    return x.dtype(1.0) / x


@tk.kernel
def of_columns(x: tk.array2d[Any], w: tk.array2d[Any], y: tk.array2d[float]):
    """``w.T @ (1 / x.T)``: the columns of the right factor that the array lacks are infinite."""
    i = tk.tid()
    t = tk.tile_map(reciprocal, tk.tile_load(x, shape=(4, K), offset=(4 * i, 0)))
    acc = tk.tile_zeros(shape=(COLUMNS, 4), dtype=float)
    tk.tile_matmul(tk.tile_transpose(tk.tile_load(w, shape=(K, COLUMNS))), tk.tile_transpose(t), acc)
    tk.tile_store(y, tk.tile_transpose(acc), offset=(4 * i, 0))


@tk.kernel
def with_an_epilogue(x: tk.array2d[Any], w: tk.array2d[Any], y: tk.array2d[float]):
    """``log(x @ w)``: the logarithm of zero, in the row that the array lacks."""
    i = tk.tid()
    acc = tk.tile_zeros(shape=(4, COLUMNS), dtype=float)
    tk.tile_matmul(tk.tile_load(x, shape=(4, K), offset=(4 * i, 0)), tk.tile_load(w, shape=(K, COLUMNS)), acc)
    tk.tile_store(y, tk.tile_map(tk.log, acc) + 1.0 / acc, offset=(4 * i, 0))


def unit_rows(x: Any, w: Any, g: Any) -> tuple[Any, Any]:
    size = np.sum(x * x, axis=1, keepdims=True)
    coming = g @ w.T
    return coming / size - 2 * x * np.sum(coming * x, axis=1, keepdims=True) / size**2, (x / size).T @ g


def reciprocals(factor: float) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
    return lambda x, w, g: (-factor * (g @ w.T) / x**2, factor * (1 / x).T @ g)


def logarithms(x: Any, w: Any, g: Any) -> tuple[Any, Any]:
    c = x @ w
    coming = g * (1 / c - 1 / c**2)
    return coming @ w.T, x.T @ coming


KERNELS = [
    (of_unit_rows, unit_rows), (in_a_loop, reciprocals(2.0)), (of_columns, reciprocals(1.0)),
    (with_an_epilogue, logarithms),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "device", "save"),
    [
        pytest.param(dtype, device, "auto", marks=[pytest.mark.deep] * (dtype is ml_dtypes.bfloat16))
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16)
        for device in ("cpu", "interpret")
    ]
    + [(np.float32, "cpu", "none")],
)
@pytest.mark.parametrize(("kernel", "exact"), KERNELS, ids=lambda each: getattr(each, "key", ""))
def test_the_gradient_of_what_is_inside(kernel: Any, exact: Any, dtype: Any, device: str, save: str) -> None:
    rng = np.random.default_rng(2)
    x, w = (rng.uniform(0.5, 1.5, shape).astype(dtype) for shape in ((ROWS, K), (K, COLUMNS)))
    y, g = np.zeros((ROWS, COLUMNS), np.float32), rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    with tk.Tape(save=save) as tape:
        tk.launch_tiled(kernel, dim=2, inputs=[x, w], outputs=[y], block_dim=32, device=device)
    tape.backward(grads=[(y, g)])
    want = exact(x.astype(np.float64), w.astype(np.float64), g.astype(np.float64))
    unit = {2: 2.0**-8 if dtype is ml_dtypes.bfloat16 else 2.0**-10, 4: 2.0**-20}[np.dtype(dtype).itemsize]
    for array, value in zip((x, w), want, strict=True):
        found = tape.gradients[array].astype(np.float64)
        np.testing.assert_allclose(found, value, rtol=0, atol=8 * unit * np.abs(value).max())


# What is known to be finite.


def decide(value: float) -> float:
    if value > 0.0:
        return value
    return 0.1 * value


@pytest.mark.parametrize(
    ("make", "finite"),
    [
        (lambda t: t, True),
        (lambda t: tk.tile_transpose(tk.tile_astype(t, tk.float16)), True),
        (lambda t: t * t + 1.0, True),
        (lambda t: tk.tile_map(decide, t), True),
        (lambda t: tk.exp(t - tk.tile_max(t, axis=1, keepdims=True)), True),
        (lambda t: t / 3.0, True),
        (lambda t: tk.tile_matmul(t, t), True),
        (lambda t: 1.0 / t, False),
        (lambda t: tk.log(t), False),
        (lambda t: tk.sqrt(t), False),
        (lambda t: t / tk.tile_sum(t, axis=1, keepdims=True), False),
        (lambda t: tk.tile_matmul(t, 1.0 / t), False),
        (lambda t: tk.tile_map(lambda x: decide(1.0 / x), t), False),
    ],
)
def test_what_is_known_to_be_finite(make: Any, finite: bool) -> None:
    @tk.kernel
    def kernel(x: tk.array2d[float], y: tk.array2d[float], n: int):
        t = tk.tile_load(x, shape=(8, 8))
        total = tk.tile_zeros(shape=(8, 8), dtype=float)
        for _ in range(n):
            factor = make(t)
            tk.tile_matmul(tk.tile_astype(factor, tk.float32), t, total)
        tk.tile_store(y, total)

    arrays = {"x": np.zeros((8, 8), np.float32), "y": np.zeros((8, 8), np.float32), "n": np.int32(3)}
    fn = made_ready(traced(kernel, arrays), LaunchForm())
    *_, product = (op for op in walk(fn.body) if op.builtin.contraction)
    assert FiniteOutside(fn)(product.operands["a"]) is finite
    marks = sum(
        op.builtin.name == "tile_max" for launch in differentiate(fn).launches for op in walk(launch.function.body)
    )
    assert finite or marks
