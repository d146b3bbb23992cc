"""Launches of tests on the first GPU, with copies of NumPy arrays there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import tilekit as tk
from tilekit.runtime import nvidia
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cuda.buffers import Buffer

GPUS = len(nvidia.find_driver().gpus)
EVERYWHERE = bool(GPUS) and os.environ.get("TILEKIT_TEST_GPU") == "1"
"""Whether tests that compare the compiled kernel with the interpreter run it on the GPU as well."""


class Bfloat16:
    """A copy on the GPU of bfloat16 numbers, for which the array interface has no name; ``tensor`` is the array."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.buffer = Buffer(np.ascontiguousarray(array).view(np.uint16), 0)
        view = view_of(self.buffer)
        self.tensor = ArrayView(view.pointer, view.shape, view.strides, tk.bfloat16, view.device, owner=self.buffer)

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.buffer.numpy().view(ml_dtypes.bfloat16)


def there(value: Any) -> Any:
    """What holds a copy of an array on the GPU; other values as they are."""
    if not isinstance(value, np.ndarray):
        return value
    return Bfloat16(value) if value.dtype == ml_dtypes.bfloat16 else Buffer(value, 0)


def arguments(held: Sequence[Any]) -> list[Any]:
    """What a launch is given of values that :func:`there` gave."""
    return [value.tensor if isinstance(value, Bfloat16) else value for value in held]


def launch_tiled(kernel: Any, dim: Any, inputs: Sequence[Any], outputs: Sequence[np.ndarray[Any, Any]]) -> None:
    """Run a kernel on the GPU; the arrays among ``outputs`` get what it wrote."""
    held = [there(value) for value in (*inputs, *outputs)]
    given = arguments(held)
    with tk.config.scoped(gemm="scalar"):  # whose sums have the CPU's bits
        tk.launch_tiled(kernel, dim=dim, inputs=given[: len(inputs)], outputs=given[len(inputs) :], block_dim=32)
    for array, copy in zip(outputs, held[len(inputs) :], strict=True):
        array[...] = copy.numpy()
