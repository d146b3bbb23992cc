"""Kernels whose lanes do different things between tile operations: compiled, and interpreted."""

import numpy as np
import pytest

import tilekit as tk
from tilekit.runtime.reference import run_reference

LANES = 8


def run(kernel, *arguments, dim=1, block_dim=LANES, tiled=True):
    """Run compiled and interpreted; the arrays, after checking that both are the same bits."""
    first = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    second = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    launch = tk.launch_tiled if tiled else tk.launch
    launch(kernel, dim=dim, inputs=first, block_dim=block_dim)
    launch(kernel, dim=dim, inputs=second, block_dim=block_dim, device="interpret")
    third = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    run_reference(kernel, dim, third, block_dim, tiled)
    for a, b, c in zip(first, second, third, strict=True):
        if isinstance(a, np.ndarray):
            assert a.tobytes() == b.tobytes() == c.tobytes()
    return first


@tk.kernel
def gathered(out: tk.array1d[tk.int32]):
    i, lane = tk.tid()
    tk.tile_store(out, tk.tile(10 * i + lane), offset=i * 8)


@tk.kernel
def exchanged(out: tk.array1d[tk.int32]):
    _i, lane = tk.tid()
    t = tk.tile_zeros(shape=8, dtype=tk.int32)
    t[lane] = lane * lane
    other = t[7 - lane]
    t[lane] = other + 1
    tk.tile_store(out, t)


@tk.kernel
def one_lane(out: tk.array1d[tk.int32]):
    _i, lane = tk.tid()
    t = tk.tile_zeros(shape=8, dtype=tk.int32)
    if lane == 3:
        t[0] = 5
    elif lane == 4:
        t[1] = 6
        t[2] = t[1] + 1
    tk.tile_store(out, t)


@tk.kernel
def counted(out: tk.array1d[tk.int32]):
    _i, lane = tk.tid()
    t = tk.tile_zeros(shape=8, dtype=tk.int32)
    t[0] += 1
    t[lane % 3 + 1] += lane
    t[5] -= 2
    tk.tile_store(out, t)


@tk.kernel
def around_loops(n: int, out: tk.array1d[tk.float32]):
    _i, lane = tk.tid()
    x = tk.float32(lane)
    total = tk.tile_zeros(shape=8)
    for k in range(n):
        t = tk.tile(x)
        total += t * 2.0
        x = tk.untile(t + 1.0) * 0.5
        if lane > k:
            x = x - 1.0
    y = tk.untile(total) + x
    tk.tile_store(out, tk.tile(y))


@tk.kernel
def own_loops(out: tk.array1d[tk.int32]):
    _i, lane = tk.tid()
    total = 0
    for k in range(lane):
        if k == 5:
            break
        total += k
    n = lane
    while n > 2:
        n -= 2
        total += 100
    tk.tile_store(out, tk.tile(total))


@tk.kernel
def uniform_branch(flag: int, out: tk.array1d[tk.int32]):
    _i, lane = tk.tid()
    x = lane
    if flag > 0:
        t = tk.tile(x)
        x = tk.untile(t * 2)
    else:
        x = x + 1
    tk.tile_store(out, tk.tile(x))


@tk.kernel
def rows(out: tk.array2d[tk.int32]):
    _i, lane = tk.tid()
    t = tk.tile_zeros(shape=(8, 3), dtype=tk.int32)
    row = t[lane]
    row[0] = lane
    row[2] = row[0] + 10
    tk.tile_store(out, t)


@tk.kernel
def left_early(out: tk.array1d[tk.int32]):
    i, lane = tk.tid()
    if i == 1:
        return
    tk.tile_store(out, tk.tile(lane), offset=i * 8)


@tk.kernel
def points(out: tk.array1d[tk.int32], where: tk.array1d[tk.int32]):
    i, j = tk.tid()
    n = tk.tid()
    t = tk.tile(10 * i + j)
    s = tk.tile(n)
    tk.tile_store(out, t)
    tk.tile_store(where, s)


