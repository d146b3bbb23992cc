"""``tk.launch`` without tile operations: every point runs by itself; and element access of lanes."""

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.test_lanes import run

wp = pytest.importorskip("warp")


@tk.kernel
def element_writes(out: tk.array2d[tk.int32]):
    i, j = tk.tid()
    out[i, j] = 10 * i + j


@tk.kernel
def first_coordinates(out: tk.array2d[tk.int32]):
    i = tk.tid()
    j, k = tk.tid()
    tk.atomic_add(out, i, j + 4 * k, 1)


@tk.kernel
def first_coordinates_of_lanes(out: tk.array2d[tk.int32]):
    i = tk.tid()
    j, k = tk.tid()
    n = tk.untile(tk.tile(k))
    tk.atomic_add(out, i, j + 4 * n, 1)


@wp.kernel
def warps_first_coordinates(out: wp.array2d(dtype=wp.int32)):
    i = wp.tid()
    j, k = wp.tid()
    wp.atomic_add(out, i, j + 4 * k, 1)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_fewer_names_than_dimensions_are_the_first_coordinates_as_in_warp(device):
    wanted = wp.zeros((2, 12), dtype=wp.int32)
    wp.launch(warps_first_coordinates, dim=(2, 3, 4), inputs=[wanted])
    for launch, kernel, options in (
        (tk.launch, first_coordinates, {}),
        (tk.launch_tiled, first_coordinates, {}),
        (tk.launch, first_coordinates_of_lanes, {"block_dim": 6}),
    ):
        out = np.zeros((2, 12), np.int32)
        launch(kernel, dim=(2, 3, 4), inputs=[out], device=device, **options)
        np.testing.assert_array_equal(out, wanted.numpy())


@tk.kernel
def saxpy(n: int, a: float, x: tk.array1d[float], y: tk.array1d[float]):
    i = tk.tid()
    if i >= n:
        return
    y[i] = a * x[i] + y[i]


@tk.kernel
def own_loops(out: tk.array1d[tk.int32]):
    i = tk.tid()
    total = 0
    for k in range(i):
        if k % 3 == 2:
            continue
        total += k
    while total > 10:
        total -= 7
    out[i] = total


@tk.kernel
def counts(bins: tk.array1d[tk.int32], old: tk.array1d[tk.int32]):
    i = tk.tid()
    old[i] = tk.atomic_add(bins, i % 3, 1)
    bins[3] += i


@tk.kernel
def once_a_block(count: tk.array1d[tk.int32]):
    i = tk.tid()
    count[i] += 1


@tk.kernel
def once_a_lane(count: tk.array1d[tk.int32], last: tk.array1d[tk.int32]):
    i, lane = tk.tid()
    count[i] += 1
    last[i] = lane
    old = tk.atomic_add(count, 2, lane)
    if lane == 3:
        last[2] = old


@tk.kernel
def once_a_lane_by_block_dim(count: tk.array1d[tk.int32]):
    i = tk.tid()
    if tk.block_dim() > 0:
        count[i] += 1


@tk.kernel
def gathers(index: tk.array1d[tk.int32], x: tk.array2d[float], out: tk.array2d[float]):
    i, lane = tk.tid()
    row = x[index[i * 8 + lane]]
    t = tk.tile(row[0] + row[1])
    s = tk.untile(t * 2.0)
    out[i, lane] = s + row[0]
    if lane % 2 == 0:
        out[i, lane] += 100.0


@tk.kernel
def after_store(a: tk.array1d[float], out: tk.array1d[float]):
    _i, lane = tk.tid()
    tk.tile_store(a, tk.tile(tk.float32(lane) + 1.0))
    out[lane] = a[7 - lane]
    a[7 - lane] = 0.0
    t = tk.tile_load(a, shape=8)
    first = a[0]
    tk.tile_store(out, t + first, offset=8)


@tk.kernel
def out_of_bounds(a: tk.array1d[float]):
    i, j = tk.tid()
    a[4 * i + j] = 1.0


