"""Operators on tiles, in-place forms, tile_map and atomic adds."""

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.builtins.both import out, run
from tilekit.errors import KernelTypeError, KernelValueError

rng = np.random.default_rng(5)
A = rng.standard_normal((6, 8)).astype(np.float32)
B = (rng.standard_normal((6, 8)) + 3).astype(np.float32)


@tk.kernel
def operators(a: tk.array2d[float], b: tk.array2d[float], s: float, x: tk.array3d[float], y: tk.array3d[tk.bool]):
    t, u = tk.tile_load(a, shape=(6, 8)), tk.tile_load(b, shape=(6, 8))
    results = (t + u, t - u, t * u, t / u, -t, +t, t + s, 2.0 - t, t * 3, 1.0 / u, t % u, s * t, t // u)
    for i in range(13):
        tk.tile_store(x, tk.tile_reshape(results[i], (1, 6, 8)), offset=(i, 0, 0))
    tests = (t < u, t <= 0.0, t > s, t >= u, t == t, t != u)
    for i in range(6):
        tk.tile_store(y, tk.tile_reshape(tests[i], (1, 6, 8)), offset=(i, 0, 0))


def test_operators_work_element_by_element():
    s = np.float32(0.75)
    x, y = run(operators, [A, B, 0.75], [out(13, 6, 8), out(6, 6, 8, dtype=bool)])
    one = np.float32(1)
    wanted = [A + B, A - B, A * B, A / B, -A, A, A + s, 2 * one - A, A * 3 * one, one / B]
    wanted += [np.fmod(A, B), s * A, np.floor(A / B)]
    for found, expected in zip(x, wanted, strict=True):
        assert np.array_equal(found, expected)
    for found, expected in zip(y, [A < B, A <= 0, A > s, A >= B, A == A, A != B], strict=True):
        assert np.array_equal(found, expected)


@tk.kernel
def in_place(
    a: tk.array2d[float], b: tk.array2d[float], s: float, n: int, x: tk.array2d[float], k: tk.array1d[tk.int32]
):
    t, u = tk.tile_load(a, shape=(6, 8)), tk.tile_load(b, shape=(6, 8))
    same = t[:]
    for _ in range(n):
        t += u
        t -= s
        t *= u
        t /= 2.0
        t[:, :4] *= t[:, 4:]
        t.T[2:4] += 1
    tk.tile_store(x, same)
    i = tk.tile_arange(8, dtype=tk.int32)
    i += 3
    i *= i
    i //= 2
    i %= 7
    i |= 8
    i ^= 3
    i &= 13
    i <<= 2
    i >>= 1
    tk.tile_store(k, i)


def test_in_place_forms_write_to_the_tile_also_in_loops():
    x, k = run(in_place, [A, B, 0.75, 3], [out(6, 8), out(8, dtype=np.int32)])
    t, s = A.copy(), np.float32(0.75)
    for _ in range(3):
        t += B
        t -= s
        t *= B
        t /= np.float32(2)
        t[:, :4] *= t[:, 4:]
        t.T[2:4] += 1
    assert np.array_equal(x, t)
    i = np.arange(8, dtype=np.int32) + 3
    assert np.array_equal(k, ((((i * i // 2) % 7 | 8) ^ 3) & 13) << 1)


@tk.kernel
def squared(a: tk.array2d[float], x: tk.array2d[float]):
    t = tk.tile_load(a, shape=(4, 4))
    same = t[:]
    t @= tk.tile_transpose(t)
    t[::2] @= tk.tile_ones(shape=(4, 4))
    tk.tile_store(x, same)


def test_a_product_in_place_reads_its_operands_first():
    whole = rng.integers(-4, 5, (4, 4)).astype(np.float32)
    (x,) = run(squared, [whole], [out(4, 4)])
    wanted = whole @ whole.T
    wanted[::2] = wanted[::2] @ np.ones((4, 4), np.float32)
    assert np.array_equal(x, wanted)
    with pytest.raises(KernelTypeError, match=r"tile<2x3xf32> @= gives tile<2x4xf32>, which does not fit"):
        t = tk.tile_ones(shape=(2, 3))
        t @= tk.tile_ones(shape=(3, 4))


@tk.func
def clipped(x: float, low: float, high: float):
    if x < low:
        return low
    if x > high:
        return high
    return x


def twice(x):
    return x + x


@tk.kernel
def mapped(a: tk.array2d[float], b: tk.array2d[float], s: float, x: tk.array3d[float], y: tk.array2d[tk.int32]):
    t, u = tk.tile_load(a, shape=(6, 8)), tk.tile_load(b, shape=(6, 8))
    c = tk.tile_map(clipped, t, -0.5, s)
    d = tk.tile_map(lambda p, q, r: p * q + r * s, t, u, 2.0)
    e = tk.tile_map(tk.add, t, t)
    f = tk.tile_map(twice, t.T).T
    g = tk.tile_map(lambda p: p, t[::-1, ::-1])
    results = (c, d, e, f, g)
    for i in range(5):
        tk.tile_store(x, tk.tile_reshape(tk.tile_astype(results[i], float), (1, 6, 8)), offset=(i, 0, 0))
    tk.tile_store(y, tk.tile_map(lambda p, q: tk.int32(p) + q, t * 10.0, tk.tile_full((6, 8), 7)))
    t += tk.tile_map(twice, t)
    tk.tile_store(x, tk.tile_reshape(t, (1, 6, 8)), offset=(5, 0, 0))


def test_map_takes_functions_builtins_and_lambdas_over_tiles_and_scalars():
    s = np.float32(0.75)
    x, y = run(mapped, [A, B, 0.75], [out(6, 6, 8), out(6, 8, dtype=np.int32)])
    two = np.float32(2)
    wanted = [np.clip(A, np.float32(-0.5), s), A * B + two * s, A + A, A + A, A[::-1, ::-1], A + (A + A)]
    for found, expected in zip(x, wanted, strict=True):
        assert np.array_equal(found, expected)
    assert np.array_equal(y, (A * np.float32(10)).astype(np.int32) + 7)


@tk.kernel
def adding(t: tk.array1d[float], i: int, a: tk.array1d[float], k: tk.array2d[tk.int64], h: tk.array1d[tk.float16],
           b: tk.array1d[tk.bfloat16], old: tk.array1d[float]):  # fmt: skip
    block = tk.tid()
    v = tk.tile_load(t, shape=4)
    before = tk.tile_atomic_add(a, v, offset=i)
    tk.tile_store(old, before, offset=block * 4)
    tk.tile_atomic_add(k, tk.tile_ones(shape=(2, 2), dtype=tk.int64), offset=(block - 1, 1))
    tk.tile_atomic_add(h, tk.tile_astype(v, tk.float16)[::-1], offset=-2)
    tk.tile_atomic_add(b, tk.tile_astype(v, tk.bfloat16))


@pytest.mark.parametrize("i", [1, 3, -3, 4, -(2**31), 2**31 - 1])
def test_atomic_adds_give_the_old_values_and_drop_what_is_outside(i):
    t = np.array([0.1, 2, -3, 4], np.float32)
    half, brain = np.ones(4, np.float16), np.ones(4, ml_dtypes.bfloat16)
    start = np.arange(4, dtype=np.float32)
    outputs = [start, out(3, 3, dtype=np.int64), half, brain, out(12)]
    a, k, h, b, old = run(adding, [t, i], outputs, dim=3, ordered=True)
    wanted, count, seen = start.copy(), np.zeros((3, 3), np.int64), []
    for block in range(3):
        before = np.zeros(4, np.float32)
        for e in range(4):
            if 0 <= i + e < 4:
                before[e] = wanted[i + e]
                wanted[i + e] += t[e]
        seen.append(before)
        count[max(block - 1, 0) : block + 1, 1:3] += 1
        half[:2] += t.astype(np.float16)[::-1][2:]
        brain = (brain.astype(np.float32) + t.astype(ml_dtypes.bfloat16).astype(np.float32)).astype(brain.dtype)
    assert np.array_equal(a, wanted) and np.array_equal(old, np.concatenate(seen))
    assert np.array_equal(k, count) and np.array_equal(h, half) and np.array_equal(b, brain)


@tk.kernel
def reaching_out(a: tk.array2d[float], b: tk.array2d[float], x: tk.array2d[float], y: tk.array2d[float]):
    t, u = tk.tile_load(a, shape=(6, 8)), tk.tile_load(b, shape=(6, 8))
    tk.tile_store(x, tk.tile_map(lambda p: p * u[0, 0] + b[1, 2] if p > 0.0 else u[-1, 1], t))
    tk.tile_store(y, tk.tile_map(lambda p: 1.5, t))
    tk.tile_store(y, tk.tile_map(lambda p: p - t[0, 0], t), offset=(6, 0))


def test_functions_of_elements_see_the_kernels_values():
    x, y = run(reaching_out, [A, B], [out(6, 8), out(12, 8)])
    assert np.array_equal(x, np.where(A > 0, A * B[0, 0] + B[1, 2], B[-1, 1]))
    assert np.array_equal(y[:6], np.full((6, 8), np.float32(1.5)))
    assert np.array_equal(y[6:], A - A[0, 0])


@tk.kernel
def writing(a: tk.array2d[float], x: tk.array2d[float]):
    t, u = tk.tile_load(a, shape=(6, 8)), tk.tile_zeros(shape=(6, 8))
    tk.tile_store(x, tk.tile_map(lambda p: u.__setitem__((0, 0), p), t))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_functions_of_elements_cannot_write_to_tiles(device):
    with pytest.raises(
        KernelTypeError, match=r"tile_map\(\): op is run for single elements and cannot write to a tile"
    ):
        tk.launch_tiled(writing, dim=1, inputs=[A], outputs=[out(6, 8)], device=device)


T, WHOLE = tk.tile_zeros(shape=(4, 6)), tk.tile_zeros(shape=(4, 6), dtype=int)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: T + tk.tile_zeros(shape=(6, 4)), KernelValueError,
         r"'\+': the shapes differ: a is tile<4x6xf32> and b is tile<6x4"),
        (lambda: tk.tile_map(tk.add, T, T[0]), KernelValueError, r"; b\[None, :\] repeats it along axis 0"),
        (lambda: T + WHOLE, KernelTypeError, r"'\+' needs one dtype: a is float32 but b is int32"),
        (lambda: WHOLE * 2.5, KernelTypeError, r"'\*' needs one dtype: a is int32 but b is a float"),
        (lambda: tk.tile_map(lambda x: (x, x), T), KernelTypeError, r"must return one number"),
        (lambda: tk.tile_map(tk.add, 1, 2), KernelTypeError, r"none of the arguments is a tile"),
        (lambda: bool(T == T), KernelTypeError, r"tile<4x6xbool> has no truth value"),
        (lambda: tk.tile_atomic_add(np.zeros(3, np.int32), T[0]), KernelTypeError, r"use tk.tile_astype"),
        (lambda: tk.tile_atomic_add(np.zeros(3, np.float32), T), KernelValueError, r"does not fit an array1d"),
        (lambda: tk.tile_atomic_add(np.zeros(3, bool), T[0] > 0), KernelTypeError, r"bools cannot be added"),
    ],
)  # fmt: skip
def test_wrong_arithmetic_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


NUMPYS = np.float32(2.0)


@tk.kernel
def numpys_scalar_first(a: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_load(a, shape=4)
    tk.tile_store(out, NUMPYS * t + (NUMPYS - t[1]) + tk.where(NUMPYS < t, 100.0, 0.0))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_a_numpy_scalar_on_the_left_of_a_tile(device):
    a, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    tk.launch_tiled(numpys_scalar_first, dim=1, inputs=[a], outputs=[out], device=device)
    assert out.tolist() == [1.0, 3.0, 5.0, 107.0]
    assert isinstance(NUMPYS * tk.tile_ones(shape=2), type(tk.tile_ones(shape=2)))
