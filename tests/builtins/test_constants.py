"""Constants and what is evaluated at compile time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.launching import run_both
from tilekit.errors import KernelTypeError
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.ir.types import ArrayType

F = np.float32
TILE = tk.constant(4)
SCALES = (0.5, 2.0)


def double(x: Any) -> Any:
    return x * 2.0


def halve(x: Any) -> Any:
    return x * 0.5


@tk.kernel
def static(out: tk.array1d[float]):
    out[0] = tk.static(7 / 2)
    out[1] = float(tk.static(-7 % 4))
    out[2] = tk.static(sum(x for x in SCALES))
    out[3] = tk.static(double if TILE > 3 else halve)(3.0)
    out[4] = float(tk.static(TILE) * TILE)
    out[5] = tk.static({"a": 1.5}["a"])


def test_static_is_plain_python() -> None:
    assert run_both(static, 1, np.zeros(6, F))[0].tolist() == [3.5, 1, 2.5, 6, 16, 1.5]


@tk.kernel
def unrolled(x: tk.array1d[float], out: tk.array1d[float]):
    for i in tk.static_range(1, 40, 2):
        out[0] += x[i] * float(tk.static(i))


def test_static_range_is_unrolled() -> None:
    x = np.arange(40, dtype=F)
    out = run_both(unrolled, 1, x, np.zeros(1, F))[1]
    assert out[0] == sum(i * i for i in range(1, 40, 2))
    types: Any = {"x": ArrayType(tk.float32, 1), "out": ArrayType(tk.float32, 1)}
    assert not any(op.blocks for op in walk(unrolled.trace(types, LaunchForm()).body))


@tk.kernel
def run_time_static(x: tk.array1d[int]):
    x[0] = tk.static(x[1] + 1)


@tk.kernel
def run_time_range(x: tk.array1d[int]):
    for i in tk.static_range(x[0]):
        x[1] = i


@tk.kernel
def float_range(x: tk.array1d[int]):
    for i in tk.static_range(2.5):
        x[1] = i


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (run_time_static, r"static\(\) needs an expression that is known at compile time, got an int32"),
        (run_time_range, r"static_range\(\) needs compile-time integers, got an int32; use range"),
        (float_range, r"static_range\(\) needs compile-time integers, got 2.5"),
    ],
)
def test_refused(kernel: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        tk.launch_tiled(kernel, dim=1, inputs=[np.zeros(2, np.int32)], block_dim=1)


def test_constant() -> None:
    for value in (3, 2.5, "tf32", (1, 2), tk.float32, np.float64(2), True):
        assert tk.constant(value) is value
    for value in ([1], {"a": 1}, np.zeros(2)):
        with pytest.raises(KernelTypeError, match="is not a constant, because its elements may change"):
            tk.constant(value)


def test_values_are_warps() -> None:
    constants = pytest.importorskip("warp._src.constants")
    for name in constants.__all__:
        mine, theirs = getattr(tk, name), getattr(constants, name)
        assert mine == theirs or (math.isnan(mine) and math.isnan(theirs)), name