@tk.kernel
def lane_out_of_bounds(a: tk.array1d[float]):
    i, lane = tk.tid()
    a[lane + 2 * i] = 1.0


def test_points():
    for shape in ((3, 4), (1, 1), (5, 1), (1, 7), (0, 3)):
        (out,) = run(element_writes, np.full(shape, -1, np.int32), dim=shape, tiled=False)
        assert out.tolist() == [[10 * i + j for j in range(shape[1])] for i in range(shape[0])]


def test_points_that_return_early():
    x, y = np.arange(10, dtype=np.float32), np.ones(10, np.float32)
    for n in (0, 7, 10):
        found = run(saxpy, n, 2.0, x, y, dim=10, tiled=False)[3]
        assert np.array_equal(found, np.where(np.arange(10) < n, 2 * x + 1, y))


def test_points_with_loops_of_their_own():
    (out,) = run(own_loops, np.zeros(12, np.int32), dim=12, tiled=False)
    expected = []
    for i in range(12):
        total = sum(k for k in range(i) if k % 3 != 2)
        while total > 10:
            total -= 7
        expected.append(total)
    assert out.tolist() == expected


def test_points_count_atomically():
    bins, old = run(counts, np.zeros(4, np.int32), np.zeros(9, np.int32), dim=9, tiled=False)
    assert bins.tolist() == [3, 3, 3, 36]
    assert old.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_effects_happen_once_a_block_where_no_lane_is_observed():
    for block_dim in (1, 7, 256):
        (count,) = run(once_a_block, np.zeros(3, np.int32), dim=3, block_dim=block_dim)
        assert count.tolist() == [1, 1, 1]


def test_effects_happen_in_every_lane_where_lanes_are_observed():
    count, last = run(once_a_lane, np.zeros(3, np.int32), np.zeros(3, np.int32), dim=2, block_dim=5)
    assert count.tolist() == [5, 5, 20]
    assert last.tolist() == [4, 4, 10 + 0 + 1 + 2]
    (count,) = run(once_a_lane_by_block_dim, np.zeros(3, np.int32), dim=3, block_dim=5)
    assert count.tolist() == [5, 5, 5]


def test_lanes_read_and_write_elements():
    index = np.array([3, 1, 0, 2, 2, 2, 3, 1, *[0] * 8], np.int32)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    out = run(gathers, index, x, np.zeros((2, 8), np.float32), dim=2)[2]
    rows = x[index].reshape(2, 8, 2)
    expected = 2 * (rows[..., 0] + rows[..., 1]) + rows[..., 0] + 100 * (np.arange(8) % 2 == 0)
    assert np.array_equal(out, expected)


def test_elements_and_tiles_of_one_array_stay_in_order():
    _, out = run(after_store, np.ones(8, np.float32), np.zeros(16, np.float32))
    assert out.tolist() == [8, 7, 6, 5, 4, 3, 2, 1, *[0] * 8]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_the_point_of_a_failed_check(device):
    with pytest.raises(IndexError, match=r"index 8 is out of bounds for axis 0 of a") as caught:
        tk.launch(out_of_bounds, dim=(3, 4), inputs=[np.zeros(8, np.float32)], device=device)
    assert caught.value.location.line == out_of_bounds.function.__code__.co_firstlineno + 3
    assert "(2, 0)" in caught.value.message


def test_the_lane_of_a_failed_check():
    with pytest.raises(IndexError, match=r"index 5 is out of bounds for axis 0 of a.*block 1, lane 3"):
        tk.launch_tiled(lane_out_of_bounds, dim=2, inputs=[np.zeros(5, np.float32)], block_dim=4)


def test_a_large_launch_on_all_threads():
    n = 1_000_000
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    tk.launch(saxpy, dim=n, inputs=[n, 2.0, x], outputs=[y])
    assert np.array_equal(y, np.float32(2) * x + 1)
