"""Runs a kernel compiled for the CPU, as IR in the interpreter and eagerly, and holds them against each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.numpy_alone import numpy_alone
from tilekit.ir.context import LaunchForm
from tilekit.ir.interpret import Machine, interpret
from tilekit.ir.types import ArrayType, ScalarType, as_dtype


def interpreted(
    kernel: Any, dim: Any, arguments: list[Any], block_dim: int = 1, write: Callable[[str], object] | None = None
) -> None:
    """Run every block of a kernel in the interpreter, in order, on the arrays themselves."""
    grid = dim if isinstance(dim, tuple) else (dim,)
    types: dict[str, Any] = {}
    for (name, annotation), value in zip(kernel.parameters.items(), arguments, strict=True):
        if value is None:
            types[name] = None
        elif isinstance(value, np.ndarray):
            dtype = annotation.dtype if value.dtype == np.uint16 and annotation.dtype is tk.bfloat16 else value.dtype
            types[name] = ArrayType(as_dtype(dtype), value.ndim)
        else:
            types[name] = ScalarType(annotation)
    function = kernel.trace(types, LaunchForm(True, len(grid), block_dim))
    given = {}
    for name, value in zip(kernel.parameters, arguments, strict=True):
        given[name] = value if value is None or isinstance(value, np.ndarray) else types[name].dtype(value)
    for block in itertools.product(*map(range, grid)):
        interpret(function, given, Machine(block=block, grid=grid, block_dim=block_dim, write=write))


def run_both(kernel: Any, dim: Any, *arguments: Any, bits: bool = True) -> list[Any]:
    """The arrays after the compiled kernel ran; with ``bits``, equal to those after the interpreter ran."""
    copies, eager, compiled = ([np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(3))
    with nullcontext() if bits else numpy_alone():
        interpreted(kernel, dim, copies)
        tk.launch_tiled(kernel, dim=dim, inputs=eager, block_dim=1, device="interpret")
    for got, wanted in zip(eager, copies, strict=True):
        if isinstance(got, np.ndarray):
            same_bits(got, wanted)
    tk.launch_tiled(kernel, dim=dim, inputs=compiled, block_dim=1)
    arrays = [(got, wanted) for got, wanted in zip(compiled, copies, strict=True) if isinstance(got, np.ndarray)]
    if bits:
        for got, wanted in arrays:
            same_bits(got, wanted)
    return [got for got, _ in arrays] if bits else arrays


def same_bits(got: Any, wanted: Any) -> None:
    """Equal bit for bit; all NaNs are one."""
    assert got.dtype == wanted.dtype
    if got.dtype.kind not in "iub":
        assert (np.isnan(got) == np.isnan(wanted)).all(), (got, wanted)
        got, wanted = (np.where(np.isnan(values), np.zeros_like(values), values) for values in (got, wanted))
    assert got.tobytes() == wanted.tobytes(), (got, wanted)


def converted(values: Any, dtype: str) -> Any:
    """Numbers as an array of a dtype, bfloat16 by ml_dtypes."""
    if dtype == "bfloat16":
        return np.asarray(values).astype(pytest.importorskip("ml_dtypes").bfloat16)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype)
