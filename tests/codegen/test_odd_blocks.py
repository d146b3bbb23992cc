"""Blocks that are no whole warps, as lanes and atoms may have: what threads do together, run on the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.emulator import EmulatedKernels
from tilekit.errors import FallbackWarning
from tilekit.runtime.compile import prepare


@tk.kernel
def reduced(a: tk.array2d[float], b: tk.array2d[int], out: tk.array1d[float], most: tk.array1d[int]):
    _i, lane = tk.tid()
    x, y = tk.tile_load(a, shape=(9, 40)), tk.tile_load(b, shape=(5, 70))
    tk.tile_store(out, tk.tile_sum(x, axis=1), offset=0)
    tk.tile_store(out, tk.tile_sum(x, axis=0), offset=10)
    tk.tile_store(out, tk.tile_sum(x), offset=50)
    tk.tile_store(out, tk.tile_sum(x[:2, :5].T), offset=51)
    tk.tile_store(out, tk.tile_min(x), offset=52)
    tk.tile_store(out, tk.tile_reduce(lambda p, q: p * 0.5 + q, x), offset=53)
    tk.tile_store(most, tk.tile_max(y, axis=1), offset=0)
    tk.tile_store(most, tk.tile_max(y), offset=10)
    tk.tile_store(most, tk.tile_sum(y), offset=11)
    tk.tile_store(most, tk.tile_sum(y, axis=0), offset=12)
    tk.tile_store(most, tk.tile(lane), offset=100)


@tk.kernel
def multiplied(a: tk.array2d[float], b: tk.array2d[int], out: tk.array1d[float], most: tk.array1d[int]):
    _i, lane = tk.tid()
    x = tk.tile_load(a, shape=(9, 40))
    product = tk.tile_matmul(x, x.T)
    tk.tile_store(out, tk.tile_reshape(product, 81), offset=0)
    tk.tile_store(out, tk.tile_sum(product, axis=0), offset=100)
    tk.tile_store(most, tk.tile(lane + b[0, lane % 70]), offset=0)


LAUNCHES = [(reduced, 1), (reduced, 7), (reduced, 64), (reduced, 100), (multiplied, 33)]


def arrays() -> list[Any]:
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((9, 40)).astype(np.float32), rng.integers(-99, 99, (5, 70)).astype(np.int32)
    return [a, b, np.zeros(200, np.float32), np.zeros(300, np.int32)]


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> EmulatedKernels:
    with pytest.warns(FallbackWarning, match="33 threads is not whole warps"):
        made = [prepare(kernel, dim=1, block_dim=threads) for kernel, threads in LAUNCHES]
    return EmulatedKernels([each.generated for each in made], tmp_path_factory.mktemp("odd_blocks"))


@pytest.mark.parametrize("number", range(len(LAUNCHES)), ids=lambda number: str(LAUNCHES[number][1]))
def test_bits_are_those_of_the_cpu(emulated: EmulatedKernels, number: int) -> None:
    kernel, threads = LAUNCHES[number]
    wanted, found = arrays(), arrays()
    tk.launch_tiled(kernel, dim=1, inputs=wanted, block_dim=threads, device="cpu")
    emulated.launch(number, (1,), dict(zip(kernel.parameters, found, strict=True)))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
