"""Products by the tensor cores: they compile for every architecture, keep their sums in registers, and are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.native.cuda_driver import compile_cubin
from tests.native.mma_run import ON_DEVICES, Loops, pretended
from tests.native.mma_source import Case, counted, cubin, instructions, loop_kernel, main_loop, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tilekit.ir.types import DType, bfloat16, float16, float32, float64

NUMPY = {
    float16: np.dtype("f2"),
    bfloat16: np.dtype(ml_dtypes.bfloat16),
    float32: np.dtype("f4"),
    float64: np.dtype("f8"),
}
KINDS = [
    (float16, float16, "default"),
    (bfloat16, bfloat16, "default"),
    (float32, float32, "tf32"),
    (float32, float32, "tf32x3"),
    (float64, float64, "default"),
    (float32, float32, "default"),
    (float16, bfloat16, "default"),
    (float16, float32, "default"),
    (float32, float64, "default"),
]
SIX = [pytest.param(kind, marks=[pytest.mark.deep] * (number in (1, 4))) for number, kind in enumerate(KINDS[:6])]
"""Those whose operands are alike."""
ORDERS = ("NN", "NT", "TN", "TT")


@needs_nvrtc
@pytest.mark.parametrize("arch", ["80", "86", "89", "90", "100", "120"])
@pytest.mark.parametrize("kind", KINDS[:6], ids=lambda kind: f"{kind[0].short}-{kind[2]}")
def test_it_compiles(kind: tuple[DType, DType, str], arch: str) -> None:
    assert cubin(Case(kind[0], kind[1], 64, 64, 32, kind[2], arch=arch)).startswith(b"\x7fELF")


# What multiplies, how often in a loop's step, for a tile of that size.
CODE = [
    (float16, "default", (128, 128), "HMMA.16816.F32", 64),
    (bfloat16, "default", (128, 256), "HMMA.16816.F32.BF16", 64),
    (float32, "tf32", (128, 128), "HMMA.1688.F32.TF32", 64),
    (float32, "tf32x3", (128, 128), "HMMA.1688.F32.TF32", 192),
    (float64, "default", (128, 128), "DMMA", 32),
    (float32, "default", (128, 128), "FFMA", 1024),
]


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(("dtype", "precision", "tile", "opcode", "count"), CODE, ids=str)
def test_the_loop_holds_copies_loads_and_products_alone(
    dtype: DType, precision: str, tile: tuple[int, int], opcode: str, count: int
) -> None:
    ops = instructions(cubin(Case(dtype, dtype, *tile, 32, precision)))
    assert not counted(ops)["STL"] and not counted(ops)["LDL"], "registers are spilled"
    loop = main_loop(ops, opcode)
    found = counted(loop)
    assert sum(op.startswith(opcode) for op in loop) == count
    assert found["LDGSTS"] and found["BAR"] == 1
    assert not found["STS"] and not found["STG"] and not found["ATOMS"], "sums leave the registers"


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(
    "order", [pytest.param("NT", marks=pytest.mark.deep), "TN", pytest.param("TT", marks=pytest.mark.deep)]
)
@pytest.mark.parametrize(("dtype", "precision", "tile", "opcode", "count"), CODE[2:], ids=str)
def test_no_order_spills_registers(
    dtype: DType, precision: str, tile: tuple[int, int], opcode: str, count: int, order: str
) -> None:
    tile = (128, 256) if precision == "tf32" else tile
    ops = counted(instructions(cubin(Case(dtype, dtype, *tile, 32, precision, order))))
    assert not ops["STL"] and not ops["LDL"]


@needs_nvrtc
@needs_nvdisasm
def test_older_cores_multiply_f64_in_halves() -> None:
    ops = instructions(cubin(Case(float64, float64, 64, 64, 16, arch="80")))
    assert sum(op.startswith("DMMA.884") for op in ops) == 4 * 2 * 2 * 8


def place(values: Any, order: str, packed: bool, step: int = 1) -> Any:
    """An array with these values, row- or column-major, with gaps of NaN between its rows."""
    rows = values if order == "N" else values.T
    gap, start = (3 * 16 // values.itemsize, 0) if packed else (3, 1)
    pitch = -(-rows.shape[1] * step * values.itemsize // 16) * 16 // values.itemsize + gap
    memory = np.full(rows.shape[0] * pitch + 8, np.nan).astype(values.dtype)
    strides = (pitch * values.itemsize, step * values.itemsize)
    found = np.lib.stride_tricks.as_strided(memory[start:], rows.shape, strides)
    found[...] = rows
    return memory, (found if order == "N" else found.T)


def rounded(x: Any, case: Case) -> Any:
    """The values that are multiplied."""
    if case.precision == "tf32":
        return ((x.view(np.int32) + 0x1000) & ~np.int32(0x1FFF)).view(np.float32).astype(np.float64)
    if case.rounds:  # and tensor cores cut the lowest bits off, but multiply-adds do not
        return (x.view(np.int32) + 0x1000).view(np.float32).astype(np.float64)
    return x.astype(np.float64)


def check(loops: Loops, case: Case, m: int, n: int, k: int, step: int = 1, exact: bool = True) -> Any:
    """Runs a product of these extents, row-coded or random, into a poisoned array with guards around."""
    rng = np.random.default_rng(m + 7 * n + k)
    shapes, dtypes = ((m, k), (k, n)), (NUMPY[case.a], NUMPY[case.b])
    if exact:
        a, b = (rng.integers(-8, 9, shape).astype(dtype) for shape, dtype in zip(shapes, dtypes, strict=True))
        a[:, 0] = np.arange(m) % 127
    else:
        a, b = (rng.normal(size=shape).astype(dtype) for shape, dtype in zip(shapes, dtypes, strict=True))
    (_, at_a), (_, at_b) = place(a, case.order[0], case.packed, step), place(b, case.order[1], case.packed, step)
    memory = np.full((m + 2, -(-n // 4) * 4 + 4), -777.25, NUMPY[case.out])
    c = memory[:m, :n]
    c[...] = np.nan
    loops.run(case, at_a, at_b, c, k)
    assert (memory[m:] == -777.25).all() and (memory[:, n:] == -777.25).all(), "it wrote outside"
    want = rounded(a, case) @ rounded(b, case)
    if exact:
        assert np.array_equal(c.astype(np.float64), want)
    else:
        limit = 3e-15 if case.out is float64 else 1e-6
        assert np.linalg.norm(c - want) <= limit * np.linalg.norm(want)
    return c.copy()


def some(kind: tuple[DType, DType, str], items: Sequence[Any], device: str) -> Sequence[Any]:
    """All items on a GPU; on the emulator some, which depend on the kind, so that all of them are met."""
    return items if device == "gpu" else items[KINDS.index(kind) % 2 :: 2]


@ON_DEVICES
@pytest.mark.parametrize(
    "kind", [*SIX, KINDS[6], *(pytest.param(kind, marks=pytest.mark.deep) for kind in KINDS[7:])], ids=str
)
def test_any_order_and_any_edge(kind: tuple[DType, DType, str], device: str) -> None:
    a, b, precision = kind
    orders = some(kind, ORDERS, device)
    whole = [Case(a, b, 64, 64, 32, precision, order, stages=3) for order in orders]
    ragged = [Case(a, b, 48, 40, 24, precision, order, packed=False, joined=False) for order in orders]
    loops = Loops([*whole, *ragged], device)
    for first, second in zip(whole, ragged, strict=True):
        check(loops, first, 100, 120, 120)  # with whole blocks, and whole steps in them
        check(loops, first, 64, 64, 120, exact=False)
        check(loops, second, 101, 55, 77, 2)
        check(loops, second, 48, 40, 77, 2, exact=False)


@ON_DEVICES
@pytest.mark.parametrize("kind", SIX, ids=lambda kind: f"{kind[0].short}-{kind[2]}")
def test_no_tail_is_dropped(kind: tuple[DType, DType, str], device: str) -> None:
    a, b, precision = kind
    kinds = [(n, order) for n in (24, 40, 56, 72, 104) for order in ("NN", "NT")]
    cases = [Case(a, b, 64, n, 24, precision, order, joined=False, stages=2) for n, order in some(kind, kinds, device)]
    loops = Loops(cases, device)
    for case in cases:
        check(loops, case, 130, 2 * case.n, 24 * 3)


@ON_DEVICES
def test_turing_multiplies_halves_of_k_and_copies_by_hand(device: str) -> None:
    """A GPU runs these instructions; the emulator, which has its own, only what is planned around them."""
    kinds = [(float16, float16), (float32, float32), (float16, float32)]
    cases = [Case(*kind, 64, 64, 32, order=order, arch="75") for kind in kinds for order in ("NN", "TT")]
    cases += [Case(*kind, 48, 40, 24, packed=False, joined=False, arch="75") for kind in kinds]
    loops = Loops(cases, device)
    for case in cases:
        check(loops, case, 101, 55, 77)
        check(loops, case, 128, 128, 128)
        check(loops, case, 64, 64, 120, exact=False)


@needs_nvrtc
@needs_nvdisasm
def test_what_is_rounded_is_moved_sixteen_bytes_at_once() -> None:
    """It comes by asynchronous copies, and is rounded where it arrives: loads through registers were waited for."""
    ops = instructions(cubin(Case(float32, float32, 64, 64, 16, rounds=True)))
    loop = main_loop(ops, "FFMA")
    moves = {op.split(".")[0]: op for op in loop if op.startswith(("LDGSTS", "STS", "LDG.", "LDS"))}
    assert moves.keys() == {"LDGSTS", "LDS", "STS"}
    assert all(".128" in op for op in loop if op.startswith(("LDGSTS", "STS", "LDS")))


@needs_nvrtc
def test_the_code_of_turing_compiles_for_newer_ones() -> None:
    """On which the test above runs it."""
    kernel = "\n".join([*pretended("75"), loop_kernel(Case(float16, float16, 64, 64, 32, arch="75"))])
    assert compile_cubin(kernel, "90").startswith(b"\x7fELF")


@ON_DEVICES
def test_what_is_rounded_in_the_ring(device: str) -> None:
    cases = [Case(float32, float32, 32, 32, 16, order=order, rounds=True) for order in ("NN", "TT")]
    cases += [Case(float32, float32, 16, 24, 16, packed=packed, stages=3, rounds=True) for packed in (True, False)]
    cases.append(Case(float32, float32, 32, 32, 16, stages=1, threads=128, rounds=True))
    loops = Loops(cases, device)
    for case in cases:
        check(loops, case, 64, 64, 80, exact=False)
        check(loops, case, 67, 45, 77, exact=False)


@ON_DEVICES
def test_any_number_of_threads(device: str) -> None:
    """Rows are coded, so that one in the place of another shows: 256 rows were mixed up elsewhere."""
    cases = [
        Case(dtype, dtype, 256 if threads >= 256 else 32, 32, 16, stages=2, threads=threads)
        for threads in (32, 64, 128, 256, 512)
        for dtype in (float16, float32, float64)
        if threads >= 128 or dtype is not float64
    ]
    loops = Loops(cases, device)
    for case in cases:
        check(loops, case, 512, 64, 96)


@ON_DEVICES
@pytest.mark.parametrize("kind", SIX, ids=lambda kind: f"{kind[0].short}-{kind[2]}")
def test_the_depth_of_the_ring_changes_no_bit(kind: tuple[DType, DType, str], device: str) -> None:
    a, b, precision = kind
    cases = [Case(a, b, 32, 32, 32, precision, stages=stages) for stages in (1, 2, 3, 4, 5)]
    loops = Loops(cases, device)
    results = [check(loops, case, 64, 96, 200, exact=False) for case in (*cases, cases[0])]
    assert all(np.array_equal(results[0], other) for other in results)


ERRORS = (64, 256, 1024, 4096, 16384)


@pytest.mark.gpu
def test_tf32x3_is_as_accurate_as_f32() -> None:
    cases = {name: Case(float32, float32, 64, 64, 32, name, stages=1) for name in ("tf32x3", "default")}
    loops = Loops(list(cases.values()), "gpu")
    for k in ERRORS:
        rng = np.random.default_rng(k)
        a, b = rng.normal(size=(64, k)).astype("f4"), rng.normal(size=(k, 64)).astype("f4")
        want = a.astype("f8") @ b.astype("f8")
        errors = {}
        for precision, case in cases.items():
            c = np.full((64, 64), np.nan, "f4")
            loops.run(case, a, b, c, k)
            errors[precision] = np.linalg.norm(c - want)
        assert errors["tf32x3"] <= 4 * errors["default"], k


@ON_DEVICES
def test_what_is_not_finite_stays_so(device: str) -> None:
    cases = [Case(float32, float32, 32, 32, 32, name, stages=1) for name in ("default", "tf32", "tf32x3")]
    loops = Loops(cases, device)
    a, b = np.ones((32, 32), "f4"), np.ones((32, 32), "f4")
    a.view("u4")[1:3, 4] = 0x7FFFFFFF, 0xFFFFFFFF
    a[3, 4], a[4, 4], a[5] = np.inf, -np.inf, 0
    a[5, 4] = 3.4028e38
    for case in cases:
        c = np.zeros((32, 32), "f4")
        loops.run(case, a, b, c, 32)
        assert np.isnan(c[1:3]).all()
        assert (c[3] == np.inf).all() and (c[4] == -np.inf).all()
        assert np.isfinite(c[5]).all() and np.allclose(c[5], 3.4028e38, rtol=1e-3)
