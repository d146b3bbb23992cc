"""New tiles: values, dtypes, what is refused."""

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.both import out, run
from tilekit.errors import KernelTypeError, KernelValueError, UninitializedError

Floats, Ints, Bools = tk.array1d[tk.float32], tk.array1d[tk.int32], tk.array1d[tk.bool]


@tk.kernel
def filled(v: int, f: Floats, i: Ints, b: Bools, h: tk.array1d[tk.float16], u: tk.array1d[tk.uint8]):
    tk.tile_store(f, tk.tile_full(shape=2, value=1.5))
    tk.tile_store(f, tk.tile_full(shape=2, value=v, dtype=float), offset=2)
    tk.tile_store(f, tk.tile_ones(shape=2), offset=4)
    tk.tile_store(i, tk.tile_full(2, v))
    tk.tile_store(i, tk.tile_full(2, 2.75, dtype=int), offset=2)
    tk.tile_store(b, tk.tile_full(2, True))
    tk.tile_store(b, tk.tile_full(2, v, dtype=tk.bool), offset=2)
    tk.tile_store(b, tk.tile_zeros(2, dtype=tk.bool), offset=4)
    tk.tile_store(h, tk.tile_full(2, 0.1, dtype=tk.float16))
    tk.tile_store(h, tk.tile_ones(2, dtype=tk.float16, storage="shared"), offset=2)
    tk.tile_store(u, tk.tile_full(4, v, dtype=tk.uint8))


def test_full_takes_its_dtype_from_the_value_or_converts_it():
    results = run(filled, [300], [out(6), out(4, dtype=np.int32), out(6, dtype=bool), out(4, dtype=np.float16),
                                  out(4, dtype=np.uint8)])  # fmt: skip
    assert [r.tolist() for r in results[:3]] == [
        [1.5, 1.5, 300, 300, 1, 1], [300, 300, 2, 2], [True, True, True, True, False, False],
    ]  # fmt: skip
    assert np.array_equal(results[3], np.array([0.1, 0.1, 1, 1], np.float16))
    assert results[4].tolist() == [300 % 256] * 4


@tk.kernel
def ranges(f: tk.array1d[tk.float32], i: tk.array1d[tk.int32], h: tk.array1d[tk.float16], d: tk.array1d[tk.float64]):
    tk.tile_store(f, tk.tile_arange(5))
    tk.tile_store(f, tk.tile_arange(0.0, 0.3, 0.1), offset=5)
    tk.tile_store(i, tk.tile_arange(10, 0, -3, dtype=int))
    tk.tile_store(i, tk.tile_arange(-(2**31), 2**31 - 1, 2**30, dtype=tk.int32), offset=4)
    tk.tile_store(h, tk.tile_arange(0.1, 300, 0.3, dtype=tk.float16))
    tk.tile_store(d, tk.tile_arange(0.1, 1.0, 0.1, dtype=tk.float64))


