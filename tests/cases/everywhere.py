"""Launches of one kernel on every device, with the same NumPy arrays, however they lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS
from tilekit.runtime.adjoint import launch_adjoint
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cuda.buffers import Buffer

on_a_gpu = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]
everywhere = pytest.mark.parametrize("device", ["cpu", "interpret", pytest.param("cuda", marks=on_a_gpu)])


class Copies:
    """Copies on the first GPU of the memory of arrays; arrays that share memory share it there."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[np.ndarray[Any, Any], Buffer]] = {}

    def there(self, value: Any) -> Any:
        """An array with the same strides there; other values as they are."""
        if not isinstance(value, np.ndarray):
            return value
        root = value
        while isinstance(root.base, np.ndarray):
            root = root.base
        axes = sorted(range(root.ndim), key=lambda axis: -root.strides[axis])  # as copies keep those of a transpose
        memory = root.transpose(axes).reshape(-1).view(np.uint8)
        assert np.shares_memory(memory, root) or not root.size
        _, buffer = self.held.setdefault(id(root), (memory, Buffer(memory, 0)))
        view = view_of(value)
        place = buffer.pointer + value.ctypes.data - root.ctypes.data
        return ArrayView(place, view.shape, view.strides, view.dtype, "cuda:0", owner=buffer)

    def back(self) -> None:
        for memory, buffer in self.held.values():
            memory[...] = buffer.numpy()


def launch(
    kernel: Any,
    device: str,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    dim: Any = 1,
    block_dim: int = 64,
    tiled: bool = True,
) -> None:
    """Run a kernel; what it wrote is in the arrays afterwards."""
    copies = Copies()
    where: dict[str, Any] = {} if device == "cuda" else {"device": device}
    place = copies.there if device == "cuda" else lambda value: value
    given = [[place(value) for value in values] for values in (inputs, outputs)]
    run = tk.launch_tiled if tiled else tk.launch
    run(kernel, dim=dim, inputs=given[0], outputs=given[1], block_dim=block_dim, **where)
    copies.back()


def gradients(
    kernel: Any,
    device: str,
    inputs: Sequence[Any],
    output: np.ndarray[Any, Any],
    seed: Any,
    dim: Any = 1,
    block_dim: int = 64,
    tiled: bool = True,
) -> list[Any]:
    """Run a kernel and its gradient; the output is in its array afterwards.

    Returns:
        The gradient of each array of floats among the inputs, None for the others.
    """
    copies = Copies()
    where: dict[str, Any] = {} if device == "cuda" else {"device": device}
    place = copies.there if device == "cuda" else lambda value: value
    given = [place(value) for value in (*inputs, output)]
    run = tk.launch_tiled if tiled else tk.launch
    run(kernel, dim=dim, inputs=given[:-1], outputs=given[-1:], block_dim=block_dim, **where)
    copies.back()
    floats = [isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in inputs]
    found = [np.zeros_like(value) if flows else None for value, flows in zip(inputs, floats, strict=True)]
    seeds = np.broadcast_to(np.asarray(seed, output.dtype), output.shape).copy()
    names = list(kernel.parameters)
    wanted = {name: place(grad) for name, grad in zip(names, found, strict=False) if grad is not None}
    wanted[names[-1]] = place(seeds)
    launch_adjoint(kernel, dim, given, wanted, block_dim=block_dim, tiled=tiled, **where)
    copies.back()
    return found
