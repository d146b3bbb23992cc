"""Kernels that were slow without a word: by a precision, an alignment or a way to call."""

from __future__ import annotations

import statistics
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.cases.everywhere import on_a_gpu
from tests.native.mma_source import instructions, main_loop, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tilekit.bench.kernels import copy, product_loop
from tilekit.errors import PrecisionWarning
from tilekit.runtime.cuda.buffers import Buffer
from tilekit.runtime.program import compile_kernel
from tilekit.runtime.spec import dense_class

SMALL = (64, 64, 64)


def gemm(dtype: Any, precision: str = "default", tile: tuple[int, int, int] = SMALL) -> tk.Kernel:
    return product_loop(tk, dtype, tk.float32, tile, precision)


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(("precision", "opcode"), [("tf32", "HMMA.1688.F32.TF32"), ("default", "FFMA")])
def test_less_precision_runs_on_tensor_cores(precision: str, opcode: str) -> None:
    """warp#1965: tf32 was slower than float32, with 64 x 64 x 64 tiles and 256 threads."""
    found = compile_kernel(gemm(tk.float32, precision), device="cuda", arch="90a", block_dim=256)
    loop = main_loop(instructions(found.cubin), opcode)
    assert sum(op.startswith(opcode) for op in loop) >= 16


def test_less_precision_that_is_not_to_be_had_is_told() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        compile_kernel(gemm(tk.float32, "tf32"), device="cuda", arch="75")
    assert {warning.category for warning in found} == {PrecisionWarning}


def seconds(kernel: tk.Kernel, size: int) -> float:
    """The median time of a square product, between events of the stream."""
    driver = pytest.importorskip("torch").cuda
    rng = np.random.default_rng(1)
    a, b, c = (Buffer(rng.standard_normal((size, size)).astype(np.float32), 0) for _ in range(3))
    grid = (size // SMALL[0], size // SMALL[1])
    times = []
    for _ in range(6):
        begin, end = driver.Event(enable_timing=True), driver.Event(enable_timing=True)
        stream = driver.current_stream()
        begin.record(stream)
        for _ in range(5):
            given = [a, b, size // SMALL[2]]
            tk.launch_tiled(kernel, dim=grid, inputs=given, outputs=[c], block_dim=256, stream=stream)
        end.record(stream)
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[1:])


@pytest.mark.gpu
@on_a_gpu[1]
def test_less_precision_is_faster() -> None:
    assert seconds(gemm(tk.float32, "tf32"), 2048) < seconds(gemm(tk.float32), 2048)


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize("unaligned", ["a", "b", "c"])
@pytest.mark.parametrize("block_dim", [128, 256, 512])
def test_what_one_unaligned_array_costs_is_told(unaligned: str, block_dim: int) -> None:
    """One condition not met, and fast code was not used: here the products stay, and the plan tells of the copies."""
    arrays = {name: dense_class(2) for name in "abc"}
    arrays[unaligned] = replace(arrays[unaligned], aligned=False)
    options = {"device": "cuda", "arch": "90a", "block_dim": block_dim}
    found = compile_kernel(gemm(tk.float16), arrays=arrays, **options)
    loop = main_loop(instructions(found.cubin), "HMMA.16816")
    assert sum(op.startswith("HMMA.16816") for op in loop) >= 16
    (plan,) = found.plans
    told = f"{unaligned} is copied element by element" in str(plan)
    assert told == (unaligned != "c")
    assert "element by element" not in str(compile_kernel(gemm(tk.float16), **options).plans[0])


@pytest.mark.gpu
@on_a_gpu[1]
def test_a_launch_takes_less_than_20_microseconds_of_the_host() -> None:
    """cutlass#2643: the plain call took 13 ms, a compiled one 5.4 us."""
    torch = pytest.importorskip("torch")
    kernel = copy(tk)
    a, b = torch.ones(16, device="cuda"), torch.zeros(16, device="cuda")
    times = []
    for _ in range(7):
        tk.launch_tiled(kernel, dim=1, inputs=[a], outputs=[b], block_dim=32)
        start = time.perf_counter()
        for _ in range(1000):
            tk.launch_tiled(kernel, dim=1, inputs=[a], outputs=[b], block_dim=32)
        times.append((time.perf_counter() - start) / 1000)
        torch.cuda.synchronize()
    assert min(times) < 20e-6
