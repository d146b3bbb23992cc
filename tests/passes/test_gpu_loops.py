"""On a GPU: gradients of loops that keep states, and of numbers of lanes, are those of the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.cases.everywhere import Copies
from tests.frontend import test_custom_gradients as custom
from tests.on_gpu import GPUS
from tests.passes import test_differentiate_lanes as lanes, test_differentiate_loops as loops
from tilekit.runtime.adjoint import launch_adjoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not GPUS, reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore::tilekit.errors.PerformanceWarning"),
]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(6).standard_normal(shape)


KERNELS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "recurrence": (
        loops.recurrence,
        {"x": normal(20, 4), "w": normal(4, 4) * 0.3, "out": np.zeros((3, 4)), "n": 20},
        {},
    ),
    "softmax": (
        loops.softmax_rows,
        {"x": normal(4, 9), "v": normal(9, 3), "out": np.zeros((4, 3)), "n": 9},
        {"dim": 2},
    ),
    "mixed": (loops.mixed, {"a": normal(4, 4) * 0.5, "h": np.zeros(4), "out": np.zeros((2, 4)), "n": 5}, {}),
    "nested": (loops.nested, {"a": normal(4, 4), "out": np.zeros(4), "n": 3, "m": 7}, {}),
    "shares": (lanes.shares, {"a": normal(16), "out": np.zeros(26)}, {"block_dim": 8}),
    "lanes": (lanes.loops, {"a": normal(8) * 0.5, "out": np.zeros(16), "n": 5}, {"block_dim": 8}),
    "points": (
        lanes.points,
        {"a": normal(4, 5), "out": np.zeros((3, 4)), "n": 4},
        {"dim": (3, 4), "tiled": False},
    ),
    "own_gradients": (
        custom.calls,
        {"a": np.float32([1, 2, 3, 4]), "b": np.float32([5, 6, 7, 8]), "out": np.zeros(4, np.float32), "n": 0},
        {"dim": 4, "tiled": False},
    ),
    "own_gradients_of_tiles": (
        custom.tiled_kinds,
        {"x": np.float32([1.5, 2.5, -3.5, 4.5]), "values": np.float32([7, 3]), "out": np.zeros(4, np.float32)},
        {},
    ),
    "together": (
        lanes.points_together,
        {"a": normal(13) * 0.3, "out": np.zeros(13), "n": 3},
        {"dim": 13, "block_dim": 8, "tiled": False},
    ),
}


def gradients_on(device: str | None, kernel: Any, arguments: dict[str, Any], how: dict[str, Any]) -> dict[str, Any]:
    """The gradients for a seed of ones, as NumPy arrays."""
    found = {name: np.zeros_like(value) for name, value in arguments.items() if isinstance(value, np.ndarray)}
    found["out"][...] = 1.0
    copies = Copies()
    place = copies.there if device is None else lambda value: value
    given = {"dim": 1, "tiled": True, **how}
    dim = given.pop("dim")
    with tk.config.scoped(checkpoints=3):
        arrays = {name: place(value) for name, value in found.items()}
        launch_adjoint(kernel, dim, list(map(place, arguments.values())), arrays, device=device, **given)
    copies.back()
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_on_a_gpu(name: str) -> None:
    there, here = (gradients_on(device, *KERNELS[name]) for device in (None, "interpret"))
    for array, value in there.items():
        np.testing.assert_allclose(value, here[array], rtol=1e-10, atol=1e-10, err_msg=array)
