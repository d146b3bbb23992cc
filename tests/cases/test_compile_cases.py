"""Compile failures and latency, and devices that disagree."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.passes.differentiate import differentiate
from tilekit.runtime import cpu

RNG = np.random.default_rng(2)
DEVICES = ("cpu", "interpret")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that were built, in order."""
    names: list[str] = []
    build = cpu.build

    def counting(generated: Any, *rest: Any) -> Any:
        names.append(generated.function.name)
        return build(generated, *rest)

    monkeypatch.setattr(cpu, "build", counting)
    return names


@pytest.mark.parametrize("extent", [8, 64])
def test_bfloat16_factors_with_a_float32_sum(extent: int) -> None:
    @tk.kernel
    def product(a: tk.array2d[tk.bfloat16], b: tk.array2d[tk.bfloat16], out: tk.array2d[float]):
        acc = tk.tile_zeros(shape=(extent, extent), dtype=float)
        shape = (extent, extent)
        tk.tile_matmul(tk.tile_load(a, shape=shape), tk.tile_load(b, shape=shape), acc)
        tk.tile_store(out, acc)

    a, b = (RNG.standard_normal((extent, extent)).astype(ml_dtypes.bfloat16) for _ in range(2))
    out = np.zeros((extent, extent), np.float32)
    tk.launch_tiled(product, dim=1, inputs=[a, b], outputs=[out], block_dim=64)
    wide = [x.astype(np.float64) for x in (a, b)]
    assert (np.abs(out - wide[0] @ wide[1]) <= (extent + 4) * 2.0**-24 * (np.abs(wide[0]) @ np.abs(wide[1]))).all()
    (launch,) = differentiate(product.trace(product.default_types(), LaunchForm())).launches
    assert {str(launch.function.params[f"adj_{name}"].type) for name in "ab"} == {"array2d<f32>"}


@tk.kernel
def forward_only(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    tk.tile_store(out, tk.tile_matmul(tk.tile_load(a, shape=(8, 4)), tk.tile_load(b, shape=(4, 8))))


def test_a_forward_launch_builds_one_kernel(compiled: list[str]) -> None:
    a, b, out = np.ones((8, 4), np.float32), np.ones((4, 8), np.float32), np.zeros((8, 8), np.float32)
    for _ in range(3):
        tk.launch_tiled(forward_only, dim=1, inputs=[a, b], outputs=[out], block_dim=64)
    assert compiled == ["forward_only"]


@tk.kernel
def pipelined(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
    """The next tiles are loaded before the current ones are multiplied."""
    acc = tk.tile_zeros(shape=(8, 4), dtype=float)
    a_tile = tk.tile_load(a, shape=(8, 8))
    b_tile = tk.tile_load(b, shape=(8, 4))
    for k in range(1, n):
        a_next = tk.tile_load(a, shape=(8, 8), offset=(0, k * 8))
        b_next = tk.tile_load(b, shape=(8, 4), offset=(k * 8, 0))
        tk.tile_matmul(a_tile, b_tile, acc)
        a_tile = a_next
        b_tile = b_next
    tk.tile_matmul(a_tile, b_tile, acc)
    tk.tile_store(out, acc)


def test_a_product_pipelined_by_hand() -> None:
    a, b = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((8, 40), (40, 4)))
    for device in DEVICES:
        out = np.zeros((8, 4), np.float32)
        tk.launch_tiled(pipelined, dim=1, inputs=[a, b, out, 5], block_dim=64, device=device)
        np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize("trips", [20, 200])
def test_a_constant_trip_count_stays_a_loop(trips: int) -> None:
    @tk.kernel
    def rolled(a: tk.array1d[float], out: tk.array1d[float]):
        total = tk.tile_zeros(shape=2)
        for k in range(trips):
            total += tk.tile_load(a, shape=2, offset=k)
        tk.tile_store(out, total)

    ops = [op.builtin.name for op in walk(rolled.trace(rolled.default_types(), LaunchForm()).body)]
    assert ops.count("for_range") == 1 and ops.count("tile_load") == 1
    a, out = RNG.integers(0, 9, trips + 1).astype(np.float32), np.zeros(2, np.float32)
    tk.launch_tiled(rolled, dim=1, inputs=[a], outputs=[out], block_dim=32)
    np.testing.assert_array_equal(out, [a[:-1].sum(), a[1:].sum()])


@tk.kernel
def one_element_a_lane(out: tk.array2d[float]):
    i, lane = tk.tid()
    t = tk.tile_zeros(shape=8)
    t[lane] = float(10 * i + lane)
    tk.tile_store(out[i], t)


def test_lanes_share_a_tile() -> None:
    out = np.zeros((3, 8), np.float32)
    tk.launch_tiled(one_element_a_lane, dim=3, outputs=[out], block_dim=8)
    np.testing.assert_array_equal(out, 10 * np.arange(3)[:, None] + np.arange(8))


@pytest.mark.xfail(strict=True, reason="tiles of vectors come with part 7")
def test_lanes_share_a_tile_of_vectors() -> None:
    @tk.kernel
    def components(out: tk.array1d[tk.vec3]):
        tk.tile_store(out, tk.tile_zeros(shape=1, dtype=tk.vec3))

    tk.launch_tiled(components, dim=1, outputs=[tk.zeros(1, dtype=tk.vec3)], block_dim=8)


def test_a_launch_leaves_no_configuration_behind() -> None:
    @tk.kernel
    def doubled(a: tk.array1d[float], out: tk.array1d[float]):
        i = tk.tid()
        tk.tile_store(out, tk.tile_load(a, shape=4, offset=i * 4) * 2.0, offset=i * 4)

    a = np.arange(10, dtype=np.float32)
    for device, block_dim in (("cpu", 32), ("interpret", 64), ("cpu", 256), ("cpu", 32)):
        out = np.zeros(10, np.float32)
        tk.launch_tiled(doubled, dim=3, inputs=[a], outputs=[out], block_dim=block_dim, device=device)
        np.testing.assert_array_equal(out, 2 * a)
