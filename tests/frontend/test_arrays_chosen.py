"""Arrays and rows of arrays that are chosen at run time."""

import numpy as np
import pytest

import tilekit as tk
from tilekit.ir.context import LaunchForm
from tilekit.passes.differentiate import differentiate

DEVICES = ["cpu", "interpret"]


@tk.kernel
def in_an_expression(x: tk.array2d[float], n: int, out: tk.array1d[float]):
    r = x[0] if n > 0 else x[1]
    for i in range(out.shape[0]):
        out[i] = r[i]


@tk.kernel
def in_a_branch(x: tk.array2d[float], n: int, out: tk.array1d[float]):
    r = x[1]
    if n > 0:
        r = x[0]
    tk.tile_store(out, tk.tile_load(r, shape=3))


@tk.kernel
def rotated(x: tk.array2d[float], n: int, out: tk.array1d[float]):
    a = x[0]
    b = x[1]
    c = x[2]
    for k in range(n):
        a, b, c = b, c, a
    out[0] = a[0]
    out[1] = b[0]
    out[2] = c[0]


@tk.kernel
def rotated_unrolled(x: tk.array2d[float], n: int, out: tk.array1d[float]):
    a, b, c = x[0], x[1], x[2]
    for k in tk.static_range(5):
        if k < n:
            a, b, c = b, c, a
    out[0] = a[0]
    out[1] = b[0]
    out[2] = c[0]


@tk.kernel
def walked(x: tk.array2d[float], n: int, out: tk.array1d[float]):
    r = x[0]
    i = 0
    while i < n:
        r = x[i]
        if r[0] > 4.0:
            break
        i += 1
    out[0] = r[0]


@tk.kernel
def last_row(x: tk.array2d[float], n: int, out: tk.array1d[float]):
    for i in range(3):
        if n >= i:
            r = x[i]
        else:
            r = x[0]
        v = r[1]
    out[0] = r[0] + v


def row_of(x, n):
    if n > 0:
        return x[0]
    return x[1]


def first_with(x, least):
    for i in range(x.shape[0]):
        if x[i, 0] >= least:
            return x[i]
    return x[0]


@tk.kernel
def returned(x: tk.array2d[float], n: int, out: tk.array1d[float]):
    out[0] = row_of(x, n)[0]
    out[1] = first_with(x, 3.0 * float(n))[1]


@tk.kernel
def in_a_tuple(x: tk.array2d[float], n: int, out: tk.array1d[float]):
    pair = (x[0], 1.0) if n > 0 else (x[1], 2.0)
    out[0] = pair[0][0] * pair[1]


@tk.kernel
def of_higher_rank(x: tk.array3d[float], n: int, out: tk.array1d[float]):
    plane = x[0] if n > 0 else x[1]
    row = plane[1] if n > 1 else plane[0]
    out[0] = row[2]
    out[1] = float(plane.shape[1])


