"""Kernels of many products: functions that equal ones share, the same bits, and compile times that do not explode."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.emulator import EmulatedKernels
from tests.nvrtc import needs_nvrtc
from tests.on_gpu import GPUS, arguments, there
from tilekit.codegen.gemm import products as gemm
from tilekit.runtime.cuda import build, nvrtc
from tilekit.runtime.program import compile_kernel

pytestmark = pytest.mark.filterwarnings(
    "ignore::tilekit.errors.PerformanceWarning", "ignore::tilekit.errors.PrecisionWarning"
)
UNROLLED = {"max_unroll": 80}
HOST = {tk.float16: np.float16, tk.float32: np.float32, tk.float64: np.float64}


def chain(dtype: Any, m: int, n: int, rounds: int) -> tk.Kernel:
    """Factors that are products, two in each round."""

    @tk.kernel(module_options=UNROLLED)
    def kernel(a: tk.array2d[dtype], b: tk.array2d[dtype], s: float, t: float, out: tk.array2d[dtype]):
        x, y = tk.tile_load(a, shape=(m, n)), tk.tile_load(b, shape=(n, n))
        for _ in range(rounds):
            x = tk.tile_matmul(tk.tile_matmul(x, y), y.T, alpha=0.5)
        tk.tile_store(out, x)

    return kernel


def scaled(dtype: Any, m: int, n: int, rounds: int) -> tk.Kernel:
    """Accumulators that are factors as well, with run-time factors of both."""

    @tk.kernel(module_options=UNROLLED)
    def kernel(a: tk.array2d[dtype], b: tk.array2d[dtype], s: float, t: float, out: tk.array2d[dtype]):
        x, y = tk.tile_load(a, shape=(m, n)), tk.tile_load(b, shape=(n, n))
        z = tk.tile_zeros(shape=(m, n), dtype=dtype)
        for _ in range(rounds):
            tk.tile_matmul(x, y, z, alpha=s, beta=t)
            x = tk.tile_matmul(z, y)
        tk.tile_store(out, x)

    return kernel


def in_place(dtype: Any, m: int, n: int, rounds: int, precision: str = "default") -> tk.Kernel:
    """Sums in registers, of factors that a ring brings from arrays and of others."""
    total = tk.float64 if dtype is tk.float64 else tk.float32

    @tk.kernel(module_options=UNROLLED)
    def kernel(a: tk.array2d[dtype], b: tk.array2d[dtype], s: float, t: float, out: tk.array2d[total]):
        z = tk.tile_zeros(shape=(m, n), dtype=total)
        x, y = tk.tile_load(a, shape=(m, n)), tk.tile_load(b, shape=(n, n))
        for r in range(rounds):
            tk.tile_matmul(x, y, z, precision=precision)
            tk.tile_matmul(x * dtype(r), y, z, precision=precision)
        tk.tile_store(out, z)

    return kernel


PASSED_IN_MEMORY = "in_place-float16-64x64-17"
"""Whose sums are more than registers pass."""
CASES: list[Any] = [
    (chain, tk.float32, 8, 8, 5),
    (chain, tk.float16, 13, 24, 5),
    (chain, tk.float64, 16, 16, 5),
    (scaled, tk.float32, 8, 8, 5),
    (scaled, tk.float16, 32, 32, 5),
    (in_place, tk.float32, 8, 8, 5),
    (in_place, tk.float16, 32, 32, 5),
    (in_place, tk.float64, 16, 8, 5),
    (in_place, tk.float32, 16, 8, 5, "tf32"),
    (in_place, tk.float32, 16, 8, 5, "tf32x3"),
    (in_place, tk.float16, 64, 64, 17),
]
MADE: dict[str, tuple[tk.Kernel, Any, int, int]] = {
    "-".join([make.__name__, dtype.name, f"{m}x{n}", *map(str, more)]): (make(dtype, m, n, *more), dtype, m, n)
    for make, dtype, m, n, *more in CASES
}


def given(dtype: Any, m: int, n: int) -> dict[str, Any]:
    """Small integers, and a matrix that only exchanges columns: all sums are exact."""
    rng = np.random.default_rng(m + n)
    a = rng.integers(-8, 9, (m, n)).astype(HOST[dtype])
    b = rng.permutation(np.eye(n)).astype(HOST[dtype])
    return {"a": a, "b": b, "s": -1.0, "t": 0.5}


def wanted(name: str) -> dict[str, Any]:
    """The arguments, with what the CPU and the interpreter alike compute of them."""
    kernel, dtype, m, n = MADE[name]
    total = np.float32 if "in_place" in name and dtype is not tk.float64 else HOST[dtype]
    results = []
    for device in ("cpu", "interpret"):
        held = {**given(dtype, m, n), "out": np.full((m, n), 99, total)}
        tk.launch_tiled(kernel, dim=1, inputs=list(held.values()), block_dim=32, device=device)
        results.append(held)
    np.testing.assert_array_equal(results[0]["out"], results[1]["out"])
    return results[0]


HALF = [
    pytest.param(name, marks=[pytest.mark.deep] * (number % 2 or "64x64" in name)) for number, name in enumerate(MADE)
]


@pytest.mark.parametrize("name", HALF)
def test_calls_compute_the_same_bits(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = compile_kernel(MADE[name][0], device="cuda", arch="90a")
    monkeypatch.setattr(gemm, "MOST_INLINE", 1000)
    monkeypatch.setattr(gemm, "MOST_INLINE_LARGE", 1000)
    inline = compile_kernel(MADE[name][0], device="cuda", arch="90a")
    assert "_apart<" in apart.source and "_apart<" not in inline.source
    assert apart.source.count("team.sync()") == inline.source.count("team.sync()")
    kernels = EmulatedKernels([apart.generated, inline.generated], tmp_path)
    expected = wanted(name)
    for number in range(2):
        found = {**expected, "out": np.full_like(expected["out"], 99)}
        kernels.launch(number, (1,), found)
        np.testing.assert_array_equal(found["out"], expected["out"])


@pytest.mark.gpu
@pytest.mark.skipif(not GPUS, reason="needs a CUDA device")
@pytest.mark.parametrize("name", MADE)
def test_a_gpu_computes_them(name: str) -> None:
    expected = wanted(name)
    held = [there(value) for value in {**expected, "out": np.full_like(expected["out"], 99)}.values()]
    tk.launch_tiled(MADE[name][0], dim=1, inputs=arguments(held), block_dim=32)
    np.testing.assert_array_equal(held[-1].numpy(), expected["out"])


@pytest.mark.parametrize(
    ("make", "dtype", "size", "rounds", "apart"),
    [
        (chain, tk.float32, 8, 4, False),
        (chain, tk.float32, 8, 5, True),
        (in_place, tk.float16, 32, 4, False),
        (in_place, tk.float16, 32, 5, True),
        (in_place, tk.float16, 64, 16, False),  # whose sums a call would pass through memory
    ],
)
def test_few_products_have_their_code_where_they_stand(
    make: Any, dtype: Any, size: int, rounds: int, apart: bool
) -> None:
    found = compile_kernel(make(dtype, size, size, rounds), device="cuda", arch="90a")
    assert ("_apart<" in found.source) == apart


@needs_nvrtc
@pytest.mark.parametrize("name", [name for name in MADE if name != PASSED_IN_MEMORY])
@pytest.mark.parametrize("arch", ["75", "90a", pytest.param("120", marks=pytest.mark.deep)])
def test_sums_stay_in_registers(name: str, arch: str) -> None:
    found = tk.compile(MADE[name][0], arch=arch)
    assert found.spilled_bytes == 0
    assert found.local_bytes == 0


def compile_seconds(kernel: tk.Kernel) -> float:
    """The processor's time for a cubin, all threads of this process together."""
    found = compile_kernel(kernel, device="cuda", arch="90a")
    begun = time.process_time()
    nvrtc.compile_cubin(found.source, "k", build.headers(), ["--gpu-architecture=sm_90a", "-std=c++17", "--fmad=false"])
    return time.process_time() - begun


@needs_nvrtc
@pytest.mark.parametrize("make", [chain, *(pytest.param(make, marks=pytest.mark.deep) for make in (scaled, in_place))])
def test_four_times_as_many_take_at_most_four_times_as_long(make: Any) -> None:
    few, many = (min(compile_seconds(make(tk.float32, 8, 8, rounds)) for _ in range(2)) for rounds in (5, 20))
    assert many < 4 * few


def test_equal_products_are_one_function() -> None:
    found = compile_kernel(chain(tk.float32, 8, 8, 10), device="cuda", arch="90a").source
    calls = re.findall(r"tk::product_apart<.*?>\(", found)
    assert len(calls) > 16 and len(set(calls)) <= 3
