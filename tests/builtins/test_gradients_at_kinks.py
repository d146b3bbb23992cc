"""Gradients where a function has a kink, a jump or an infinite slope, and where its result has no effect."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.passes.finite_differences import gradients, traced

INF, NAN = math.inf, math.nan
ONE: list[tuple[Any, list[float], list[float]]] = [
    (tk.abs, [-2.0, -0.0, 0.0, 3.0], [-1.0, 1.0, 1.0, 1.0]),
    (tk.sign, [-2.0, 0.0], [0.0, 0.0]),
    (tk.floor, [1.0, 1.5], [0.0, 0.0]),
    (tk.round, [0.5, 1.25], [0.0, 0.0]),
    (tk.frac, [-1.25, 1.0], [1.0, 1.0]),
    (tk.sqrt, [0.0, 4.0], [INF, 0.25]),
    (tk.rsqrt, [0.0, 4.0], [-INF, -0.0625]),
    (tk.cbrt, [0.0, -8.0], [INF, 1.0 / 12.0]),
    (tk.asin, [-1.0, 1.0, 1.5, 0.0], [0.0, 0.0, 0.0, 1.0]),
    (tk.acos, [-1.0, 1.0, -1.5, 0.0], [0.0, 0.0, 0.0, -1.0]),
    (tk.asinh, [1e200, 0.0], [1e-200, 1.0]),
    (tk.atanh, [1.0, 0.0], [INF, 1.0]),
    (lambda x: tk.pow(x, 2.0), [0.0, -3.0], [0.0, -6.0]),
    (lambda x: tk.pow(x, 0.0), [0.0, -3.0], [0.0, 0.0]),
    (lambda x: tk.pow(x, 1.0), [0.0, -3.0], [1.0, 1.0]),
    (lambda x: tk.max(x, 0.0), [-1.0, 0.0, 1.0, NAN], [0.0, 0.0, 1.0, 0.0]),
    (lambda x: tk.clamp(x, 0.0, 1.0), [-1.0, 0.0, 0.5, 1.0, 2.0, NAN], [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]),
    (lambda x: tk.where(x > 0.0, tk.log(x), 0.0), [0.0, -1.0, 2.0], [0.0, 0.0, 0.5]),
    (lambda x: tk.where(x > 0.0, x * tk.rsqrt(x), 0.0), [0.0, 4.0], [0.0, 0.25]),
    (lambda x: tk.where(x != 0.0, 1.0 / x, 0.0), [0.0, 2.0], [0.0, -0.25]),
    (lambda x: tk.where(x < 700.0, tk.exp(x), 0.0), [1000.0, 0.0], [0.0, 1.0]),
    (lambda x: tk.where(x > 0.0, tk.fma(1.0 / x, x, x), 0.0), [0.0, 2.0], [0.0, 1.0]),
    (lambda x: tk.min(tk.exp(x), 5.0), [1000.0, 0.0], [0.0, 1.0]),
]
TWO: list[tuple[Any, list[tuple[float, float]], list[tuple[float, float]]]] = [
    (tk.min, [(1.0, 1.0), (1.0, 2.0), (NAN, 2.0), (1.0, NAN), (NAN, NAN)], [(0, 1), (1, 0), (0, 1), (1, 0), (0, 1)]),
    (tk.max, [(1.0, 1.0), (1.0, 2.0), (NAN, 2.0), (1.0, NAN), (0.0, -0.0)], [(0, 1), (0, 1), (0, 1), (1, 0), (0, 1)]),
    (tk.mod, [(7.0, 2.0), (-7.5, 2.0), (1.0, INF)], [(1, -3), (1, 3), (1, 0)]),
    (tk.floordiv, [(7.0, 2.0)], [(0, 0)]),
    (tk.copysign, [(2.0, -3.0), (-2.0, -0.0), (0.0, -1.0)], [(-1, 0), (1, 0), (-1, 0)]),
    (tk.atan2, [(0.0, 0.0), (1e-200, 0.0), (0.0, 1e200)], [(0, 0), (0, -1e200), (1e-200, 0)]),
    (tk.pow, [(0.0, 2.0), (0.0, 0.0), (-2.0, 2.0), (2.0, 0.0)], [(0, 0), (0, -INF), (-4, NAN), (0, math.log(2.0))]),
    (tk.div, [(1e-200, 1e-200)], [(1e200, -1e200)]),
]


@pytest.mark.parametrize("row", range(len(ONE)))
def test_slopes_of_functions_of_one_number(row: int) -> None:
    function, at, slopes = ONE[row]
    count = len(at)

    @tk.kernel
    def kernel(x: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
        tk.tile_store(out, tk.tile_map(function, tk.tile_load(x, count)))

    arguments = {"x": np.array(at), "out": np.zeros(count)}
    found = gradients(traced(kernel, arguments), arguments, {"out": np.ones(count)}, (1,))
    np.testing.assert_allclose(found["x"], slopes, rtol=1e-12)


@pytest.mark.parametrize("row", range(len(TWO)))
def test_slopes_of_functions_of_two_numbers(row: int) -> None:
    function, at, slopes = TWO[row]
    count = len(at)

    @tk.kernel
    def kernel(x: tk.array1d[tk.float64], y: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
        tk.tile_store(out, tk.tile_map(function, tk.tile_load(x, count), tk.tile_load(y, count)))

    x, y = np.array(at).T.copy()
    arguments = {"x": x, "y": y, "out": np.zeros(count)}
    found = gradients(traced(kernel, arguments), arguments, {"out": np.ones(count)}, (1,))
    np.testing.assert_allclose(np.stack([found["x"], found["y"]], axis=1), slopes, rtol=1e-12)


@pytest.mark.deep
def test_the_choices_are_warps() -> None:
    """At the kinks of functions that Warp has a choice for."""
    wp = pytest.importorskip("warp")
    x = np.array([1.0, -2.0, 0.0, np.nan, 1.0, 0.5, 0.0, -1.0])
    y = np.array([1.0, -2.0, -0.0, 2.0, np.nan, 1.0, -1.0, 0.0])

    def written(lib: Any) -> Any:
        @lib.kernel
        def kernel(
            x: lib.array(dtype=lib.float64), y: lib.array(dtype=lib.float64), out: lib.array2d(dtype=lib.float64)
        ):
            i = lib.tid()
            out[0, i] = lib.abs(x[i])
            out[1, i] = lib.min(x[i], y[i])
            out[2, i] = lib.max(x[i], y[i])
            out[3, i] = lib.clamp(x[i], y[i], lib.float64(1.0))
            out[4, i] = lib.atan2(x[i], y[i])
            out[5, i] = lib.asin(x[i])
            out[6, i] = lib.copysign(x[i], y[i])
            out[7, i] = lib.floor(x[i])

        return kernel

    given = [wp.array(v, dtype=wp.float64, requires_grad=True, device="cpu") for v in (x, y, np.zeros((8, len(x))))]
    with wp.Tape() as tape:
        wp.launch(written(wp), len(x), given, device="cpu")
    # NaN is the slope at a NaN, and it would hide the choices that are compared
    seed = np.where(np.isnan(x + y) & (np.arange(8) > 3)[:, None], 0.0, 1.0 + np.arange(8.0)[:, None])
    tape.backward(grads={given[2]: wp.array(seed, dtype=wp.float64, device="cpu")})
    arguments = {"x": x, "y": y, "out": np.zeros((8, len(x)))}
    found = gradients(traced(written(tk), arguments), arguments, {"out": seed}, (len(x),))
    np.testing.assert_allclose(found["x"], given[0].grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(found["y"], given[1].grad.numpy(), rtol=1e-12)
