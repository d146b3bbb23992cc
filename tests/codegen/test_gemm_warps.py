"""How many warps share a tile, and how: where registers are scarce."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import tilekit as tk
from tests.codegen.loops import Tile, product
from tests.nvrtc import needs_nvrtc
from tilekit.codegen.gemm import tiles as gemm_tiles
from tilekit.codegen.gemm.kinds import FMA32, TENSOR16, TENSOR64, TF32, TF32X3, Kind
from tilekit.codegen.gemm.tiles import Warps, warps_of
from tilekit.runtime.program import compile_kernel

KINDS = (TENSOR16, TF32, TF32X3, TENSOR64, FMA32)
EXTENTS = (1, 8, 16, 24, 40, 64, 72, 100, 128, 144, 160, 192, 200, 256)


def shape(kind: Kind, m: int, n: int, threads: int | None = None) -> tuple[int, int] | None:
    warps = warps_of(kind, m, n, threads, (1, 1))
    return (warps.down, warps.right) if isinstance(warps, Warps) else None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_tile_is_refused_only_where_no_number_of_warps_holds_it(kind: Kind) -> None:
    for m, n in itertools.product(EXTENTS, repeat=2):
        ways = [gemm_tiles._grids(kind, m, n, count) for count in gemm_tiles.WARP_COUNTS]
        held = [warps for some in ways for warps in some if gemm_tiles._holds(warps)]
        assert isinstance(warps_of(kind, m, n, None, (1, 1)), Warps) == bool(held), (m, n)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("threads", [None, 128, 256])
def test_registers_lack_only_where_each_way_lacks_some(kind: Kind, threads: int | None) -> None:
    counts = (threads // 32,) if threads else gemm_tiles.WARP_COUNTS
    for m, n in itertools.product(EXTENTS, repeat=2):
        found = warps_of(kind, m, n, threads, (1, 2))
        ways: list[Warps] = [warps for count in counts for warps in gemm_tiles._grids(kind, m, n, count)]
        if isinstance(found, Warps):
            assert found.lacking == min(warps.lacking for warps in ways if gemm_tiles._holds(warps)), (m, n)


def test_warps_that_hold_what_others_do_not() -> None:
    assert shape(TENSOR16, 256, 192) == (4, 2)
    assert shape(TENSOR64, 128, 192) == (2, 4)
    assert shape(TENSOR16, 8, 256) == (1, 2)  # one warp of 16 x 256 would read 32 columns' worth at once
    assert shape(TENSOR64, 144, 100) == (2, 4)  # 16 warps of 144 x 8 would have half the registers


ODD = [
    ((80, 16, 16), tk.float32, "tf32x3", "NT", "120"),
    ((144, 100, 32), tk.float64, "default", "NT", "90"),
    ((192, 16, 32), tk.float32, "default", "NN", "89"),
    ((72, 31, 100), tk.float32, "default", "NN", "120"),
    ((8, 256, 4), tk.float32, "default", "TN", "90"),
    ((8, 200, 64), tk.float16, "default", "TN", "75"),
    ((8, 192, 64), tk.float16, "default", "TN", "86"),
    ((192, 8, 128), tk.float32, "default", "TT", "100"),
    ((104, 31, 16), tk.bfloat16, "default", "TN", "90"),
    ((24, 192, 4), tk.float16, "default", "NN", "90a"),
]


@needs_nvrtc
@pytest.mark.parametrize(
    ("tile", "dtype", "precision", "order", "arch"),
    [ODD[0], ODD[-1], *(pytest.param(*case, marks=pytest.mark.deep) for case in ODD[1:-1])],
    ids=str,
)
def test_odd_tiles_fit_the_registers(tile: Tile, dtype: Any, precision: str, order: str, arch: str) -> None:
    """The assembler, left alone, spills some of these for the sake of more blocks."""
    found = compile_kernel(product(tile, dtype, None, precision, order=order), device="cuda", arch=arch)
    assert (found.plans[0].backend, found.spilled_bytes, found.local_bytes) == ("mma", 0, 0)
