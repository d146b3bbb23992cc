"""``x[i] += v``, ``-=``, ``&=``, ``|=`` and ``^=`` on elements: every lane and every block counts, on every device."""

from functools import reduce
from operator import and_, xor

import numpy as np
import pytest

import tilekit as tk
from tests import on_gpu
from tests.nvrtc import needs_nvrtc

DEVICES = ["cpu", "interpret"]
LANES = 32


def launched(kernel, dim, inputs, output, device, block_dim=LANES):
    found = output.copy()
    tk.launch_tiled(kernel, dim=dim, inputs=inputs, outputs=[found], block_dim=block_dim, device=device)
    return found


@tk.kernel
def on_tiles(out: tk.array2d[tk.int32]):
    _i, lane = tk.tid()
    t = tk.tile_zeros(shape=(2, 5), dtype=tk.int32, storage="shared")
    t[1, 2] = -1
    t[1, 0] += lane
    t[1, 1] -= lane
    t[1, 2] &= ~(1 << lane // 2)
    t[1, 3] |= 1 << lane
    t[1, 4] ^= lane * lane
    tk.tile_store(out, t)


SQUARES = reduce(xor, (lane * lane for lane in range(LANES)))
TILE = [[0] * 5, [496, -496, np.int32(np.uint32(0xFFFF0000)), -1, SQUARES]]


@pytest.mark.parametrize("device", DEVICES)
def test_each_lane_counts_in_an_element_of_a_tile(device):
    found = launched(on_tiles, 1, [], np.zeros((2, 5), np.int32), device)
    assert found.tolist() == TILE


@tk.kernel
def on_rows(out: tk.array2d[tk.uint64]):
    _i, lane = tk.tid()
    t = tk.tile_zeros(shape=(3, 4), dtype=tk.uint64, storage="shared")
    row = t[1]
    row[lane % 2] |= tk.uint64(1) << tk.uint64(lane)
    tk.tile_view(t, 2)[3] ^= tk.uint64(1) << tk.uint64(lane)
    if lane % 3 == 0:
        t[0, 0] |= tk.uint64(1) << tk.uint64(lane)
    tk.tile_store(out, t)


@pytest.mark.parametrize("device", DEVICES)
def test_each_lane_counts_through_views_and_in_branches(device):
    found = launched(on_rows, 1, [], np.zeros((3, 4), np.uint64), device)
    assert found.tolist() == [[0x49249249, 0, 0, 0], [0x55555555, 0xAAAAAAAA, 0, 0], [0, 0, 0, 0xFFFFFFFF]]


@needs_nvrtc
def test_lanes_that_write_in_branches_compile_for_gpus():
    tk.compile(on_rows, dim=1, arch=90, block_dim=LANES)


def on_arrays(dtype):
    @tk.kernel
    def updates(out: tk.array1d[dtype]):
        i, lane = tk.tid()
        x = dtype(1 + 2 * lane)
        out[0] += x
        out[1] -= x
        out[2] &= ~dtype(1 << (i % 4))
        out[3] |= dtype(1 << (lane % 7))
        out[4] ^= dtype(i * 32 + lane)

    return updates


@pytest.mark.parametrize("dtype", [tk.int8, tk.uint8, tk.int16, tk.uint16, tk.int32, tk.uint32, tk.int64, tk.uint64])
@pytest.mark.parametrize("device", DEVICES)
def test_each_lane_of_each_block_counts_in_an_element_of_an_array(dtype, device):
    blocks, numpy = (400 if device == "cpu" else 5), dtype.numpy
    start = np.array([0, 0, 127, 0, 0], numpy)
    found = launched(on_arrays(dtype), blocks, [], start, device)
    points = np.arange(blocks * LANES)
    odd = np.int64(1 + 2 * (points % LANES)).sum()
    masks = reduce(and_, (~(1 << i % 4) for i in range(blocks)))
    wanted = [odd, -odd, 127 & masks, 127, reduce(xor, points.astype(numpy).tolist())]
    assert found.tolist() == np.array(wanted, np.int64).astype(numpy).tolist()


@tk.kernel
def flags(out: tk.array1d[tk.bool]):
    _i, lane = tk.tid()
    out[0] |= lane == 17
    out[1] &= lane != 17
    out[2] ^= lane < 17


@pytest.mark.parametrize("device", DEVICES)
def test_bools_have_bits_too(device):
    start = np.array([False, True, False])
    assert launched(flags, 1, [], start, device).tolist() == [True, False, True]


@tk.kernel
def bit_map(values: tk.array1d[tk.int32], found: tk.array1d[tk.uint32]):
    i = tk.tid()
    v = values[i]
    found[v // 32] |= tk.uint32(1) << tk.uint32(v % 32)


def test_a_bitmap_of_many_points_loses_none():
    values = np.random.default_rng(3).permutation(1 << 16).astype(np.int32)
    for _ in range(20):
        found = np.zeros(1 << 11, np.uint32)
        tk.launch(bit_map, dim=len(values), inputs=[values], outputs=[found])
        assert (found == 0xFFFFFFFF).all()


@tk.kernel
def unsigned(out: tk.array2d[tk.uint16]):
    t = tk.tile_zeros(shape=(2, 2), dtype=tk.uint16)
    t[0:1] -= 1
    t[1, 1] -= 1
    t[1, 0] -= 65535
    tk.tile_store(out, t)


@pytest.mark.parametrize("device", DEVICES)
def test_a_literal_is_subtracted_from_unsigned_elements(device):
    found = launched(unsigned, 1, [], np.zeros((2, 2), np.uint16), device)
    assert found.tolist() == [[65535, 65535], [1, 65535]]


@tk.kernel
def floats(out: tk.array1d[tk.float32]):
    _i, lane = tk.tid()
    t = tk.tile_zeros(shape=3, dtype=tk.float32)
    t[0] -= 0.5
    t[1] -= tk.float32(lane)
    tk.tile_store(out, t)


@pytest.mark.parametrize("device", DEVICES)
def test_floats_are_subtracted_lane_by_lane(device):
    assert launched(floats, 1, [], np.zeros(3, np.float32), device).tolist() == [-16.0, -496.0, 0.0]


def on_tiles_of(dtype):
    @tk.kernel
    def updates(out: tk.array1d[dtype]):
        _i, lane = tk.tid()
        t = tk.tile_zeros(shape=5, dtype=dtype, storage="shared")
        t[1] += dtype(lane)
        t[3] -= dtype(lane)
        tk.tile_store(out, t)

    return updates


NARROW = [tk.int8, tk.uint16, tk.float16]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("device", DEVICES)
def test_elements_of_fewer_bits_are_updated_next_to_each_other(dtype, device):
    found = launched(on_tiles_of(dtype), 1, [], np.zeros(5, dtype.numpy), device)
    assert found.tolist() == np.array([0, 496, 0, -496, 0]).astype(dtype.numpy).tolist()


@pytest.mark.gpu
def test_each_lane_counts_on_a_gpu():
    found = np.zeros((2, 5), np.int32)
    on_gpu.launch_tiled(on_tiles, 1, [], [found])
    assert found.tolist() == TILE
    found = np.zeros((3, 4), np.uint64)
    on_gpu.launch_tiled(on_rows, 1, [], [found])
    assert found.tolist() == [[0x49249249, 0, 0, 0], [0x55555555, 0xAAAAAAAA, 0, 0], [0, 0, 0, 0xFFFFFFFF]]
    for dtype in (tk.int8, tk.uint16, tk.int32, tk.uint64):
        start = np.array([0, 0, 127, 0, 0], dtype.numpy)
        wanted = launched(on_arrays(dtype), 400, [], start, "cpu")
        on_gpu.launch_tiled(on_arrays(dtype), 400, [], [start])
        assert start.tolist() == wanted.tolist()
    for dtype in NARROW:
        narrow = np.zeros(5, dtype.numpy)
        on_gpu.launch_tiled(on_tiles_of(dtype), 1, [], [narrow])
        assert narrow.tolist() == np.array([0, 496, 0, -496, 0]).astype(dtype.numpy).tolist()
