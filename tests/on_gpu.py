"""Launches of tests on the first GPU, with copies of NumPy arrays there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import tilekit as tk
from tilekit.runtime import nvidia
from tilekit.runtime.cuda.buffers import Buffer

GPUS = len(nvidia.find_driver().gpus)
EVERYWHERE = bool(GPUS) and os.environ.get("TILEKIT_TEST_GPU") == "1"
"""Whether tests that compare the compiled kernel with the interpreter run it on the GPU as well."""


class Bfloat16:
    """A buffer of 16-bit words that is passed as bfloat16, for which the array interface has no name."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        import torch

        self.tensor = torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).cuda().view(torch.bfloat16)

    def numpy(self) -> np.ndarray[Any, Any]:
        import torch

        found: np.ndarray[Any, Any] = self.tensor.view(torch.int16).cpu().numpy().view(ml_dtypes.bfloat16)
        return found


def there(value: Any) -> Any:
    """What holds a copy of an array on the GPU; other values as they are."""
    if not isinstance(value, np.ndarray):
        return value
    return Bfloat16(value) if value.dtype == ml_dtypes.bfloat16 else Buffer(value, 0)


def launch_tiled(kernel: Any, dim: Any, inputs: Sequence[Any], outputs: Sequence[np.ndarray[Any, Any]]) -> None:
    """Run a kernel on the GPU; the arrays among ``outputs`` get what it wrote."""
    held = [there(value) for value in (*inputs, *outputs)]
    given = [value.tensor if isinstance(value, Bfloat16) else value for value in held]
    with tk.config.scoped(gemm="scalar"):  # whose sums have the CPU's bits
        tk.launch_tiled(kernel, dim=dim, inputs=given[: len(inputs)], outputs=given[len(inputs) :], block_dim=32)
    for array, copy in zip(outputs, held[len(inputs) :], strict=True):
        array[...] = copy.numpy()
