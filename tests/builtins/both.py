"""Runs a kernel compiled, its IR in NumPy, and on the interpreter, and holds that all give the same bits.

With ``TILEKIT_TEST_GPU=1``, also on the first GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tilekit as tk
from tests import on_gpu
from tilekit.codegen.target import Target
from tilekit.ir.context import LaunchForm
from tilekit.ir.interpret import Machine, interpret
from tilekit.ir.types import ArrayType, ScalarType, find_dtype
from tilekit.passes import run_pipeline


def type_of(value: Any, annotation: Any) -> Any:
    if isinstance(value, np.ndarray):
        found = find_dtype(value.dtype)
        return ArrayType(found, value.ndim)
    return ScalarType(annotation)


def interpreted(kernel: Any, dim: Any, arguments: Sequence[Any]) -> None:
    """Run the kernel's IR, after the passes, in NumPy; arrays are written in place."""
    grid = dim if isinstance(dim, tuple) else (dim,)
    types = {n: type_of(v, kernel.parameters[n]) for n, v in zip(kernel.parameters, arguments, strict=True)}
    function, _ = run_pipeline(kernel.trace(types, LaunchForm(True, len(grid), 32)), Target())
    for block in np.ndindex(*grid):
        data = {
            n: v if isinstance(v, np.ndarray) else types[n].dtype.numpy.type(v)
            for n, v in zip(types, arguments, strict=True)
        }
        interpret(function, data, Machine(block, grid, 32))


def run(
    kernel: Any, inputs: Sequence[Any], outputs: Sequence[np.ndarray], dim: Any = 1, ordered: bool = False
) -> list[np.ndarray]:
    """What the compiled kernel writes to copies of ``outputs``; the interpreter must give the same bits.

    ``ordered`` says that the order of the blocks matters, which a GPU does not keep.
    """
    compiled, by_numpy, stepped = ([array.copy() for array in outputs] for _ in range(3))
    inputs = [value.copy(order="K") if isinstance(value, np.ndarray) else value for value in inputs]
    tk.launch_tiled(kernel, dim=dim, inputs=inputs, outputs=compiled, block_dim=32)
    interpreted(kernel, dim, [*inputs, *by_numpy])
    tk.launch_tiled(kernel, dim=dim, inputs=inputs, outputs=stepped, block_dim=32, device="interpret")
    others = {"its IR in NumPy": by_numpy, "device='interpret'": stepped}
    if on_gpu.EVERYWHERE and not ordered:
        others["the GPU"] = [array.copy() for array in outputs]
        on_gpu.launch_tiled(kernel, dim, inputs, others["the GPU"])
    for name, *found in zip(list(kernel.parameters)[len(inputs) :], compiled, *others.values(), strict=True):
        for other, how in zip(found[1:], others, strict=True):
            assert same_bits(found[0], other).all(), f"{name}: compiled\n{found[0]}\n{how}\n{other}"
    return compiled


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | ((a != a) & (b != b))


def out(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)
