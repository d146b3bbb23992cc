"""Gradients of kernels whose lanes hold numbers of their own: what lanes share counts once, what each has for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS, arguments, there
from tilekit.errors import KernelNotImplementedError
from tilekit.runtime.adjoint import launch_adjoint

LANES = 4
ON_GPU = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]
DEVICES = ["interpret", "cpu", pytest.param("cuda:0", marks=ON_GPU)]


def check(
    kernel: Any, device: str, grid: int, outputs: dict[str, np.ndarray], tiled: bool = True, **inputs: np.ndarray
) -> None:
    """Compare gradients with central differences along a random direction each."""
    launch = tk.launch_tiled if tiled else tk.launch
    rng = np.random.default_rng(4)
    seeds = {name: rng.standard_normal(array.shape) for name, array in outputs.items()}

    def loss(changed: dict[str, np.ndarray]) -> float:
        found = {name: np.zeros_like(array) for name, array in outputs.items()}
        given = list({**inputs, **changed}.values())
        launch(kernel, grid, given, list(found.values()), block_dim=LANES, device="cpu")
        return float(sum(np.sum(found[name] * seeds[name]) for name in outputs))

    found = {name: np.zeros_like(array) for name, array in inputs.items()}
    state = {name: np.zeros_like(array) for name, array in outputs.items()}
    gradients = {**found, **{name: seed.copy() for name, seed in seeds.items()}}
    given = [*inputs.values(), *state.values(), *gradients.values()]
    held = [there(array) for array in given] if device.startswith("cuda") else given
    passed = arguments(held)
    adjoints = dict(zip(gradients, passed[len(inputs) + len(state) :], strict=True))
    launch_adjoint(kernel, grid, passed[: -len(adjoints)], adjoints, block_dim=LANES, device=device, tiled=tiled)
    if device.startswith("cuda"):
        found = dict(zip(inputs, (array.numpy() for array in held[len(inputs) + len(state) :]), strict=False))
    for name, array in inputs.items():
        direction = rng.standard_normal(array.shape)
        ahead, behind = (loss({name: array + step * direction}) for step in (1e-6, -1e-6))
        numeric = (ahead - behind) / 2e-6
        np.testing.assert_allclose(np.sum(found[name] * direction), numeric, rtol=1e-6, err_msg=name)


@tk.kernel
def own(
    a: tk.array1d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64], sums: tk.array1d[tk.float64]
):
    i, lane = tk.tid()
    k = i * tk.block_dim() + lane
    shared = a[i]
    x = shared * b[k]
    t = tk.tile(x * x) * shared
    total = tk.tile_sum(t * t)
    out[k] = tk.untile(t) * x + total[0] * b[k]
    sums[i] = total[0] * shared


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_that_lanes_share_and_numbers_of_their_own(device: str) -> None:
    """Also where all lanes store one number at one place."""
    rng = np.random.default_rng(1)
    outputs = {"out": np.zeros(2 * LANES), "sums": np.zeros(2)}
    check(own, device, 2, outputs, a=rng.standard_normal(2), b=rng.standard_normal(2 * LANES))


@tk.kernel
def points(a: tk.array1d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    i = tk.tid()
    shared = a[0]
    t = tk.tile(b[i] * shared)
    total = tk.tile_sum(t * t)
    out[i] = total[0] * b[i] + tk.untile(t * shared) * shared


@pytest.mark.parametrize("device", DEVICES)
def test_points_of_a_launch_are_lanes_also_where_the_last_block_lacks_some(device: str) -> None:
    rng = np.random.default_rng(3)
    count = 2 * LANES - 2
    given = {"a": rng.standard_normal(1), "b": rng.standard_normal(count)}
    check(points, device, count, {"out": np.zeros(count)}, tiled=False, **given)


@tk.kernel
def elements(a: tk.array1d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    _, lane = tk.tid()
    t = tk.tile_load(a, shape=6)
    x = t[lane] * b[lane] + t[5]
    u = tk.tile_zeros(shape=6, dtype=tk.float64)
    u[lane] = x * t[lane + 1]
    u[4] = b[0] * t[0]
    u[5] += x
    tk.atomic_add(out, 6, x * b[1])
    tk.tile_store(out, u * t)


@pytest.mark.parametrize("device", DEVICES)
def test_elements_of_tiles_that_lanes_read_write_and_sum(device: str) -> None:
    rng = np.random.default_rng(2)
    check(elements, device, 1, {"out": np.zeros(7)}, a=rng.standard_normal(6), b=rng.standard_normal(LANES))


@tk.kernel
def chooses(a: tk.array1d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    _, lane = tk.tid()
    t = tk.tile_load(a, shape=2)
    t[0] = b[lane]
    tk.tile_store(out, t)


@tk.kernel
def wraps(a: tk.array1d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    """An int32 wraps to 0 in all lanes."""
    _, lane = tk.tid()
    t = tk.tile_load(a, shape=2)
    at = lane * 65536 * 65536
    t[at] = b[lane]
    tk.tile_store(out, t)


@pytest.mark.parametrize(("kernel", "at"), [(chooses, "0"), (wraps, "at")])
def test_a_number_of_several_lanes_in_one_element_has_no_gradient(kernel: tk.Kernel, at: str) -> None:
    given = [np.ones(2), np.ones(LANES), np.ones(2)]
    gradients = {"b": np.zeros(LANES), "out": np.ones(2)}
    with pytest.raises(KernelNotImplementedError) as caught:
        launch_adjoint(kernel, 1, given, gradients, block_dim=LANES, device="cpu")
    assert caught.value.message == (
        f"cannot differentiate through 't[{at}]': no gradient for its operand 'value': several lanes may write the "
        "same element, and which number stays is not known"
    )


def test_blocks_of_a_launch_have_lanes_although_nothing_asks_for_them() -> None:
    """One block of four points adds the gradient of what each of them reads once."""

    @tk.kernel
    def scaled(a: tk.array1d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
        tk.tile_store(out, tk.tile_load(b, shape=3) * a[0])

    found = np.zeros(1)
    given, gradients = [np.ones(1), np.ones(3), np.ones(3)], {"a": found, "out": np.ones(3)}
    for device in ("interpret", "cpu"):
        launch_adjoint(scaled, LANES, given, gradients, block_dim=LANES, tiled=False, device=device)
        assert found[0] == 3.0
        found[0], gradients["out"][:] = 0.0, 1.0


@tk.kernel
def counted(a: tk.array1d[tk.float64], total: tk.array1d[tk.float64], lanes: tk.array1d[int]):
    lanes[0] = tk.block_dim()
    tk.atomic_add(total, 0, a[0] * a[0])


def test_each_lane_counts_where_nothing_else_in_the_adjoint_asks_for_lanes() -> None:
    for device in ("interpret", "cpu"):
        found, given = np.zeros(1), [np.full(1, 3.0), np.zeros(1), np.zeros(1, np.int32)]
        tk.launch_tiled(counted, 1, given[:1], given[1:], block_dim=LANES, device=device)
        assert given[1][0] == LANES * 9.0
        launch_adjoint(counted, 1, given, {"a": found, "total": np.ones(1)}, block_dim=LANES, device=device)
        assert found[0] == LANES * 6.0
