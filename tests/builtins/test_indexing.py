"""Views of tiles, element access and copies: compiled and interpreted against NumPy."""

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.both import interpreted, out, run
from tilekit.errors import KernelIndexError, KernelTypeError, KernelValueError

A = np.arange(48, dtype=np.float32).reshape(6, 8)


@tk.kernel
def slices(a: tk.array2d[float], i: int, rows: tk.array1d[float], part: tk.array2d[float], both: tk.array2d[float]):
    t = tk.tile_load(a, shape=(6, 8))
    tk.tile_store(rows, t[1], offset=0)
    tk.tile_store(rows, t[-1], offset=8)
    tk.tile_store(rows, t[i], offset=16)
    tk.tile_store(rows, t[..., i], offset=24)
    tk.tile_store(rows, t[::-1, 2], offset=30)
    tk.tile_store(part, t[2:6, ::-1])
    tk.tile_store(part, t[::2, 1::3], offset=(4, 0))
    tk.tile_store(both, t[2:6, ::-1].T[1:])
    tk.tile_store(rows, t[2:6].T[i, ::2][::-1], offset=36)


@pytest.mark.parametrize("i", [0, 3, -1, -4])
def test_slices_are_numpys(i):
    rows, part, both = run(slices, [A, i], [out(38), out(7, 8), out(7, 4)])
    expected = [A[1], A[-1], A[i], A[..., i], A[::-1, 2], A[2:6].T[i, ::2][::-1]]
    assert np.array_equal(rows, np.concatenate(expected))
    assert np.array_equal(part[:4], A[2:6, ::-1])
    assert np.array_equal(part[4:, :3], A[::2, 1::3])
    assert np.array_equal(both, A[2:6, ::-1].T[1:])


@tk.kernel
def elements(a: tk.array2d[float], i: int, x: tk.array1d[float], t_out: tk.array2d[float]):
    t = tk.tile_load(a, shape=(6, 8))
    s = t[2, 3] + t[i, -1] * tk.tile_extract(t, i, i)
    tk.tile_store(x, tk.tile_full(shape=1, value=s))
    t[0, 0] = s
    t[i, 1] += 2.0
    t[1, i] *= 0.5
    t[2] = t[3]
    t[3, 1:3] = 7.0
    t[i - 1, ::2] -= t[4, ::2]
    v = t[4:, 2:4]
    v[0, 0] = -1.0
    v.T[1, 1] = -2.0
    v[1] = tk.tile_full(shape=2, value=3, dtype=int)
    tk.tile_store(t_out, t)


@pytest.mark.parametrize("i", [2, 5, -2])
def test_elements_are_read_and_written(i):
    x, t = run(elements, [A, i], [out(1), out(6, 8)])
    b = A.copy()
    s = b[2, 3] + b[i, -1] * b[i, i]
    assert x[0] == s
    b[0, 0] = s
    b[i, 1] += 2
    b[1, i] *= 0.5
    b[2] = b[3]
    b[3, 1:3] = 7
    b[i - 1, ::2] -= b[4, ::2]
    v = b[4:, 2:4]
    v[0, 0] = -1
    v.T[1, 1] = -2
    v[1] = 3
    assert np.array_equal(t, b)


@tk.kernel
def prefix(a: tk.array1d[float], n: int, x: tk.array1d[float]):
    t = tk.tile_load(a, shape=16)
    for i in range(1, n):
        t[i] += t[i - 1]
        if t[i] > 50.0:
            t[i] = 0.0
    tk.tile_store(x, t)


def test_elements_are_updated_in_loops_and_branches():
    a = np.arange(16, dtype=np.float32)
    (x,) = run(prefix, [a, 16], [out(16)])
    for i in range(1, 16):
        a[i] += a[i - 1]
        if a[i] > 50:
            a[i] = 0
    assert np.array_equal(x, a)


@tk.kernel
def read_at(a: tk.array1d[float], i: int, x: tk.array1d[float]):
    t = tk.tile_load(a, shape=16)
    tk.tile_store(x, tk.tile_full(shape=1, value=t[i]))


@pytest.mark.parametrize("i", [16, -17, 2**31 - 1, -(2**31)])
def test_a_run_time_index_outside_the_tile_is_an_error(i):
    a = np.zeros(16, np.float32)
    with pytest.raises(
        KernelIndexError, match=rf"index {i} is out of bounds for axis 0 of a tile<16xf32>, which has extent 16"
    ):
        tk.launch_tiled(read_at, dim=1, inputs=[a, i], outputs=[out(1)])
    with pytest.raises(KernelIndexError, match=rf"index {i} is out of bounds for axis 0"):
        interpreted(read_at, 1, [a, i, out(1)])


