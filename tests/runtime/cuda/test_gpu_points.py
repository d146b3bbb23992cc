"""Points of a launch on a GPU: one a thread in small launches, several in large ones, of every element size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.codegen.test_points_together import in_half, mixed, scaled
from tests.on_gpu import GPUS
from tilekit.ir.sizes import MANY_POINTS
from tilekit.runtime.cuda.buffers import Buffer

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]


@pytest.mark.parametrize("block_dim", [32, 256, 1000, 1024])
@pytest.mark.parametrize("count", [1, 1000, MANY_POINTS - 1, MANY_POINTS, MANY_POINTS + 1, MANY_POINTS + 5000])
def test_every_point_runs_once_and_none_beyond(count: int, block_dim: int) -> None:
    memory = np.arange(count + 64, dtype=np.float32)
    a, b = Buffer(memory, 0), Buffer(np.full(count + 64, -1, np.float32), 0)
    tk.launch(scaled, dim=count, inputs=[a], outputs=[b], block_dim=block_dim)
    wanted = np.full(count + 64, -1, np.float32)
    wanted[:count] = 2 * memory[:count]
    np.testing.assert_array_equal(b.numpy(), wanted)


@tk.kernel
def visited(count: tk.array2d[int], i0: tk.array2d[int], j0: tk.array2d[int]):
    i, j = tk.tid()
    count[i, j] = count[i, j] + 1
    i0[i, j] = i
    j0[i, j] = j


@pytest.mark.parametrize("shape", [(3, 5), (1449, 1451), (1, MANY_POINTS + 77), (MANY_POINTS + 77, 1)])
def test_points_of_two_axes(shape: tuple[int, int]) -> None:
    held = [Buffer(np.zeros(shape, np.int32), 0) for _ in range(3)]
    for _ in range(3):
        tk.launch(visited, dim=shape, outputs=held)
    assert (held[0].numpy() == 3).all()
    i, j = np.indices(shape)
    assert np.array_equal(held[1].numpy(), i) and np.array_equal(held[2].numpy(), j)


@pytest.mark.parametrize("side", [37, 1500])
def test_elements_of_two_bytes(side: int) -> None:
    values = np.random.default_rng(1).integers(-50, 50, (side, side)).astype(np.float16)
    a, b = Buffer(values, 0), Buffer(np.zeros((side, side), np.float16), 0)
    tk.launch(in_half, dim=(side, side), inputs=[a], outputs=[b])
    wanted = values.T * np.float16(2.0) + np.arange(side).astype(np.float16)[:, None]
    assert np.array_equal(b.numpy(), wanted)


@pytest.mark.parametrize("count", [100, MANY_POINTS + 3])
def test_elements_of_two_sizes(count: int) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal(count), rng.standard_normal(53).astype(np.float16)
    held: list[Any] = [Buffer(a, 0), Buffer(b, 0)]
    tk.launch(mixed, dim=count, inputs=[*held, 53])
    assert np.array_equal(held[0].numpy(), a + b[np.arange(count) * 7 % 53])
