"""NaN, infinity and subnormal numbers: one rule over dtypes, whatever the order of operands, on every device."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.cases.everywhere import everywhere, launch
from tests.passes.finite_differences import gradients, traced

DTYPES = pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
NAN, INF = np.nan, np.inf
A = [-1.0, NAN, NAN, 2.0, -0.0, 0.0, INF, -INF, NAN, 3.0]
B = [NAN, -1.0, NAN, 1.0, 0.0, -0.0, NAN, NAN, INF, 3.0]
LEAST = [-1.0, -1.0, NAN, 1.0, -0.0, -0.0, INF, -INF, INF, 3.0]
MOST = [-1.0, -1.0, NAN, 2.0, 0.0, 0.0, INF, -INF, INF, 3.0]
N = len(A)


def same(got: Any, want: Any) -> None:
    """Equal numbers, with the signs of zeros; a NaN is a NaN."""
    got, want = np.asarray(got).astype(np.float64), np.asarray(want).astype(np.float64)
    np.testing.assert_array_equal(got, np.broadcast_to(want, got.shape))
    finite = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got)[finite], np.broadcast_to(np.signbit(want), got.shape)[finite])


@tk.kernel
def extremes(a: tk.array1d[Any], b: tk.array1d[Any], least: tk.array2d[Any], most: tk.array2d[Any]):
    x, y = tk.tile_load(a, shape=N), tk.tile_load(b, shape=N)
    tk.tile_store(least[0], tk.tile_map(tk.min, x, y))
    tk.tile_store(most[0], tk.tile_map(tk.max, x, y))
    for i in range(N):
        least[1, i] = tk.min(a[i], b[i])
        most[1, i] = tk.max(a[i], b[i])
        pair = tk.tile_zeros(shape=2, dtype=a.dtype)
        pair[0], pair[1] = a[i], b[i]
        least[2, i], most[2, i] = tk.tile_min(pair)[0], tk.tile_max(pair)[0]


@everywhere
@DTYPES
def test_the_order_of_a_nan_does_not_matter(device: str, dtype: Any) -> None:
    """warp#1376: min(-1, NaN) was not min(NaN, -1). Here the number wins, also in reductions; -0 is less than 0."""
    for a, b in ((A, B), (B, A)):
        least, most = np.full((3, N), 7, dtype), np.full((3, N), 7, dtype)
        launch(extremes, device, inputs=[np.array(a, dtype), np.array(b, dtype)], outputs=[least, most])
        same(least, LEAST)
        same(most, MOST)


@tk.kernel
def of_atoms(a: tk.array1d[Any], b: tk.array1d[Any], spared: tk.array2d[Any], kept: tk.array2d[Any]):
    x, y, r = tk.tile_load(a, shape=N), tk.tile_load(b, shape=N), tk.tile_zeros(shape=N, dtype=a.dtype)
    tk.tile_apply(tk.static(f"min.{a.dtype.short}"), r, x, y)
    tk.tile_store(spared[0], r)
    tk.tile_apply(tk.static(f"max.{a.dtype.short}"), r, x, y)
    tk.tile_store(spared[1], r)
    tk.tile_apply(tk.static(f"min.NaN.{a.dtype.short}"), r, x, y)
    tk.tile_store(kept[0], r)
    tk.tile_apply(tk.static(f"max.NaN.{a.dtype.short}"), r, x, y)
    tk.tile_store(kept[1], r)


@everywhere
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_who_wants_a_nan_to_win_says_so(device: str, dtype: Any) -> None:
    """tilelang#3270: whether a maximum kept a NaN depended on the dtype. Here on the spelling of the atom alone."""
    for a, b in ((A, B), (B, A)):
        spared, kept = np.zeros((2, N), dtype), np.zeros((2, N), dtype)
        launch(of_atoms, device, inputs=[np.array(a, dtype), np.array(b, dtype)], outputs=[spared, kept])
        same(spared, [LEAST, MOST])
        either = np.isnan(a) | np.isnan(b)
        same(kept, np.where(either, NAN, [LEAST, MOST]))


@tk.kernel
def limited(a: tk.array1d[Any], start: tk.array1d[Any], out: tk.array2d[Any]):
    x = tk.tile_load(a, shape=N)
    zero, one = a.dtype(0.0), a.dtype(1.0)
    tk.tile_store(out[0], tk.tile_map(lambda v: tk.clamp(v, zero, one), x))
    running = tk.tile_load(start, shape=N)
    for i in range(N):
        out[1, i] = tk.clamp(a[i], zero, one)
        running = tk.max(running, x[i])
    tk.tile_store(out[2], running)


@everywhere
@DTYPES
def test_one_rule_for_limits_and_running_maxima(device: str, dtype: Any) -> None:
    """tilelang#2697, #3024: with and without a preset accumulator; a NaN is limited to the lower end."""
    start = [-INF, NAN, 0.5, 5.0, *[-INF] * (N - 4)]
    x = [0.5, NAN, -2.0, 3.0, NAN, 1.0, -0.5, 0.0, 0.25, 2.5]
    out = np.zeros((3, N), dtype)
    launch(limited, device, inputs=[np.array(x, dtype), np.array(start, dtype)], outputs=[out])
    same(out[:2], [0.5, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.25, 1.0])
    same(out[2], [3.0, 3.0, 3.0, 5.0, *[3.0] * (N - 4)])