@tk.kernel
def view_at(a: tk.array2d[float], i: int, j: int, x: tk.array2d[float]):
    t = tk.tile_load(a, shape=(6, 8))
    v = tk.tile_view(t, offset=(i, j), shape=(2, 3))
    w = tk.tile_view(v.T, offset=(j, 0), shape=(2, 2))
    w += 100.0
    tk.tile_store(x, v)
    tk.tile_store(x, t, offset=(2, 0))


@pytest.mark.parametrize("i", [0, 4])
def test_views_at_run_time_offsets_are_written_through(i):
    (x,) = run(view_at, [A, i, 1], [out(8, 8)])
    b = A.copy()
    v = b[i : i + 2, 1:4]
    v.T[1:3, 0:2] += 100
    assert np.array_equal(x[:2, :3], v)
    assert np.array_equal(x[2:], b)


def test_a_view_that_leaves_the_tile_is_an_error():
    with pytest.raises(
        KernelIndexError, match="2 elements from index 5 are out of bounds for axis 0 of a tile<6x8xf32>"
    ):
        tk.launch_tiled(view_at, dim=1, inputs=[A, 5, 1], outputs=[out(8, 8)])


@tk.kernel
def shapes(a: tk.array2d[float], x: tk.array3d[float], y: tk.array1d[float], z: tk.array2d[float]):
    t = tk.tile_load(a, shape=(6, 8))
    r = tk.tile_reshape(t, (2, -1, 4))
    r[1, 2] = tk.tile_full(shape=4, value=-1.0)
    tk.tile_store(x, r)
    tk.tile_store(y, tk.tile_squeeze(tk.tile_view(t, offset=(2, 0), shape=(1, 8))))
    tk.tile_store(y, tk.tile_squeeze(t[:, 1:2], axis=-1), offset=8)
    tk.tile_store(z, tk.tile_broadcast(t[:, 3:4], (6, 5)) + tk.tile_broadcast(t[1, :5], (6, 5)))


def test_reshape_squeeze_and_broadcast():
    x, y, z = run(shapes, [A], [out(2, 6, 4), out(14), out(6, 5)])
    b = A.copy()
    b.reshape(2, -1, 4)[1, 2] = -1
    assert np.array_equal(x, b.reshape(2, 6, 4))
    assert np.array_equal(y, np.concatenate([b[2], b[:, 1]]))
    assert np.array_equal(z, np.broadcast_to(b[:, 3:4], (6, 5)) + b[1, :5])


@tk.kernel
def assigning(a: tk.array2d[float], i: int, x: tk.array2d[float], y: tk.array2d[tk.int32], z: tk.array2d[tk.float64]):
    t = tk.tile_load(a, shape=(6, 8))
    tk.tile_assign(t, t[:5, :7], offset=(1, 1))
    t[1:] = t[:-1]
    d = tk.tile_zeros(shape=(6, 8), dtype=tk.int32)
    tk.tile_assign(d, t[2:4] * 1.5, offset=(i,))
    e = tk.tile_ones(shape=(8, 6), dtype=tk.float64)
    tk.tile_assign(e, t.T)
    f = tk.tile_zeros(shape=(6, 8), dtype=tk.float64)
    tk.tile_assign(f, e.T)
    f[0, 0] = 5.0
    tk.tile_store(x, t)
    tk.tile_store(y, d)
    tk.tile_store(z, e)
    tk.tile_store(z, f, offset=(8, 0))


def test_assign_converts_and_reads_before_it_writes():
    x, y, z = run(assigning, [A, 3], [out(6, 8), out(6, 8, dtype=np.int32), out(14, 8, dtype=np.float64)])
    b = A.copy()
    b[1:, 1:] = b[:5, :7].copy()
    b[1:] = b[:-1].copy()
    d = np.zeros((6, 8), np.int32)
    d[3:5] = (b[2:4] * np.float32(1.5)).astype(np.int32)
    assert np.array_equal(x, b)
    assert np.array_equal(y, d)
    assert np.array_equal(z[:8, :6], b.T)
    b[0, 0] = 5
    assert np.array_equal(z[8:], b)


