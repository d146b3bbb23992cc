"""Products at the edges of what a kernel may say, on the emulator of tensor cores against the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.codegen.loops import product
from tests.emulator import EmulatedKernels
from tests.nvrtc import needs_nvrtc
from tilekit.runtime.program import compile_kernel


@tk.kernel
def scaled(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int, scale: float):
    """A loop that may be empty, of which nothing is then scaled."""
    acc = tk.tile_full(shape=(16, 24), value=1.5, dtype=float)
    mean = scale / float(n)
    for k in range(n):
        x = tk.tile_load(a, shape=(16, 8), offset=(0, k * 8))
        tk.tile_matmul(x, tk.tile_load(b, shape=(8, 24), offset=(k * 8, 0)), acc, alpha=mean)
    tk.tile_store(out, acc)


@tk.kernel
def downwards(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int, scale: float):
    """An unsigned index from which more is taken than it has, and one that is taken modulo a number."""
    acc = tk.tile_zeros(shape=(16, 24), dtype=float)
    for k in range(tk.uint32(0), tk.uint32(n)):
        before = (k - tk.uint32(1)) * tk.uint32(8)
        x = tk.tile_load(a, shape=(16, 8), offset=(0, before))
        tk.tile_matmul(x, tk.tile_load(b, shape=(8, 24), offset=(before, 0)), acc)
    for k in range(n):
        x = tk.tile_load(a, shape=(16, 8), offset=(0, k % 2 * 8))
        tk.tile_matmul(x, tk.tile_load(b, shape=(8, 24), offset=(k % 2 * 8, 0)), acc)
    tk.tile_store(out, acc)


KERNELS = [scaled, downwards]
CASES = [(scaled, 0), (scaled, -2), (scaled, 3), (downwards, 4)]


def arguments(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(n + 9)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((16, 24), (24, 24)))
    return {"a": a, "b": b, "out": np.full((16, 24), 7.0, np.float32), "n": n, "scale": 2.0 * n}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> EmulatedKernels:
    found = [compile_kernel(kernel, device="cuda", arch="90a") for kernel in KERNELS]
    assert all(plan.backend == "mma" for each in found for plan in each.plans)
    return EmulatedKernels([each.generated for each in found], tmp_path_factory.mktemp("edges"))


@pytest.mark.parametrize(("kernel", "n"), CASES, ids=lambda value: getattr(value, "name", value))
def test_it_is_what_the_cpu_computes(kernel: tk.Kernel, n: int, kernels: EmulatedKernels) -> None:
    wanted, found = arguments(n), arguments(n)
    tk.launch_tiled(kernel, dim=1, inputs=list(wanted.values()), block_dim=32, device="cpu")
    kernels.launch(KERNELS.index(kernel), (1,), found)
    np.testing.assert_array_equal(found["out"], wanted["out"])


def short(trips: int, k: int, dtype: Any, precision: str) -> tk.Kernel:
    """Loops whose trip count is known, upwards, which is joined, and downwards, over part of what the arrays hold."""

    @tk.kernel(module_options={"max_unroll": 0})
    def kernel(a: tk.array2d[dtype], b: tk.array2d[dtype], up: tk.array2d[float], down: tk.array2d[float]):
        first = tk.tile_zeros(shape=(17, 24), dtype=float)
        second = tk.tile_zeros(shape=(17, 24), dtype=float)
        for s in range(tk.uint32(0), tk.uint32(trips * k - k // 2), tk.uint32(k)):
            x = tk.tile_load(a, shape=(17, k), offset=(0, s))
            tk.tile_matmul(x, tk.tile_load(b, shape=(k, 24), offset=(s, 0)), first, precision=precision)
        for s in range((trips - 1) * k, -1, -k):
            x = tk.tile_load(a, shape=(17, k), offset=(0, s))
            tk.tile_matmul(x, tk.tile_load(b, shape=(k, 24), offset=(s, 0)), second, precision=precision)
        tk.tile_store(up, first)
        tk.tile_store(down, second)

    return kernel


SHORT = [
    (1, 3, tk.float32, "default"), (1, 24, tk.float16, "default"), (2, 16, tk.float32, "tf32"),
    (2, 40, tk.float16, "default"), (3, 1, tk.float32, "tf32x3"), (5, 24, tk.float32, "default"),
]  # fmt: skip


def test_loops_of_few_trips_sum_no_more_than_theirs(tmp_path: Path) -> None:
    """Whatever steps and stages of the ring suit them: what follows in the arrays is not added."""
    rng = np.random.default_rng(4)
    found = [compile_kernel(short(*case), device="cuda", arch="90a") for case in SHORT]
    assert {plan.ring.stages for each in found for plan in each.plans} >= {1, 3, 4}
    kernels = EmulatedKernels([each.generated for each in found], tmp_path)
    for number, (trips, k, dtype, _) in enumerate(SHORT):
        a, b = (rng.integers(-4, 5, shape).astype(dtype.name) for shape in ((17, 128), (128, 24)))
        up, down = (np.full((17, 24), np.nan, np.float32) for _ in range(2))
        kernels.launch(number, (1,), {"a": a, "b": b, "up": up, "down": down})
        total = trips * k
        exact = a[:, :total].astype(float) @ b[:total].astype(float)
        assert np.array_equal(up, exact) and np.array_equal(down, exact), SHORT[number]


def test_what_lies_behind_a_ragged_end_is_not_summed(tmp_path: Path) -> None:
    """The arrays are parts of larger ones, which end anywhere in the last step."""
    tile = (64, 64, 32)
    found = compile_kernel(product(tile, tk.float16), device="cuda", arch="90a", block_dim=128)
    kernels = EmulatedKernels([found.generated], tmp_path)
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    for k in (31, 32, 33, 63, 64, 65, 95):
        c = np.full((64, 64), np.nan, np.float32)
        kernels.launch(0, (1, 1), {"a": a[:, :k], "b": b[:k], "c": c, "steps": -(-k // tile[2])})
        assert np.array_equal(c, a[:, :k].astype(float) @ b[:k].astype(float)), k


@needs_nvrtc
@pytest.mark.parametrize(
    "name", ["asinh", pytest.param("log1p", marks=pytest.mark.deep), pytest.param("pow", marks=pytest.mark.deep)]
)
def test_long_functions_of_sums_are_compiled_once(name: str) -> None:
    """A thread has 128 sums; a copy of the function for each was half a minute and 600 kB."""
    function = {"asinh": tk.asinh, "log1p": tk.log1p, "pow": lambda x: tk.pow(x, 1.5)}[name]
    kernel = product((128, 128, 32), tk.float16, after=lambda sums: tk.tile_map(function, sums))
    found = compile_kernel(kernel, device="cuda", arch="90")
    assert found.plans[0].backend == "mma" and found.spilled_bytes == found.local_bytes == 0
    assert len(found.cubin) < 150_000
