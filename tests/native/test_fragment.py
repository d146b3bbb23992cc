"""Tiles in registers as products leave them: added to, moved to memory and back, stored."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.native.cuda_driver import CudaLibrary, Described, compile_cubin
from tests.native.mma_source import Case, tile_kernel
from tests.native.test_mma import KINDS, NUMPY, ORDERS
from tests.nvrtc import needs_nvrtc
from tilekit.ir.types import DType

SIZES = [(32, 64, 16), (40, 56, 24), (17, 9, 5), (1, 1, 1), (32, 48, 32)]
CASES = [
    Case(a, b, *size, precision, order, in_loop=False)
    for i, ((a, b, precision), size) in enumerate(itertools.product(KINDS, SIZES))
    for order in ORDERS[i % 4 : i % 4 + 1]
]


def name(case: Case) -> str:
    return f"{case.a.short}x{case.b.short}-{case.precision}-{case.m}x{case.n}x{case.k}-{case.order}"


@needs_nvrtc
@pytest.mark.parametrize("case", CASES[::6], ids=name)
def test_it_compiles(case: Case) -> None:
    assert compile_cubin(tile_kernel(case), "80").startswith(b"\x7fELF")


@needs_nvrtc
def test_whole_tiles_are_read_as_matrices() -> None:
    kinds = {"kDense" in operand for case in CASES for operand in case.plan.operands}
    assert kinds == {True, False}


def values(rng: np.random.Generator, shape: tuple[int, int], dtype: DType, order: str) -> tuple[np.ndarray, np.ndarray]:
    made = rng.integers(-8, 9, shape).astype(NUMPY[dtype])
    return made, np.ascontiguousarray(made if order == "N" else made.T)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=name)
def test_sums_can_be_used_where_they_are(case: Case) -> None:
    rng = np.random.default_rng(case.m + case.n)
    m, n, k, out = case.m, case.n, case.k, NUMPY[case.out]
    a, at_a = values(rng, (m, k), case.a, case.order[0])
    b, at_b = values(rng, (k, n), case.b, case.order[1])
    c = rng.integers(-8, 9, (m + 3, n - 1 if n > 1 else 1)).astype(out)  # its first row is the tile's second
    result = np.full((n, 2, max(m - 2, 1)), np.nan, out)
    run = CudaLibrary(tile_kernel(case))["run"]
    run(at_a, at_b, Described(c), Described(result[:, 1].T), threads=case.plan.threads)
    want = np.zeros((m, n))
    want[1:, : c.shape[1]] = c[: m - 1, :]
    want += a.astype("f8") @ b.astype("f8")
    assert np.isnan(result[:, 0]).all()
    if m > 2:  # the tile's first two rows lie outside
        assert np.array_equal(result[:, 1], want[2:].T)
