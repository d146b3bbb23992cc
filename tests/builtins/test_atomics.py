"""Atomic updates, compiled and interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.launching import run_both
from tilekit.codegen.target import Target
from tilekit.errors import KernelIndexError, KernelTypeError
from tilekit.ir.context import LaunchForm
from tilekit.ir.types import ArrayType, as_dtype
from tilekit.runtime.cpu import generate

F = np.float32
DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


@tk.kernel
def every(a: tk.array1d[Any], v: tk.array1d[Any], old: tk.array1d[Any]):
    x = v[0]
    old[0] = tk.atomic_add(a, 0, x)
    old[1] = tk.atomic_sub(a, 1, x)
    old[2] = tk.atomic_min(a, 2, x)
    old[3] = tk.atomic_max(a, 3, x)
    old[4] = tk.atomic_exch(a, 4, x)
    old[5] = tk.atomic_cas(a, 5, a[5], x)
    old[6] = tk.atomic_cas(a, 6, x, 1)
    a[7] += x
    a[8] -= x
    tk.atomic_add(a, 0, 1)


@tk.kernel
def bitwise(a: tk.array1d[Any], v: tk.array1d[Any], old: tk.array1d[Any]):
    old[0] = tk.atomic_and(a, 0, v[0])
    old[1] = tk.atomic_or(a, 1, v[0])
    old[2] = tk.atomic_xor(a, i=2, value=v[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_update(dtype: str) -> None:
    top = np.finfo(dtype).max if dtype.startswith("f") else np.iinfo(dtype).max
    a = np.array([100, 5, 9, 4, 8, 3, 6, top, 0], dtype)
    a, _, old = run_both(every, 1, a, np.array([7], dtype), np.zeros(7, dtype))
    assert a[1:7].tolist() == [np.subtract(np.array(5, dtype), np.array(7, dtype)), 7, 7, 7, 7, 6]
    assert old.tolist() == [100, 5, 9, 4, 8, 3, 6]


@pytest.mark.parametrize("dtype", DTYPES[:8])
def test_bitwise(dtype: str) -> None:
    a, _, old = run_both(bitwise, 1, np.array([6, 6, 6], dtype), np.array([3], dtype), np.zeros(3, dtype))
    assert a.tolist() == [2, 7, 5] and old.tolist() == [6, 6, 6]


def test_bfloat16() -> None:
    bf16 = pytest.importorskip("ml_dtypes").bfloat16
    a = np.array([100, 5, 9, 4, 8, 3, 6, 256, 0.1], bf16)
    compiled, interpreted = run_both(every, 1, a, np.array([1.5], bf16), np.zeros(7, bf16), bits=False)[0]
    assert (compiled.view(np.uint16) == interpreted.view(np.uint16)).all()
    assert compiled[0] == 102.5 and compiled[7] == 258  # 257.5 rounds to 258


def test_nan_and_signed_zero() -> None:
    a = np.array([0, 0, np.nan, np.nan, 0, -0.0, 0.0, 0, 0], F)
    a, _, old = run_both(every, 1, a, np.array([2], F), np.zeros(7, F))
    assert a[2] == 2 and a[3] == 2 and np.isnan(old[2])
    assert a[5] == 2  # the same bits, minus zero


@tk.kernel
def histogram(x: tk.array1d[int], counts: tk.array2d[int]):
    i = tk.tid()
    counts[x[i] % 4, 1] += 1
    tk.atomic_max(counts, 0, 0, i)
    tk.atomic_min(counts, i=1, j=0, value=-i)


def test_integers_on_many_threads() -> None:
    x = np.random.default_rng(1).integers(0, 100, 20000).astype(np.int32)
    counts = np.zeros((4, 2), np.int32)
    tk.launch_tiled(histogram, dim=x.size, inputs=[x], outputs=[counts], block_dim=1)
    assert counts[:, 1].tolist() == np.bincount(x % 4, minlength=4).tolist()
    assert counts[:2, 0].tolist() == [x.size - 1, -(x.size - 1)]


@tk.kernel
def total(x: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    out[0] += x[i]


def test_floating_sums_are_in_order() -> None:
    x = np.random.default_rng(2).normal(size=4000).astype(F)
    expected = F(0)
    for value in x:
        expected += value
    for _ in range(3):
        out = np.zeros(1, F)
        tk.launch_tiled(total, dim=x.size, inputs=[x], outputs=[out], block_dim=1)
        assert out[0] == expected


@tk.kernel
def blind(a: tk.array1d[Any], v: tk.array1d[Any]):
    tk.atomic_add(a, 0, v[0])
    a[1] -= v[0]


@pytest.mark.parametrize(
    ("kernel", "dtype", "serial"),
    [(every, "float32", True), (every, "int32", True), (blind, "float32", True), (blind, "int32", False)],
)
def test_what_makes_a_launch_serial(kernel: Any, dtype: str, serial: bool) -> None:
    """The order in which blocks run tells in sums of floats, and in what an update has found."""
    types: dict[str, Any] = {name: ArrayType(as_dtype(np.dtype(dtype)), 1) for name in kernel.parameters}
    assert generate(kernel.trace(types, LaunchForm(True, 1, 1)), Target()).serial is serial


@tk.kernel
def unaliased(a: tk.array1d[float], out: tk.array1d[float]):
    a[0] = 1.0
    tk.atomic_add(a, 0, 2.0)
    out[0] = a[0]
    a[0] = 5.0
    out[1] = tk.atomic_exch(a, 0, 7.0)


def test_updates_are_seen_by_plain_accesses() -> None:
    assert run_both(unaliased, 1, np.zeros(1, F), np.zeros(2, F))[1].tolist() == [3, 5]


@tk.kernel
def outside(a: tk.array2d[int], n: int):
    tk.atomic_add(a, 1, n, 1)


def test_out_of_bounds() -> None:
    with pytest.raises(KernelIndexError, match="index 3 is out of bounds for axis 1 of a, which has extent 3"):
        tk.launch_tiled(outside, dim=1, inputs=[np.zeros((2, 3), np.int32), 3], block_dim=1)


@tk.kernel
def other_dtype(a: tk.array1d[int], x: tk.array1d[float]):
    tk.atomic_add(a, 0, x[0])


@tk.kernel
def float_and(a: tk.array1d[int], x: tk.array1d[float]):
    tk.atomic_and(x, 0, 1)


@tk.kernel
def too_many(a: tk.array1d[int], x: tk.array1d[float]):
    tk.atomic_add(a, 0, 0, 1)


@tk.kernel
def no_value(a: tk.array1d[int], x: tk.array1d[float]):
    tk.atomic_add(a, 0, val=1)


@tk.kernel
def no_array(a: tk.array1d[int], x: tk.array1d[float]):
    tk.atomic_add(a[0], 0, 1)


@tk.kernel
def adds_tile(a: tk.array1d[int], x: tk.array1d[float]):
    x[0] += tk.tile_load(x, shape=1)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (other_dtype, r"a holds int32 but the value is float32; cast it with tk.int32\(...\)"),
        (float_and, r"atomic_and\(\) is not for float32, which x holds"),
        (too_many, r"atomic_add\(\) of an array1d<i32> takes \(arr, i, value\), got 3 positional arguments"),
        (no_value, r"takes \(arr, i, value\), got 1 positional arguments and val"),
        (no_array, r"atomic_add\(\): arr must be an array, got an int32"),
        (
            adds_tile,
            "a tile<1xf32> cannot be the right side of .= on an element of an array; read its one element with \\[0]",
        ),
    ],
)
def test_refused(kernel: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        tk.launch_tiled(kernel, dim=1, inputs=[np.zeros(2, np.int32), np.zeros(2, F)], block_dim=1)
