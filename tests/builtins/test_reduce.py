"""Reductions: values, shapes, the fixed order, what is refused."""

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.builtins.both import out, run
from tilekit.builtins.reduce import in_order
from tilekit.errors import KernelIndexError, KernelTypeError

rng = np.random.default_rng(3)


def loop_order(values, combine):
    """The documented order, one element at a time."""
    part = list(values[:32])
    for e in range(32, len(values)):
        part[e % 32] = combine(part[e % 32], values[e])
    for half in (16, 8, 4, 2, 1):
        for i in range(half):
            if i + half < len(part):
                part[i] = combine(part[i], part[i + half])
    return part[0]


@pytest.mark.parametrize("n", [1, 2, 5, 31, 32, 33, 63, 64, 100, 257])
def test_the_reference_follows_the_documented_order(n):
    values = rng.standard_normal(n).astype(np.float32)
    assert in_order(values, None, np.add)[0] == loop_order(values, lambda a, b: a + b)
    table = rng.standard_normal((3, n, 2)).astype(np.float32)
    found = in_order(table, 1, np.add)
    assert all(found[i, j] == loop_order(table[i, :, j], lambda a, b: a + b) for i in range(3) for j in range(2))


@tk.kernel
def sums(a: tk.array2d[float], b: tk.array3d[float], x: tk.array1d[float], y: tk.array2d[float], z: tk.array2d[float]):
    t = tk.tile_load(a, shape=(9, 37))
    tk.tile_store(x, tk.tile_sum(t))
    tk.tile_store(x, tk.tile_sum(t.T), offset=1)
    tk.tile_store(x, tk.tile_sum(t[::2, ::-3]), offset=2)
    tk.tile_store(x, tk.tile_sum(t[3], axis=0), offset=3)
    tk.tile_store(x, tk.tile_sum(t, axis=0), offset=4)
    tk.tile_store(x, tk.tile_sum(t.T, axis=0), offset=41)
    u = tk.tile_load(b, shape=(3, 40, 5))
    tk.tile_store(y, tk.tile_sum(u, axis=-2))
    tk.tile_store(y, tk.tile_sum(u, axis=0), offset=(3, 0))
    tk.tile_store(z, tk.tile_sum(u, axis=2))


def test_sums_over_tiles_axes_and_views():
    a = rng.standard_normal((9, 37)).astype(np.float32)
    b = rng.standard_normal((3, 40, 5)).astype(np.float32)
    x, y, z = run(sums, [a, b], [out(50), out(43, 5), out(3, 40)])
    wanted = [a.sum(), a.sum(), a[::2, ::-3].sum(), a[3].sum(), *a.sum(0), *a.sum(1)]
    assert np.allclose(x, wanted, atol=1e-4)
    assert np.allclose(y, np.concatenate([b.sum(1), b.sum(0)]), atol=1e-4)
    assert np.allclose(z, b.sum(2), atol=1e-4)


@tk.kernel
def low(a: tk.array1d[tk.float16], b: tk.array1d[tk.bfloat16], c: tk.array1d[tk.int8], d: tk.array1d[tk.uint32],
        x: tk.array1d[tk.float16], y: tk.array1d[tk.bfloat16], z: tk.array1d[tk.int8], w: tk.array1d[tk.uint32],
        m: tk.array1d[tk.bfloat16]):  # fmt: skip
    tk.tile_store(x, tk.tile_sum(tk.tile_load(a, shape=2000)))
    tk.tile_store(x, tk.tile_reduce(tk.add, tk.tile_load(a, shape=2000)), offset=1)
    tk.tile_store(y, tk.tile_sum(tk.tile_load(b, shape=2000)))
    tk.tile_store(z, tk.tile_sum(tk.tile_load(c, shape=2000)))
    tk.tile_store(w, tk.tile_sum(tk.tile_load(d, shape=2000)))
    tk.tile_store(m, tk.tile_max(tk.tile_load(b, shape=2000)))


def test_16_bit_floats_are_summed_in_float32_and_integers_wrap():
    a = rng.standard_normal(2000).astype(np.float16)
    b = rng.standard_normal(2000).astype(ml_dtypes.bfloat16)
    c = rng.integers(-128, 128, 2000).astype(np.int8)
    d = rng.integers(0, 2**32, 2000, dtype=np.uint32)
    outputs = [out(n, dtype=v.dtype) for n, v in ((2, a), (1, b), (1, c), (1, d), (1, b))]
    x, y, z, w, m = run(low, [a, b, c, d], outputs)
    wide = np.float32(loop_order(a.astype(np.float32), lambda p, q: p + q))
    assert x.tolist() == [np.float16(wide)] * 2
    assert y[0] == loop_order(b.astype(np.float32), lambda p, q: p + q).astype(ml_dtypes.bfloat16)
    assert z[0] == np.sum(c, dtype=np.int8) and w[0] == np.sum(d, dtype=np.uint32)
    assert m[0] == b.max()


