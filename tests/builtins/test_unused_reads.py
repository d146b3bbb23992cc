"""A read outside an array or tile is reported although nothing uses what was read."""

import numpy as np
import pytest

import tilekit as tk


@tk.kernel
def an_element(a: tk.array2d[float], i: int):
    x = a[i, 0]


@tk.kernel
def a_row(a: tk.array2d[float], i: int):
    row = a[i]


@tk.kernel
def an_element_of_a_row(a: tk.array2d[float], i: int):
    row = a[0]
    x = row[i]


@tk.kernel
def a_tiles_element(a: tk.array2d[float], i: int):
    t = tk.tile_load(a, shape=(2, 3))
    x = t[i, 0]


@tk.kernel
def a_tiles_row(a: tk.array2d[float], i: int):
    t = tk.tile_load(a, shape=(2, 3))
    row = t[i]


@tk.kernel
def a_view(a: tk.array2d[float], i: int):
    t = tk.tile_load(a, shape=(2, 3))
    part = tk.tile_view(t, offset=(i, 0), shape=(1, 3))


@tk.kernel
def in_arithmetic(a: tk.array2d[float], i: int):
    x = a[i, 0] * 2.0 + 1.0


@tk.kernel
def in_a_loop(a: tk.array2d[float], i: int):
    total = 0.0
    for k in range(i + 1):
        total += a[k, 0]


@tk.kernel
def on_one_side(a: tk.array2d[float], i: int):
    x = a[i, 0] if i > 0 else 0.0


@tk.kernel
def in_a_map(a: tk.array2d[float], i: int):
    t = tk.tile_full(shape=2, value=i, dtype=int)
    mapped = tk.tile_map(lambda k: a[k, 0], t)


@tk.kernel
def by_lanes(a: tk.array2d[float], i: int):
    _, lane = tk.tid()
    x = a[i * lane, 0]


@tk.kernel
def a_row_by_lanes(a: tk.array2d[float], i: int):
    _, lane = tk.tid()
    row = a[i * lane]
    t = tk.tile_load(a, shape=(2, 3))
    tk.tile_store(a, t)


@tk.kernel
def a_tiles_element_by_lanes(a: tk.array2d[float], i: int):
    _, lane = tk.tid()
    t = tk.tile_load(a, shape=(2, 3))
    x = t[i * lane, 0]


KERNELS = [value for value in tuple(globals().values()) if isinstance(value, type(an_element))]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
def test_an_unused_read_outside_is_reported(kernel, device):
    a = np.zeros((2, 2), np.float32)
    tk.launch_tiled(kernel, dim=1, inputs=[a, 0], block_dim=4, device=device)
    with pytest.raises(IndexError, match=r"index 2 (is|are) out of bounds") as caught:
        tk.launch_tiled(kernel, dim=1, inputs=[a, 2], block_dim=4, device=device)
    assert any(sign in caught.value.location.source_line() for sign in ("[i", "[k", "tile_view"))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_an_unused_read_outside_is_reported_by_a_launch_over_points(device):
    a = np.zeros((2, 2), np.float32)
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        tk.launch(an_element, dim=3, inputs=[a, 2], device=device)


def test_what_is_not_checked_may_be_left_out():
    a = np.zeros((2, 2), np.float32)
    with tk.config.scoped(index_checks=False):
        tk.launch_tiled(an_element, dim=1, inputs=[a, 2**30], block_dim=4)