X = np.arange(9, dtype=np.float32).reshape(3, 3)
CUBE = np.arange(12, dtype=np.float32).reshape(2, 2, 3)[:, ::-1]
RESULTS = [
    (in_an_expression, X, {0: [3, 4, 5], 1: [0, 1, 2]}),
    (in_a_branch, X, {0: [3, 4, 5], 1: [0, 1, 2]}),
    (rotated, X, {0: [0, 3, 6], 1: [3, 6, 0], 2: [6, 0, 3], 5: [6, 0, 3]}),
    (rotated_unrolled, X, {0: [0, 3, 6], 1: [3, 6, 0], 5: [6, 0, 3]}),
    (walked, X, {0: [0], 1: [0], 2: [3], 3: [6]}),
    (last_row, X, {0: [1], 2: [13]}),
    (returned, X, {0: [3, 1], 1: [0, 4], 2: [0, 7], 9: [0, 1]}),
    (in_a_tuple, X, {0: [6], 1: [0]}),
    (of_higher_rank, CUBE, {0: [11, 3], 1: [5, 3], 2: [2, 3]}),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel, x, expected", RESULTS, ids=lambda value: getattr(value, "key", ""))
def test_the_array_that_was_chosen_is_read(kernel, x, expected, device):
    for n, wanted in expected.items():
        out = np.zeros(len(wanted), np.float32)
        tk.launch_tiled(kernel, dim=1, inputs=[x, n], outputs=[out], block_dim=32, device=device)
        assert out.tolist() == wanted, n


@tk.kernel
def writes_the_chosen(x: tk.array1d[float], y: tk.array1d[float], n: int):
    target = x
    if n > 0:
        target = y
    target[0] = 7.0
    target[1] += 1.0
    tk.tile_store(target, tk.tile_full(shape=1, value=9.0), offset=2)


@pytest.mark.parametrize("device", DEVICES)
def test_the_array_that_was_chosen_is_written(device):
    x, y = np.zeros(3, np.float32), np.zeros(3, np.float32)
    tk.launch_tiled(writes_the_chosen, dim=1, inputs=[x, y, 1], block_dim=32, device=device)
    assert (x.tolist(), y.tolist()) == ([0, 0, 0], [7, 1, 9])
    y.flags.writeable = False
    with pytest.raises(ValueError, match="'y' of kernel 'writes_the_chosen': is written by the kernel but read-only"):
        tk.launch_tiled(writes_the_chosen, dim=1, inputs=[x, y, 0], block_dim=32, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_an_index_outside_the_chosen_array_is_reported(device):
    @tk.kernel
    def outside(x: tk.array2d[float], n: int, out: tk.array1d[float]):
        r = x[0] if n > 5 else x[1]
        out[0] = r[n]

    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        tk.launch_tiled(outside, dim=1, inputs=[X, 3], outputs=[np.zeros(1, np.float32)], device=device)


@tk.kernel
def by_lane(x: tk.array2d[float], out: tk.array1d[float]):
    block, lane = tk.tid()
    r = x[lane] if lane % 2 == 0 else x[0]
    total = 0.0
    for i in range(3):
        total += r[i]
        r = x[lane]
    tk.tile_store(out, tk.tile(total))


@tk.kernel
def uniform_beside_lanes(x: tk.array2d[float], n: int, out: tk.array1d[float]):
    block, lane = tk.tid()
    if n > 0:
        r = x[1]
        out[0] = 1.0
    else:
        r = x[0]
    t = tk.tile(r[lane])
    tk.tile_store(out, t + r[0])


@pytest.mark.parametrize("device", DEVICES)
def test_lanes_choose_each_for_itself(device):
    out = np.zeros(3, np.float32)
    tk.launch_tiled(by_lane, dim=1, inputs=[X], outputs=[out], block_dim=3, device=device)
    assert out.tolist() == [3, 0 + 4 + 5, 21]
    for n, wanted in ((0, [0, 1, 2]), (1, [6, 7, 8])):
        tk.launch_tiled(uniform_beside_lanes, dim=1, inputs=[X, n], outputs=[out], block_dim=3, device=device)
        assert out.tolist() == wanted


@tk.kernel
def kept_for_later(x: tk.array2d[float], out: tk.array1d[float]):
    block, lane = tk.tid()
    r = x[lane] if lane > 1 else x[0]
    t = tk.tile(r[0])
    tk.tile_store(out, t + tk.tile(r[1]))


def test_an_array_that_differs_between_lanes_is_not_kept_over_tile_operations():
    with pytest.raises(NotImplementedError, match="another array in each lane.*take the row again") as caught:
        tk.launch_tiled(kept_for_later, dim=1, inputs=[X], outputs=[np.zeros(3, np.float32)], block_dim=3)
    assert caught.value.location.line == kept_for_later.function.__code__.co_firstlineno + 3


@tk.kernel
def of_two_ranks(x: tk.array2d[float], y: tk.array1d[float], n: int, out: tk.array1d[float]):
    r = y
    if n > 0:
        r = x
    out[0] = r[0]


def test_arrays_of_other_ranks_are_refused():
    arguments = [X, X[0], 1]
    with pytest.raises(TypeError, match=r"'r' would be an array1d<f32> and an array2d<f32> depending on the path"):
        tk.launch_tiled(of_two_ranks, dim=1, inputs=arguments, outputs=[np.zeros(1, np.float32)])


def test_the_gradient_of_a_chosen_array_is_refused():
    function = in_a_branch.trace(in_a_branch.default_types(), LaunchForm(ndim=1))
    with pytest.raises(NotImplementedError, match="which array is used is only known at run time"):
        differentiate(function)
