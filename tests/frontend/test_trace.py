"""What tracing shows and costs."""

from __future__ import annotations

import time
import traceback

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelTypeError
from tilekit.ir.context import LaunchForm


@tk.kernel
def gemm(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    out_tile = tk.tile_zeros(shape=(4, 8), dtype=float)
    for k in range(2):
        a_tile = tk.tile_load(a, shape=(4, 3), offset=(0, k * 3))
        b_tile = tk.tile_load(b, shape=(3, 8), offset=(k * 3, 0))
        tk.tile_matmul(a_tile, b_tile, out_tile)
    tk.tile_store(out, out_tile)


@tk.kernel
def unrolled(out: tk.array1d[float]):
    t = tk.tile_load(out, shape=4)
    for _ in tk.static_range(64):
        t = t + 1.0
        t = t * 2.0
        t = t - 1.0
        t = t + 1.0
        t = t * 2.0
        t = t + 1.0
        t = t * 2.0
        t = t - 1.0
        t = t + 1.0
        t = t * 2.0
    tk.tile_store(out, t)


@tk.kernel
def wrong(x: float, n: int):
    for i in range(n):
        if i > 2:
            y = x + n


def seconds(kernel):
    times = []
    for _ in range(4):
        start = time.process_time()
        kernel.trace(kernel.default_types(), LaunchForm(True, 1, 1))
        times.append(time.process_time() - start)
    return min(times)


def test_tracing_is_quick():
    """Some 0.8 ms and 45 ms on a machine with nothing else to do."""
    assert seconds(gemm) < 0.01
    assert seconds(unrolled) < 0.2


def test_tracebacks_name_the_users_functions_alone():
    with pytest.raises(KernelTypeError) as caught:
        tk.launch_tiled(wrong, dim=1, inputs=[1.0, 5], block_dim=1)
    error = caught.value
    assert error.location.function == "wrong"
    shown = "".join(traceback.format_exception(error, chain=False))
    assert "__then" not in shown
    assert "__body" not in shown
    assert "in wrong" in shown


def test_a_failed_compile_fails_again():
    for _ in range(2):
        with pytest.raises(KernelTypeError, match="x is float32 but n is int32"):
            tk.launch_tiled(wrong, dim=1, inputs=[1.0, 5], block_dim=1)


def test_an_index_of_constant_bounds_does_not_wrap_silently():
    @tk.kernel
    def k(x: tk.uint8, out: tk.array1d[tk.uint8]):
        for i in range(300):
            out[0] = x + i

    with pytest.raises(KernelTypeError, match=r"x is uint8 but i is int32"):
        tk.launch_tiled(k, dim=1, inputs=[1], outputs=[np.zeros(1, np.uint8)], block_dim=1)
