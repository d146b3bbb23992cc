"""Kernels and arrays that the tests of tapes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk


@tk.kernel
def squares(x: tk.array1d[float], y: tk.array1d[float]):
    t = tk.tile_load(x, shape=4)
    tk.tile_store(y, t * t)


@tk.kernel
def doubled(x: tk.array1d[float], y: tk.array1d[float]):
    tk.tile_store(y, 2.0 * tk.tile_load(x, shape=4))


@tk.kernel
def total(x: tk.array1d[float], loss: tk.array1d[float]):
    tk.tile_store(loss, tk.tile_sum(tk.tile_load(x, shape=4)))


def go(kernel: Any, x: Any, y: Any, **options: Any) -> None:
    tk.launch_tiled(kernel, dim=1, inputs=[x], outputs=[y], block_dim=32, **options)


def of_numpy(values: Any, requires_grad: bool = True) -> Any:
    return np.array(values, np.float32)


def of_warp(values: Any, requires_grad: bool = True, device: str = "cpu") -> Any:
    pytest.importorskip("warp")
    return tk.array(np.array(values, np.float32), device=device, requires_grad=requires_grad)


def of_torch(values: Any, requires_grad: bool = True) -> Any:
    torch: Any = pytest.importorskip("torch")
    return torch.tensor(values, dtype=torch.float32, requires_grad=requires_grad)


def numbers(array: Any) -> list[float]:
    array = array.detach() if hasattr(array, "detach") else array
    return (array if isinstance(array, np.ndarray) else array.numpy()).tolist()  # type: ignore[no-any-return]


Make = Callable[..., Any]
LIBRARIES = pytest.mark.parametrize("make", [of_numpy, of_warp, of_torch], ids=["numpy", "warp", "torch"])
X, ONES, ZEROS = [1.0, 2.0, 3.0, 4.0], [1.0] * 4, [0.0] * 4
