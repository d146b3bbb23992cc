"""Functions of numbers give the same bits in the interpreter and compiled; without a compiler NumPy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.launching import converted, same_bits
from tilekit import builtins
from tilekit.errors import FallbackWarning
from tilekit.ir.builtin import REGISTRY
from tilekit.runtime import cpu, native_functions, toolchain
from tilekit.runtime.hindrances import HinderedError

builtins.public_names()  # declares them
APPROXIMATE = {name: declared for name, declared in REGISTRY.items() if declared.approximate}
DTYPES = ("float16", "bfloat16", "float32", "float64")


def numbers(dtype: str) -> Any:
    """Zeros, infinities, NaN, subnormals, what functions treat apart, and many between."""
    rng = np.random.default_rng(21)
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-300,
        -1e-40,
        1e-7,
        65504.0,
        1e30,
        1e300,
        0.92,
    ]
    spread = np.exp(rng.uniform(-80, 80, 1000)) * rng.choice([-1, 1], 1000)
    with np.errstate(all="ignore"):
        return converted(np.concatenate([special, rng.normal(0, 2, 3000), rng.uniform(-1, 1, 1000), spread]), dtype)


ONE = tuple(function for function in APPROXIMATE.values() if len(function.operand_names) == 1)
TWO = tuple(function for function in APPROXIMATE.values() if len(function.operand_names) == 2)


@tk.kernel
def tiles(x: tk.array1d[Any], y: tk.array1d[Any], out: tk.array2d[Any]):
    i = tk.tid() * 1024
    s, t = tk.tile_load(x, shape=1024, offset=i), tk.tile_load(y, shape=1024, offset=i)
    for row, function in enumerate(ONE):
        tk.tile_store(out[row], function(s), offset=i)
    for row, function in enumerate(TWO):
        tk.tile_store(out[len(ONE) + row], function(s, t), offset=i)


@tk.kernel
def points(x: tk.array1d[Any], y: tk.array1d[Any], out: tk.array2d[Any]):
    i = tk.tid()
    for row, function in enumerate(ONE):
        out[row, i] = function(x[i])
    for row, function in enumerate(TWO):
        out[len(ONE) + row, i] = function(x[i], y[i])


@pytest.mark.parametrize(
    "dtype", [pytest.param(dtype, marks=[pytest.mark.deep] * (dtype in ("float16", "float64"))) for dtype in DTYPES]
)
def test_the_interpreter_and_compiled_kernels_give_the_same_bits(dtype: str) -> None:
    assert len(ONE) + len(TWO) == len(APPROXIMATE) >= 26
    x = numbers(dtype)
    y = np.roll(x, 7)
    compiled, stepped, few = (np.zeros((len(APPROXIMATE), x.size), x.dtype) for _ in range(3))
    count = -(-x.size // 1024)
    tk.launch_tiled(tiles, dim=count, inputs=[x, y], outputs=[compiled], device="cpu", block_dim=32)
    tk.launch_tiled(tiles, dim=count, inputs=[x, y], outputs=[stepped], device="interpret", block_dim=32)
    tk.launch(points, dim=16, inputs=[x, y], outputs=[few], device="interpret")
    same_bits(stepped, compiled)
    same_bits(few[:, :16], compiled[:, :16].copy())


def test_outside_kernels_too() -> None:
    x = np.float32([0.1, 0.7, 3.3])

    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array1d[float]):
        i = tk.tid()
        out[i] = tk.exp(x[i])

    out = np.zeros(3, np.float32)
    tk.launch(k, dim=3, inputs=[x], outputs=[out], device="cpu")
    assert [tk.exp(value) for value in x] == out.tolist()
    assert tk.exp(0.5) == np.exp(0.5)  # a number of Python's has no dtype yet: float64, as it is known when compiled


def test_without_a_compiler_numpy_computes_and_one_notice_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find_toolchain", lambda: None)
    monkeypatch.setattr(toolchain, "candidates", lambda: [])
    monkeypatch.setattr(native_functions, "_kernels", {})
    monkeypatch.setattr(native_functions, "_told", False)
    with pytest.warns(FallbackWarning) as told:
        values = [tk.exp(np.float32(1)), tk.exp(np.float32(2)), tk.erf(np.float64(0.5))]
    assert values == [np.float32(np.exp(1.0)), np.float32(np.exp(2.0)), math.erf(0.5)]
    (notice,) = told
    assert notice.filename == __file__
    assert str(notice.message) == (
        "functions such as exp are NumPy's, whose last bits differ from those of compiled kernels: "
        f"no C++ compiler was found; {toolchain.REMEDY}"
    )


@pytest.mark.parametrize("place", [(cpu, "build"), (toolchain, "find_toolchain")], ids=["compiling", "probing"])
def test_a_compile_that_fails_is_no_error(place: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any, **options: Any) -> Any:
        raise HinderedError("the disk is full")

    monkeypatch.setattr(*place, full)
    monkeypatch.setattr(native_functions, "_kernels", {})
    monkeypatch.setattr(native_functions, "_told", False)
    with pytest.warns(FallbackWarning, match="NumPy's, whose last bits differ .*: the disk is full$"):
        assert tk.exp(np.float32(1)) == np.float32(np.exp(1.0))
