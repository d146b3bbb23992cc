"""Sums of products are reduced in the registers that hold them, with the bits that every other reduction gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.emulator import EmulatedKernels
from tests.native.mma_source import counted, instructions, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tests.on_gpu import GPUS, there
from tilekit.builtins.reduce import in_order
from tilekit.codegen.exchanges import MOST_EXCHANGED
from tilekit.runtime.arrays import view_of
from tilekit.runtime.compiled import Compiled
from tilekit.runtime.program import compile_kernel
from tilekit.runtime.spec import class_of


@dataclass(frozen=True)
class Case:
    """A tile of sums, and how many threads hold it."""

    tile: tuple[int, int]
    dtype: Any = tk.float16
    total: Any = tk.float32
    block_dim: int = 32

    def __str__(self) -> str:
        return f"{self.tile[0]}x{self.tile[1]}-{self.dtype.short}-{self.total.short}-{self.block_dim}"


def reducing(case: Case, axis: int) -> tk.Kernel:
    """Stores the scaled sums, and what becomes of them along an axis: sums, the greatest, and the least of integers."""
    (m, n), dtype, total = case.tile, case.dtype, case.total

    @tk.kernel
    def product(
        a: tk.array2d[dtype],
        b: tk.array2d[dtype],
        c: tk.array2d[total],
        sums: tk.array2d[total],
        most: tk.array2d[total],
        least: tk.array2d[int],
    ):
        threads = tk.block_dim()  # is kept
        acc = tk.tile_zeros(shape=(m, n), dtype=total)
        for s in range(2):
            x = tk.tile_load(a, shape=(m, 16), offset=(0, s * 16))
            tk.tile_matmul(x, tk.tile_load(b, shape=(16, n), offset=(s * 16, 0)), acc)
        scaled = acc * total(0.1)
        tk.tile_store(c, scaled)
        for s in range(threads // threads + 1):  # what one reduction has exchanged does not meet what the next one does
            tk.tile_store(sums[s], tk.tile_sum(scaled * total(s + 1), axis=axis))
        tk.tile_store(most[0], tk.tile_max(scaled, axis=axis))
        tk.tile_store(least[0], tk.tile_min(tk.tile_astype(acc, int), axis=axis - 2))

    return product


CASES = [
    Case((17, 9)),
    Case((48, 40)),
    Case((128, 64), block_dim=128),
    Case((16, 48), block_dim=64),  # a warp begins with column 24
    Case((32, 64), tk.float16, tk.float16),
    Case((30, 20), tk.float32),
    Case((64, 64), tk.float32, block_dim=64),
    Case((100, 32), tk.float32, block_dim=64),
    Case((16, 128), tk.float64, tk.float64, block_dim=64),
]


def arguments(case: Case, axis: int) -> dict[str, Any]:
    (m, n), total, kept = case.tile, case.total.name, case.tile[1 - axis]
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, shape).astype(case.dtype.name) for shape in ((m, 32), (32, n)))
    results = {"sums": np.full((2, kept), np.nan, total), "most": np.full((1, kept), np.nan, total)}
    return {"a": a, "b": b, "c": np.zeros((m, n), total), **results, "least": np.zeros((1, kept), np.int32)}


def compiled(case: Case, axis: int) -> Compiled:
    arrays = {name: class_of(view_of(array)) for name, array in arguments(case, axis).items()}
    kernel = reducing(case, axis)
    return compile_kernel(kernel, device="cuda", arch="90a", block_dim=case.block_dim, arrays=arrays)


def test_the_cases_are_of_every_kind() -> None:
    """Along each axis one warp or several, in both ways to multiply."""
    found = [compiled(case, 0).plans[0] for case in CASES]
    assert [plan.threads for plan in found] == [case.block_dim for case in CASES]
    for is_fma in (False, True):
        own = [plan.warps for plan in found if plan.warps.kind.is_fma == is_fma]
        assert {warps.down for warps in own} >= {1, 2} and {warps.right for warps in own} >= {1, 2}


def check(case: Case, axis: int, found: dict[str, Any]) -> None:
    total = case.total.name
    exact = found["a"].astype("f8") @ found["b"].astype("f8")
    scaled = exact.astype(total) * np.array(0.1, total)
    assert found["c"].tobytes() == scaled.tobytes(), case
    for s, sums in enumerate(found["sums"]):
        wide = (scaled * np.array(s + 1, total)).astype("f4" if case.total is tk.float16 else total)
        assert sums.tobytes() == in_order(wide, axis, np.add).astype(total).tobytes(), (case, s)
    assert np.array_equal(found["most"][0], scaled.max(axis)), case
    assert np.array_equal(found["least"][0], exact.min(axis)), case


def check_all(cases: Sequence[Case], axis: int, folder: Path) -> None:
    found = [compiled(case, axis) for case in cases]
    kernels = EmulatedKernels([each.generated for each in found], folder)
    for number, (case, each) in enumerate(zip(cases, found, strict=True)):
        assert each.source.count("tk::reduce_fragment<") == 3, case
        given = arguments(case, axis)
        kernels.launch(number, (1,), given)
        check(case, axis, given)


@pytest.mark.parametrize("axis", [0, 1])
def test_the_bits_are_those_of_any_other_reduction(axis: int, tmp_path: Path) -> None:
    check_all(CASES, axis, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(8))
def test_tiles_of_any_shape(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    kinds = ((tk.float16, tk.float32), (tk.float16, tk.float16), (tk.float32, tk.float32), (tk.float64, tk.float64))
    cases = []
    for _ in range(8):
        tile = rng.randrange(1, 97), rng.randrange(1, 97)
        cases.append(Case(tile, *rng.choice(kinds), block_dim=rng.choice((128, 256))))
    check_all(cases, seed % 2, tmp_path)


@pytest.mark.gpu
@pytest.mark.skipif(not GPUS, reason="needs a CUDA device")
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("case", [*CASES, Case((128, 128), block_dim=128), Case((128, 256), block_dim=256)], ids=str)
def test_the_bits_on_a_gpu(case: Case, axis: int) -> None:
    held = {name: there(array) for name, array in arguments(case, axis).items()}
    given = list(held.values())
    tk.launch_tiled(reducing(case, axis), dim=1, inputs=given[:2], outputs=given[2:], block_dim=case.block_dim)
    check(case, axis, {name: array.numpy() for name, array in held.items()})


def row_sums(dtype: Any, tile: tuple[int, int]) -> tk.Kernel:
    m, n = tile

    @tk.kernel
    def product(a: tk.array2d[dtype], b: tk.array2d[dtype], c: tk.array2d[dtype], sums: tk.array1d[float], steps: int):
        i = tk.tid()
        acc = tk.tile_zeros(shape=(m, n), dtype=float)
        for s in range(steps):
            x = tk.tile_load(a, shape=(m, 32), offset=(i * m, s * 32))
            tk.tile_matmul(x, tk.tile_load(b, shape=(32, n), offset=(s * 32, 0)), acc)
        tk.tile_store(sums, tk.tile_sum(acc, axis=1), offset=i * m)
        tk.tile_store(c, tk.tile_astype(acc, dtype), offset=(i * m, 0))

    return product


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize("dtype", [tk.float16, tk.float32], ids=str)
@pytest.mark.parametrize("tile", [(64, 32), (128, 128)], ids=str)
def test_the_tile_stays_in_registers(dtype: Any, tile: tuple[int, int]) -> None:
    found = compile_kernel(row_sums(dtype, tile), device="cuda", arch="90a")
    assert (found.local_bytes, found.spilled_bytes) == (0, 0)
    (plan,) = found.plans
    warps = plan.warps.right
    assert found.shared_bytes <= plan.shared + (0 if warps == 1 else MOST_EXCHANGED)
    assert warps > 1 or counted(instructions(found.cubin))["STS"] <= 32  # a sum of each row, by one lane


@needs_nvrtc
def test_the_ring_leaves_room_for_what_warps_exchange() -> None:
    """Beside tiles that leave four steps' bytes, and few more."""

    @tk.kernel
    def product(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], d: tk.array2d[tk.float16], c: tk.array1d[float]):
        other = tk.tile_load(d, shape=(160, 512))
        acc = tk.tile_zeros(shape=(128, 128), dtype=float)
        for s in range(a.shape[1] / 32):
            x = tk.tile_load(a, shape=(128, 32), offset=(0, s * 32))
            tk.tile_matmul(x, tk.tile_load(b, shape=(32, 128), offset=(s * 32, 0)), acc)
        tk.tile_store(c, tk.tile_sum(acc, axis=1))
        tk.tile_store(c, tk.tile_astype(tk.tile_sum(other) + tk.tile_max(other), float))

    found = compile_kernel(product, device="cuda", arch="90a")
    assert found.plans[0].ring.stages == 3 and "tk::reduce_fragment<" in found.source
    assert found.cubin