@tk.kernel
def extremes(a: tk.array2d[float], i: tk.array1d[tk.int32], x: tk.array1d[float], y: tk.array1d[tk.int32]):
    t = tk.tile_load(a, shape=(5, 8))
    tk.tile_store(x, tk.tile_max(t))
    tk.tile_store(x, tk.tile_min(t), offset=1)
    tk.tile_store(x, tk.tile_max(t, axis=1), offset=2)
    tk.tile_store(x, tk.tile_min(t, axis=-1), offset=7)
    tk.tile_store(y, tk.tile_max(tk.tile_load(i, shape=40)))
    tk.tile_store(y, tk.tile_min(tk.tile_load(i, shape=40)), offset=1)


def test_extremes_pass_over_nan_and_tell_signed_zeros_apart():
    a = np.full((5, 8), 0.0, np.float32)
    a[0] = [np.nan, 3, -2, np.nan, 1, np.nan, np.nan, np.nan]
    a[1] = np.nan
    a[2] = [-0.0] * 7 + [0.0]
    a[3] = [0.0] + [-0.0] * 7
    a[4] = [-np.inf, np.inf, 1, 2, 3, 4, 5, np.nan]
    i = rng.integers(-(2**31), 2**31, 40).astype(np.int32)
    x, y = run(extremes, [a, i], [out(12), out(2, dtype=np.int32)])
    most, least = x[2:7], x[7:]
    assert x[0] == np.inf and x[1] == -np.inf
    assert np.array_equal(most, [3, np.nan, 0, 0, np.inf], equal_nan=True) and not np.signbit(most[2:4]).any()
    assert np.array_equal(least, [-2, np.nan, 0, 0, -np.inf], equal_nan=True) and np.signbit(least[2:4]).all()
    assert y.tolist() == [i.max(), i.min()]


@tk.func
def longer(a: float, b: float):
    if abs_of(a) < abs_of(b):
        return b
    return a


@tk.func
def abs_of(x: float):
    return -x if x < 0.0 else x


@tk.kernel
def functions(a: tk.array2d[float], s: float, x: tk.array1d[float], y: tk.array1d[tk.bool], z: tk.array1d[tk.int64]):
    t = tk.tile_load(a, shape=(6, 40))
    tk.tile_store(x, tk.tile_reduce(tk.mul, t))
    tk.tile_store(x, tk.tile_reduce(lambda p, q: p + q * s, t.T), offset=1)
    tk.tile_store(x, tk.tile_reduce(longer, t, axis=1), offset=2)
    tk.tile_store(x, tk.tile_reduce(longer, t[:, 3:4], axis=0), offset=8)
    tk.tile_store(x, tk.tile_reduce(lambda p, q: p if p > q else q, t), offset=9)
    tk.tile_store(y, tk.tile_reduce(tk.logical_and, t > -100.0))
    tk.tile_store(y, tk.tile_reduce(tk.logical_or, t > 100.0), offset=1)
    tk.tile_store(z, tk.tile_reduce(lambda p, q: p * 3 - q, tk.tile_astype(t * 100.0, tk.int64), axis=0))


def test_reductions_by_any_function():
    a = (rng.standard_normal((6, 40)) + 1).astype(np.float32)
    s = np.float32(0.5)
    x, y, z = run(functions, [a, 0.5], [out(10), out(2, dtype=bool), out(40, dtype=np.int64)])
    flat = a.reshape(-1)
    assert x[0] == loop_order(flat, lambda p, q: p * q)
    assert x[1] == loop_order(a.T.reshape(-1), lambda p, q: p + q * s)
    longest = a[np.arange(6), np.abs(a).argmax(1)]
    assert np.array_equal(x[2:8], longest)
    assert x[8] == a[np.abs(a[:, 3]).argmax(), 3]
    assert x[9] == a.max()
    assert y.tolist() == [True, False]
    whole = (a * np.float32(100)).astype(np.int64)
    assert z.tolist() == [loop_order(whole[:, j], lambda p, q: p * 3 - q) for j in range(40)]


T = tk.tile_zeros(shape=(4, 6))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: tk.tile_sum(T, axis=2), KernelIndexError, r"axis 2 is out of bounds for a tile<4x6xf32> of 2 axes"),
        (lambda: tk.tile_sum(T, axis=1.0), KernelTypeError, r"axis must be a compile-time integer or None, got 1.0"),
        (lambda: tk.tile_sum(T > 0.0), KernelTypeError, r"convert it, as in tk.tile_astype\(a, tk.int32\)"),
        (lambda: tk.tile_max(T == 0.0), KernelTypeError, r"a is a tile<4x6xbool>"),
        (lambda: tk.tile_reduce(lambda a, b: tk.int32(a), T), KernelTypeError,
         r"op takes two float32 and must return one, got int32"),
        (lambda: tk.tile_reduce(lambda a, b: (a, b), T), KernelTypeError, r"op must return one number, got "),
        (lambda: tk.tile_reduce(lambda a: a, T), (KernelTypeError, TypeError), r"argument"),
        (lambda: tk.tile_reduce(tk.add, T, axis=-3), KernelIndexError, r"axis -3 is out of bounds"),
        (lambda: tk.tile_reduce(tk.add, 3.0), KernelTypeError, r"a must be a tile, got 3.0"),
    ],
)  # fmt: skip
def test_wrong_reductions_are_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