T = tk.tile_zeros(shape=(4, 6))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: T[4], KernelIndexError, "index 4 is out of bounds for axis 0 of a tile<4x6xf32>, which has extent 4"),
        (lambda: T[0, -7], KernelIndexError, "index -7 is out of bounds for axis 1"),
        (lambda: T[0, 0, 0], KernelIndexError, "3 indices for a tile<4x6xf32>, which has 2 axes"),
        (lambda: T[2:2], KernelValueError, "the slice of axis 0 of a tile<4x6xf32> is empty"),
        (lambda: T[1.0], KernelTypeError, r"an index of a tile<4x6xf32> must be an integer, got 1.0 \(a float\)"),
        (lambda: T[True], KernelTypeError, "must be an integer, got True"),
        (lambda: T[None, 0, 0, 0], KernelIndexError, "3 indices for a tile<4x6xf32>, which has 2 axes"),
        (lambda: T[::0], KernelValueError, "step of a slice must not be zero"),
        (lambda: tk.tile_view(T, -1), KernelIndexError, "index -1 is out of bounds for axis 0"),
        (
            lambda: tk.tile_view(T, (3, 0), (2, 6)),
            KernelIndexError,
            "2 elements from index 3 are out of bounds for axis 0",
        ),
        (lambda: tk.tile_view(T, 0, 6), KernelValueError, "shape .6,. must have one extent for each axis"),
        (lambda: tk.tile_view(T, (0, 0, 0)), KernelValueError, "offset has 3 entries for a tile<4x6xf32> of 2 axes"),
        (lambda: tk.tile_view(T, (slice(1), 0), (1, 1)), KernelValueError, "leave shape out"),
        (lambda: tk.tile_reshape(T, (5, -1)), KernelValueError, "24 elements, which do not fit"),
        (lambda: tk.tile_reshape(T, (-1, -1)), KernelValueError, "only one extent may be -1"),
        (lambda: tk.tile_reshape(T.T, 24), KernelTypeError, "no strides, as its tile is not contiguous; copy it with"),
        (lambda: tk.tile_squeeze(T, 0), KernelValueError, "axis 0 of a tile<4x6xf32> has extent 4, not 1"),
        (lambda: tk.tile_squeeze(T, 2), KernelIndexError, "axis 2 is out of bounds for a "),
        (lambda: tk.tile_broadcast(T, (4, 7)), KernelValueError, "has extent 6, which cannot become 7"),
        (lambda: tk.tile_broadcast(T[:1], (4, 6)).fill(1.0), KernelTypeError, "cannot write through a broadcast view"),
        (lambda: tk.tile_transpose(T[0]), KernelValueError, "two axes is needed, got a tile<6xf32>"),
        (lambda: tk.tile_assign(T, T[0]), KernelValueError, "they need the same number of axes"),
        (lambda: tk.tile_assign(T, T, 1), KernelIndexError, "4 elements from index 1 are out of bounds for axis 0"),
        (lambda: T.__setitem__(0, T[:, 0]), KernelValueError, "cannot write a tile<4xf32> to the part of shape .6,."),
        (lambda: T.__setitem__((0, 0), np.float64(1)), KernelTypeError, "the tile is float32 but the value is float64"),
        (lambda: tk.tile_extract(T, 0), KernelIndexError, "needs 2 integers for a tile<4x6xf32>, got 1"),
        (lambda: tk.tile_astype(T, "f32"), KernelTypeError, "'f32' is not a dtype"),
        (lambda: tk.tile_view(3, 0), KernelTypeError, "tile_view..: t must be a tile, got 3"),
    ],
)
def test_wrong_views_are_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


@tk.kernel
def runtime_slice(a: tk.array2d[float], i: int, x: tk.array2d[float]):
    tk.tile_store(x, tk.tile_load(a, shape=(6, 8))[i:])


def test_slice_bounds_are_constants():
    with pytest.raises(KernelTypeError, match=r"bounds of a slice must be compile-time constants.*tk\.tile_view"):
        tk.launch_tiled(runtime_slice, dim=1, inputs=[A, 1], outputs=[out(6, 8)])


B = tk.tile_broadcast(tk.tile_zeros(shape=(1, 3)), (2, 3))


@pytest.mark.parametrize(
    "write",
    [
        lambda: B.__setitem__((0, 1), 5.0),
        lambda: B.__setitem__(0, 5.0),
        lambda: B[1].__setitem__(0, 5.0),
        lambda: B.T.__setitem__((0, 1), 5.0),
        lambda: tk.tile_view(B, (1, 0), (1, 3)).__setitem__((0, 0), 5.0),
        lambda: tk.tile_assign(B, tk.tile_ones(shape=(1, 3)), offset=(1, 0)),
        lambda: tk.tile_assign(B, tk.tile_ones(shape=(2, 3))),
        lambda: B.__iadd__(1.0),
        lambda: B[0].__iadd__(1.0),
        lambda: tk.tile_matmul(tk.tile_ones(shape=(2, 3)), tk.tile_ones(shape=(3, 3)), B),
    ],
)
def test_no_part_of_a_broadcast_can_be_written(write):
    with pytest.raises(KernelTypeError, match=r"cannot write through a broadcast view: the tile<2x3xf32> that"):
        write()
    assert not np.asarray(B).any()


def test_a_broadcast_that_repeats_nothing_can_be_written():
    t = tk.tile_zeros(shape=(2, 3))
    tk.tile_broadcast(t, (2, 3))[0, 1] = 5.0
    tk.tile_broadcast(t, (1, 2, 3))[0, 0, 2] = 6.0
    assert np.asarray(t).tolist() == [[0, 5, 6], [0, 0, 0]]
