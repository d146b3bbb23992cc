"""Numbers of other libraries as arguments of a launch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk

wp = pytest.importorskip("warp")


@tk.kernel
def numbers(n: int, x: float, b: tk.bool, h: tk.bfloat16, out: tk.array1d[tk.float64]):
    t = tk.tile_zeros(shape=4, dtype=tk.float64)
    t[0] = tk.float64(n)
    t[1] = tk.float64(x)
    t[2] = tk.float64(b)
    t[3] = tk.float64(h)
    tk.tile_store(out, t)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize(
    "given",
    [
        (wp.int32(-3), wp.float32(0.1), wp.bool(True), wp.float16(0.5)),
        (wp.uint64(7), wp.float64(1e300), wp.bool(False), ml_dtypes.bfloat16(0.1)),
        (np.uint8(7), ml_dtypes.bfloat16(0.1), np.bool_(True), wp.float32(3)),
    ],
)
def test_numbers_of_warp_and_ml_dtypes(given: tuple[Any, ...], device: str) -> None:
    out = np.zeros(4)
    for _ in range(3):  # the first launch of a kind, the second, and a quick one
        out[:] = np.nan
        tk.launch_tiled(numbers, dim=1, inputs=given, outputs=[out], device=device)
        n, x, b, h = (getattr(value, "value", value) for value in given)
        with np.errstate(over="ignore"):
            assert out.tolist() == [int(n), float(np.float32(float(x))), bool(b), float(ml_dtypes.bfloat16(float(h)))]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((wp.float32(1), 0.0), "'n' of kernel 'numbers': expects int32, got 1.0 of type float; use int"),
        ((wp.int64(2**40), 0.0), "1099511627776 does not fit int32"),
        ((1, wp.vec3(1.0, 2.0, 3.0)), "'x' of kernel 'numbers': expects float32, got vec3f.* of type vec3f"),
    ],
)
def test_numbers_that_do_not_fit(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tk.launch_tiled(numbers, dim=1, inputs=[*given, True, 0.0], outputs=[np.zeros(4)])
