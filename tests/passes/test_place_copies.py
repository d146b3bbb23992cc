"""Copies between the places of tiles are ops: what is carried lies where it is carried."""

import itertools

import numpy as np
import pytest

import tilekit as tk
from tilekit.codegen.target import Target
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Value, walk
from tilekit.ir.regions import carried, carried_yields
from tilekit.ir.types import TileType
from tilekit.passes import run_pipeline


def rotated(order, turned):
    """A kernel that permutes four tiles in each iteration, and transposes some of them."""

    @tk.kernel
    def k(a: tk.array3d[float], n: int):
        x = tk.tile_load(a[0], shape=(4, 4))
        y = tk.tile_load(a[1], shape=(4, 4))
        z = tk.tile_load(a[2], shape=(4, 4))
        for _ in range(n):
            tiles = (x, y, z)
            x = tk.tile_transpose(tiles[order[0]]) if tk.static(turned[0]) else tiles[order[0]]
            y = tk.tile_transpose(tiles[order[1]]) if tk.static(turned[1]) else tiles[order[1]]
            z = tk.tile_transpose(tiles[order[2]]) if tk.static(turned[2]) else tiles[order[2]]
        tk.tile_store(a[0], x)
        tk.tile_store(a[1], y)
        tk.tile_store(a[2], z)

    return k


ORDERS = [(0, 1, 2), (1, 0, 2), (1, 2, 0), (0, 0, 1), (2, 2, 2)]
TURNS = [(False,) * 3, (True, False, False), (True, True, True)]
CHANGES = list(itertools.product(ORDERS, TURNS))[1:]


@pytest.mark.parametrize(("order", "turned"), CHANGES)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_any_assignment_at_once_keeps_its_meaning(order, turned, n):
    a = np.arange(48, dtype=np.float32).reshape(3, 4, 4)
    tiles = list(a.copy())
    tk.launch_tiled(rotated(order, turned), dim=1, inputs=[a, n], block_dim=32)
    for _ in range(n):
        tiles = [tiles[i].T if turn else tiles[i] for i, turn in zip(order, turned, strict=True)]
    np.testing.assert_array_equal(a, np.stack(tiles))


@pytest.mark.parametrize(("order", "turned"), CHANGES)
@pytest.mark.parametrize("target", [Target(), Target("cuda", "90", 32, threads=32)], ids=["cpu", "cuda"])
def test_what_is_carried_lies_where_it_is_carried(order, turned, target):
    kernel = rotated(order, turned)
    fn, storage = run_pipeline(kernel.trace(kernel.default_types(), LaunchForm(True, 1)), target)
    views = {op.results[0]: next(op.inputs()) for op in walk(fn.body) if op.builtin.view}

    def place(value):
        return storage.buffers[views.get(value, value)]

    regions = [op for op in walk(fn.body) if op.builtin.carries]
    assert regions
    for op in regions:
        for each in carried(op):
            if isinstance(each.result.type, TileType):
                assert {place(value) for value in each.sources if isinstance(value, Value)} == {place(each.result)}
        for block in op.blocks:
            assert all(value not in views for value in carried_yields(op, block))
    ends = [buffer.offset + buffer.size for buffer in storage.buffers.values() if buffer.layout is None]
    assert storage.size >= max(ends, default=0)
