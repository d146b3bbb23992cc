"""Kernels compute the same whatever their caller has set for its floating-point unit, also where NumPy stands in."""

from __future__ import annotations

import ctypes
import platform

import numpy as np
import pytest

import tilekit as tk

UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}
"""C's FE_UPWARD."""


@tk.kernel
def sums(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    out[i] = a[i] + b[i]


@tk.kernel
def tiles(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]):
    x, y = tk.tile_load(a, shape=8), tk.tile_load(b, shape=8)
    tk.tile_store(out, x * y + x)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("kernel", [sums, tiles], ids=lambda kernel: kernel.key)
def test_a_thread_that_rounds_upwards(kernel: tk.Kernel, device: str) -> None:
    a, b = np.linspace(1, 2, 8, dtype=np.float32), np.full(8, 2.0**-30, np.float32)
    want, got = np.zeros_like(a), np.zeros_like(a)
    library, mode = ctypes.CDLL(None), UPWARD.get(platform.machine(), 0)

    def launch(out: np.ndarray) -> None:
        if kernel is sums:
            tk.launch(kernel, dim=8, inputs=[a, b], outputs=[out], device=device)
        else:
            tk.launch_tiled(kernel, dim=1, inputs=[a, b], outputs=[out], block_dim=8, device=device)

    with tk.config.scoped(num_threads=1):
        launch(want)
        assert library.fesetround(mode) == 0
        try:
            launch(got)
            assert library.fegetround() == mode
        finally:
            library.fesetround(0)
    np.testing.assert_array_equal(got, want)
    assert (want == a).all()