@tk.kernel
def greater(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_map(tk.max, tk.tile_load(a, shape=N), tk.tile_load(b, shape=N)))


@tk.kernel
def greater_atom(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]):
    r = tk.tile_zeros(shape=N, dtype=float)
    tk.tile_apply("max.f32", r, tk.tile_load(a, shape=N), tk.tile_load(b, shape=N))
    tk.tile_store(out, r)


@pytest.mark.parametrize("kernel", [greater, greater_atom], ids=["max", "atom"])
def test_the_gradient_of_a_maximum_follows_the_chosen_operand(kernel: tk.Kernel) -> None:
    """tilelang#3024: none flows to a NaN that was passed over, and that is no NaN."""
    given = {"a": np.float32(A), "b": np.float32(B), "out": np.zeros(N, np.float32)}
    found = gradients(traced(kernel, given), given, {"out": np.ones(N, np.float32)}, (1,))
    assert found["a"][[0, 1, 3, 6, 7, 8]].tolist() == [1.0, 0.0, 1.0, 1.0, 1.0, 0.0]
    one = ~(np.isnan(A) & np.isnan(B))  # else there is none to choose
    assert (found["a"] + found["b"])[one].tolist() == [1.0] * (N - 1)


TINY = {np.float16: 2.0**-20, ml_dtypes.bfloat16: 1e-39, np.float32: 1e-40, np.float64: 1e-310}
"""Subnormal numbers of each dtype."""


@tk.kernel
def of_small(a: tk.array1d[Any], b: tk.array1d[Any], out: tk.array2d[Any]):
    x, y = tk.tile_load(a, shape=4), tk.tile_load(b, shape=4)
    tk.tile_store(out[0], x / y)
    tk.tile_store(out[1], x * y)
    tk.tile_store(out[2], x + x)
    tk.tile_store(out[3], tk.sqrt(x))
    for i in range(4):
        out[4, i], out[5, i] = a[i] / b[i], tk.sqrt(a[i])


@everywhere
@DTYPES
def test_subnormal_numbers_are_kept(device: str, dtype: Any) -> None:
    """triton#8557: a quotient and a root at 1e-40. On every device as IEEE says, unless ``fast_math`` is set."""
    tiny = TINY[dtype]
    a, b = np.array([tiny, tiny, 3 * tiny, 0.0], dtype), np.array([3.0, 0.5, 1.0, 2.0], dtype)
    out = np.zeros((6, 4), dtype)
    launch(of_small, device, inputs=[a, b], outputs=[out])
    wide = np.float32 if dtype is not np.float64 else np.float64
    x, y = a.astype(wide), b.astype(wide)
    want = [x / y, x * y, x + x, np.sqrt(x), x / y, np.sqrt(x)]
    assert out.tolist() == np.array(want).astype(dtype).tolist()
    assert (out[:, :3].astype(np.float64) > 0).all()


@tk.kernel
def flushed(a: tk.array1d[float], b: tk.array1d[float], kept: tk.array2d[float], lost: tk.array2d[float]):
    x, y, r = tk.tile_load(a, shape=4), tk.tile_load(b, shape=4), tk.tile_zeros(shape=4, dtype=float)
    tk.tile_apply("div.rn.f32", r, x, y)
    tk.tile_store(kept[0], r)
    tk.tile_apply("sqrt.rn.f32", r, x)
    tk.tile_store(kept[1], r)
    tk.tile_apply("mul.rn.f32", r, x, y)
    tk.tile_store(kept[2], r)
    tk.tile_apply("fma.rn.f32", r, x, y, x)
    tk.tile_store(kept[3], r)
    tk.tile_apply("div.rn.ftz.f32", r, x, y)
    tk.tile_store(lost[0], r)
    tk.tile_apply("sqrt.rn.ftz.f32", r, x)
    tk.tile_store(lost[1], r)
    tk.tile_apply("mul.rn.ftz.f32", r, x, y)
    tk.tile_store(lost[2], r)
    tk.tile_store(lost[3], tk.tile_fma(x, y, x, ftz=True))


@everywhere
def test_who_wants_subnormal_numbers_flushed_says_so(device: str) -> None:
    """The switch is ``.ftz`` of each atom; a flushed number keeps its sign."""
    a, b = np.float32([1e-40, -0.0, 2e-39, 3e-41]), np.float32([3.0, 2.0, -0.5, -2.0])
    kept, lost = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)
    launch(flushed, device, inputs=[a, b], outputs=[kept, lost])
    exact = a.astype(np.float64) * b + a
    same(kept, [a / b, np.sqrt(a), a * b, exact.astype(np.float32)])
    assert np.count_nonzero(kept) == 12
    zeros = np.copysign(np.float32(0), a / b)
    same(lost, [zeros, [0.0, -0.0, 0.0, 0.0], zeros, [0.0, -0.0, 0.0, 0.0]])