@tk.kernel
def squares_of_lanes(out: tk.array1d[tk.int32]):
    _i, lane = tk.tid()
    tk.tile_store(out, tk.tile_zeros(shape=4, dtype=tk.int32) + tk.block_dim())
    tk.tile_store(out, tk.tile(tk.block_dim() - lane), offset=4)


def test_a_tile_of_the_lanes_values():
    (out,) = run(gathered, np.zeros(24, np.int32), dim=3)
    assert out.tolist() == [10 * i + lane for i in range(3) for lane in range(8)]


def test_lanes_share_a_tile_as_if_they_met_after_every_statement():
    (out,) = run(exchanged, np.zeros(8, np.int32))
    assert out.tolist() == [(7 - lane) ** 2 + 1 for lane in range(8)]


def test_some_lanes_write():
    (out,) = run(one_lane, np.zeros(8, np.int32))
    assert out.tolist() == [5, 6, 7, 0, 0, 0, 0, 0]


def test_every_lane_adds():
    (out,) = run(counted, np.zeros(8, np.int32))
    assert out.tolist() == [8, 0 + 3 + 6, 1 + 4 + 7, 2 + 5, 0, -16, 0, 0]


def test_numbers_live_across_tile_operations_and_loops():
    (_, out) = run(around_loops, 5, np.zeros(8, np.float32))
    x, total = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for k in range(5):
        total += x * 2
        x = (x + 1) * np.float32(0.5)
        x = np.where(np.arange(8) > k, x - 1, x)
    assert np.array_equal(out, total + x)


def test_lanes_run_loops_of_their_own_length():
    (out,) = run(own_loops, np.zeros(8, np.int32))
    expected = [sum(range(min(lane, 5))) + 100 * len(range(3, lane + 1, 2)) for lane in range(8)]
    assert out.tolist() == expected


@pytest.mark.parametrize("flag", [0, 1])
def test_branches_that_all_lanes_take_together(flag):
    (_, out) = run(uniform_branch, flag, np.zeros(8, np.int32))
    assert out.tolist() == ([2 * lane for lane in range(8)] if flag else [lane + 1 for lane in range(8)])


def test_each_lane_writes_a_row():
    (out,) = run(rows, np.zeros((8, 3), np.int32))
    assert out.tolist() == [[lane, 0, lane + 10] for lane in range(8)]


def test_a_block_returns_early():
    (out,) = run(left_early, np.full(24, -1, np.int32), dim=3)
    assert out.tolist() == [*range(8), *[-1] * 8, *range(8)]


def test_points_in_blocks():
    out, where = run(points, np.zeros(8, np.int32), np.zeros(8, np.int32), dim=(2, 4), tiled=False)
    assert out.tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    assert where.tolist() == [0] * 4 + [1] * 4


def test_the_number_of_lanes_is_part_of_the_meaning():
    for lanes in (2, 8, 2):
        (out,) = run(squares_of_lanes, np.zeros(4 + lanes, np.int32), block_dim=lanes)
        assert out.tolist() == [lanes] * 4 + list(range(lanes, 0, -1))


@tk.kernel
def wrong_length():
    t = tk.tile_zeros(shape=4)
    tk.untile(t)


@tk.kernel
def no_number(a: tk.array1d[float]):
    tk.tile(a)


def test_what_tile_and_untile_refuse():
    with pytest.raises(ValueError, match=r"untile\(\): a is a tile<4xf32>; it needs one axis of block_dim=8 elements"):
        tk.launch_tiled(wrong_length, dim=1, block_dim=8)
    with pytest.raises(TypeError, match=r"tile\(\): x must be a number, got an array1d<f32>"):
        tk.launch_tiled(no_number, dim=1, inputs=[np.zeros(2, np.float32)], block_dim=8)