def test_arange_counts_as_warp_does():
    f, i, h, d = run(ranges, [], [out(8), out(8, dtype=np.int32), out(1000, dtype=np.float16), out(9, dtype=float)])
    single = np.float32
    assert f.tolist() == [0, 1, 2, 3, 4, *(single(k) * single(0.1) for k in range(3))]
    assert i.tolist() == [10, 7, 4, 1, -(2**31), -(2**30), 0, 2**30]
    wide = single(np.float16(0.1)) + np.arange(1000, dtype=single) * single(np.float16(0.3))
    assert np.array_equal(h, wide.astype(np.float16))
    assert np.array_equal(d, 0.1 + np.arange(9) * 0.1)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: tk.tile_arange(), KernelTypeError, "takes stop, or start and stop"),
        (lambda: tk.tile_arange(1, 2, 3, 4), KernelTypeError, "takes stop, or start and stop"),
        (lambda: tk.tile_arange(0, 4, 0), KernelValueError, "step must not be zero"),
        (lambda: tk.tile_arange(0), KernelValueError, "from 0.0 to 0.0 in steps of 1.0 has no elements"),
        (lambda: tk.tile_arange(0, 4, -1, dtype=int), KernelValueError, "from 0 to 4 in steps of -1 has no elements"),
        (lambda: tk.tile_arange(0.5, 4, dtype=int), KernelValueError, "start=0.5 has a fraction, which int32"),
        (lambda: tk.tile_arange(300, dtype=tk.uint8), KernelValueError, "stop=300 does not fit uint8"),
        (lambda: tk.tile_arange(1e300), KernelValueError, "stop=1e.300 does not fit float32"),
        (lambda: tk.tile_arange(2**31, dtype=tk.int64), KernelValueError, "too many elements"),
        (lambda: tk.tile_arange(4, dtype=bool), KernelTypeError, "needs an integer or floating dtype, got bool"),
        (lambda: tk.tile_arange("4"), KernelTypeError, "stop must be a compile-time number, got '4'"),
        (lambda: tk.tile_zeros(4, storage="global"), KernelValueError, "storage must be 'register' or 'shared'"),
        (lambda: tk.tile_empty(4, storage="global"), KernelValueError, "storage must be 'register' or 'shared'"),
        (lambda: tk.tile_arange(4, storage="global"), KernelValueError, "storage must be 'register' or 'shared'"),
        (lambda: tk.tile_zeros((4, 0)), KernelValueError, "extents of at least 1, got the shape .4, 0."),
        (lambda: tk.tile_load(np.zeros(3), 0), KernelValueError, "tile_load needs extents of at least 1"),
        (lambda: tk.tile_zeros((2**16, 2**15)), KernelValueError, "has 2147483648 elements, which is more than"),
        (lambda: tk.tile_empty(-1), KernelValueError, "must not be negative"),
        (lambda: tk.tile_zeros(2.5), KernelTypeError, "shape must be an int or a tuple of ints"),
        (lambda: tk.tile_full(2, 300, dtype=tk.uint8), KernelValueError, "the constant 300 does not fit uint8"),
        (lambda: tk.tile_empty(4) + 1.0, UninitializedError, "tile_empty made, but nothing was written"),
        (lambda: tk.tile_sum(tk.tile_empty(4)), UninitializedError, "tile_empty made, but nothing was written"),
        (lambda: tk.tile_empty((4, 4))[1], None, ""),
        (lambda: tk.tile_empty((4, 4))[1, 1], UninitializedError, "tile_empty made, but nothing was written"),
        (lambda: tk.tile_astype(tk.tile_empty((4, 4)).T, int), UninitializedError, "nothing was written"),
    ],
)
def test_wrong_tiles_are_refused(wrong, error, message):
    if error is None:
        wrong()  # taking a view reads nothing
        return
    with pytest.raises(error, match=message):
        wrong()


@tk.kernel
def runtime_shape(n: int, x: tk.array1d[float]):
    tk.tile_store(x, tk.tile_zeros(shape=n))


@tk.kernel
def runtime_range(n: int, x: tk.array1d[float]):
    tk.tile_store(x, tk.tile_arange(n))


def test_shapes_and_ranges_are_constants():
    with pytest.raises(KernelTypeError, match="shape must be a compile-time constant, got a run-time int32"):
        tk.launch_tiled(runtime_shape, dim=1, inputs=[4], outputs=[out(4)])
    with pytest.raises(KernelTypeError, match="stop must be a compile-time number, got an int32"):
        tk.launch_tiled(runtime_range, dim=1, inputs=[4], outputs=[out(4)])


def test_a_tile_outside_kernels_becomes_a_numpy_array():
    found = np.asarray(tk.tile_ones(shape=(2, 3), dtype=tk.float16))
    assert found.dtype == np.float16 and found.shape == (2, 3) and found.sum() == 6
    assert np.asarray(tk.tile_arange(3, dtype=int), np.float64).tolist() == [0.0, 1.0, 2.0]
