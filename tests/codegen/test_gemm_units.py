"""What cuBLASDx is asked for, and what not: over dtypes, sizes, strides, thread counts, architectures, options."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tilekit.codegen.gemm.plan import BACKENDS, Plan, plan, scalar_warning
from tilekit.codegen.gemm.product import Factor, Product, Situation, Source
from tilekit.codegen.gemm.tiles import REGISTERS, shared_of_block
from tilekit.codegen.orders import order_of
from tilekit.codegen.target import ArrayClass
from tilekit.errors import CompileError
from tilekit.ir.types import bfloat16, float16, float32, float64
from tilekit.ir.views import ViewMap

FLOATS = (float16, bfloat16, float32, float64)
ROWS = ArrayClass(1, True, (False, False), False)
COLUMNS = ArrayClass(0, True, (False, False), False)
ARCHES = ("75", "80", "86", "89", "90", "90a", "100", "120")
ABSENT = "cuBLASDx is not installed: do this"


def asked(product: Product, **situation: Any) -> Plan:
    return plan(product, Situation(**{"arch": "90a", "gemm": "cublasdx", "no_mathdx": "", **situation}))


def tiles(a: Any, b: Any, a_map: ViewMap, b_map: ViewMap, out: Any = float32, precision: str = "default") -> Product:
    return Product(Factor(a, a_map), Factor(b, b_map), out, precision)


def squares(dtype: Any, m: int = 64, n: int = 64, k: int = 64, out: Any = None, precision: str = "default") -> Product:
    sums = out or (float64 if dtype is float64 else float32)
    return tiles(dtype, dtype, ViewMap.identity((m, k)), ViewMap.identity((k, n)), sums, precision)


def loop(dtype: Any, m: int, n: int, k: int, a: ArrayClass = ROWS, b: ArrayClass = ROWS, **more: Any) -> Product:
    left = Factor(dtype, ViewMap.identity((m, k)), Source(a, (0, 1), more.pop("multiple", 16)))
    right = Factor(dtype, ViewMap.identity((k, n)), Source(b, (0, 1), 16))
    return Product(left, right, float64 if dtype is float64 else float32, joined=True, **more)


SIZES = list(itertools.product((1, 16, 24, 64, 128), (8, 40, 64, 128), (1, 16, 24, 64)))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_tiles_in_memory_are_asked_for_as_they_lie(dtype: Any, arch: str) -> None:
    for m, n, k in SIZES:
        found = asked(squares(dtype, m, n, k), arch=arch)
        if arch == "75" and dtype is bfloat16:
            assert found.backend == "scalar" and "does not multiply bfloat16" in found.passed_over[0][1]
            continue
        unit = found.unit
        assert found.backend == "cublasdx" and unit is not None and found.ring is None
        assert (unit.m, unit.n, unit.k, unit.arch) == (m, n, k, int(arch.rstrip("a")))
        assert unit.leading == (k, n) and unit.rows == (True, True) and not unit.chooses_layout
        assert found.threads == unit.threads and found.warps.sum_registers * found.threads < REGISTERS


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_loops_have_a_ring_that_fits(dtype: Any, arch: str) -> None:
    if (arch, dtype) == ("75", bfloat16):
        assert asked(loop(dtype, 64, 64, 32), arch=arch).backend == "scalar"
        return
    for (m, n, k), a, b in itertools.product(SIZES, (ROWS, COLUMNS), (ROWS, COLUMNS)):
        found = asked(loop(dtype, m, n, k, a, b), arch=arch)
        unit, ring = found.unit, found.ring
        assert unit is not None and ring is not None and unit.chooses_layout
        assert (unit.m, unit.n, unit.k) == (found.warps.rows, found.warps.cols, ring.depth)
        assert unit.m >= m and unit.n >= n and unit.k * dtype.itemsize % 16 == 0
        assert unit.rows == (a is ROWS, b is ROWS) and unit.alignment == (16, 16)
        assert found.shared <= shared_of_block(int(arch.rstrip("a")))
        assert not found.ahead


STAGES = (1, 2, 3, 5)


@pytest.mark.parametrize("stages", STAGES)
def test_the_ring_has_as_many_stages_as_asked_for(stages: int) -> None:
    found = asked(loop(float16, 64, 64, 32), stages=stages)
    assert found.ring.stages == stages
    assert found.unit == asked(loop(float16, 64, 64, 32)).unit  # one unit whatever their number


# Strides of a factor of 32 x 64: whether it is row-major, its leading dimension; or None.
LIES = [
    ((64, 1), (True, 64)),
    ((80, 1), (True, 80)),  # a part of a wider tile
    ((1, 32), (False, 32)),  # a transpose is another order, not a copy
    ((1, 48), (False, 48)),
    ((0, 1), None),  # a broadcast
    ((1, 0), None),
    ((-64, 1), None),  # backwards
    ((128, 2), None),  # every second element
    ((63, 1), None),  # rows overlap
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("strides", "lies"), LIES)
@pytest.mark.parametrize("left", [True, False])
def test_order_and_leading_dimension_come_from_the_strides(strides: Any, lies: Any, left: bool, dtype: Any) -> None:
    own, other = ViewMap((32, 64), strides), ViewMap.identity((64, 32))
    found = asked(
        tiles(dtype, dtype, *((own, other) if left else (other, own)), float64 if dtype is float64 else float32)
    )
    at = 0 if left else 1
    if lies is None:
        assert found.backend == "scalar" and order_of(own) is None
        name = "ab"[at]
        assert f"{name}, of shape 32x64, has no leading dimension: its strides {strides}" in found.passed_over[0][1]
    else:
        assert (found.unit.rows[at], found.unit.leading[at]) == lies
        assert (found.unit.rows[1 - at], found.unit.leading[1 - at]) == (True, 32)


def test_the_stride_of_one_row_is_free() -> None:
    found = asked(tiles(float32, float32, ViewMap((1, 32), (-7, 1)), ViewMap((32, 1), (5, 9))))
    assert (found.unit.rows, found.unit.leading) == ((True, True), (32, 5))
    assert asked(tiles(float32, float32, ViewMap((1, 32), (0, 1)), ViewMap.identity((32, 16)))).unit.leading == (32, 16)


ALIGNMENTS = [  # dtype, strides, first element, bytes
    (float16, (64, 1), 0, 16),
    (float16, (64, 1), 8, 16),
    (float16, (64, 1), 4, 8),
    (float16, (64, 1), 1, 2),
    (float16, (72, 1), 0, 16),
    (float16, (68, 1), 0, 8),
    (float16, (66, 1), 0, 4),
    (float32, (66, 1), 2, 8),
    (float32, (65, 1), 0, 4),
    (float64, (64, 1), 1, 8),
    (float64, (66, 1), 2, 16),
]


@pytest.mark.parametrize(("dtype", "strides", "first", "bytes"), ALIGNMENTS)
def test_alignment_is_of_base_view_and_leading_dimension(dtype: Any, strides: Any, first: int, bytes: int) -> None:
    view = ViewMap((64, 64), strides, first)
    out = float64 if dtype is float64 else float32
    found = asked(tiles(dtype, dtype, view, ViewMap.identity((64, 64)), out))
    assert found.unit.alignment == (bytes, 16)


def test_bug_5218000_is_kept_away_from() -> None:
    """16 bits or less, an extent that is no multiple of 16, and a leading dimension that is not the extent."""
    for dtype, wider, (m, n, k) in itertools.product(FLOATS, (0, 16), itertools.product((16, 24), (32, 40), (48, 56))):
        map = ViewMap((m, k), (k + wider, 1))
        out = float64 if dtype is float64 else float32
        found = asked(tiles(dtype, dtype, map, ViewMap.identity((k, n)), out))
        met = dtype.itemsize == 2 and wider > 0 and any(extent % 16 for extent in (m, n, k))
        assert (found.backend == "scalar") is met
        if met:
            assert "5218000" in found.passed_over[0][1] and f"{m}x{n}x{k}" in found.passed_over[0][1]


def test_bfloat16_never_accumulates() -> None:
    for dtype, out in itertools.product(FLOATS, (float16, float32, float64)):
        found = asked(squares(dtype, out=out))
        if found.unit is None:
            assert out is float64 and f"does not sum {dtype.short} in float64" in found.passed_over[0][1]
        else:
            assert found.unit.sums == ("F64" if dtype is float64 else "F32")
    with pytest.raises(AssertionError):
        asked(squares(bfloat16, out=bfloat16))


@pytest.mark.parametrize(("a", "b"), [pair for pair in itertools.product(FLOATS, FLOATS) if pair[0] is not pair[1]])
def test_factors_of_two_dtypes_are_refused(a: Any, b: Any) -> None:
    square = ViewMap.identity((32, 32))
    found = asked(tiles(a, b, square, square, float64 if float64 in (a, b) else float32))
    assert found.backend == "scalar"
    assert f"not {a.short} and {b.short}" in found.passed_over[0][1]


@pytest.mark.parametrize(
    ("precision", "in_loop", "asks", "loses"),
    [
        ("default", True, "F32", None),
        ("tf32", True, "TF32", None),
        ("tf32", False, "F32", "only loops over arrays can round"),
        ("tf32x3", True, "F32", "does not multiply in parts"),
        ("tf32x3", False, "F32", "does not multiply in parts"),
    ],
)
def test_precision(precision: str, in_loop: bool, asks: str, loses: str | None) -> None:
    made = loop(float32, 64, 64, 32, precision=precision) if in_loop else squares(float32, precision=precision)
    found = asked(made)
    assert found.unit.precision == asks
    assert (found.lost_precision is None) if loses is None else loses in found.lost_precision
    if asks == "TF32":  # what is rounded is rounded in the ring
        assert all(feed.endswith("true, true>") for feed in found.feeds)


@pytest.mark.parametrize("threads", [32, 48, 64, 96, 128, 256, 512, 1024])
def test_a_given_number_of_threads_is_kept(threads: int) -> None:
    for dtype in FLOATS:
        found = asked(squares(dtype), threads=threads)
        if found.unit is not None:
            assert found.threads == found.unit.threads == threads
        else:
            why = "not whole warps" if threads % 32 else f"the registers of {threads} threads do not hold 64 x 64 sums"
            assert why in found.passed_over[0][1]


def test_every_part_of_a_descriptor_is_in_its_name() -> None:
    units = [
        asked(squares(dtype, *size), arch=arch, threads=threads).unit
        for dtype, size, arch, threads in itertools.product(
            (float16, float32), ((64, 64, 64), (64, 64, 32), (64, 32, 64)), ("80", "90"), (64, 128)
        )
    ]
    units += [
        asked(tiles(float32, float32, ViewMap((64, 64), strides, first), ViewMap.identity((64, 64)))).unit
        for strides, first in (((80, 1), 0), ((1, 64), 0), ((64, 1), 1))
    ]
    assert len({unit.name for unit in units}) == len({repr(unit) for unit in units}) == len(units)
    assert asked(squares(float16), arch="90").unit == asked(squares(float16), arch="90a").unit  # one serves both


# What is asked for, what is there: what serves a product of float64 tiles on sm_75 and on sm_90.
SWITCHES = [
    ("auto", "", "cublasdx", "mma"),
    ("auto", ABSENT, "scalar", "mma"),
    ("cublasdx", "", "cublasdx", "cublasdx"),
    ("cublasdx", ABSENT, "scalar", "scalar"),
    ("scalar", "", "scalar", "scalar"),
    ("mma", "", None, "mma"),
    ("hopper", "", None, None),
]


@pytest.mark.parametrize(("gemm", "no_mathdx", "old", "new"), SWITCHES)
def test_what_serves(gemm: str, no_mathdx: str, old: str | None, new: str | None) -> None:
    for arch, backend in (("75", old), ("90a", new)):
        if backend is None:
            with pytest.raises(CompileError, match=f"'{gemm}' is required, but cannot serve: "):
                asked(squares(float64), arch=arch, gemm=gemm, no_mathdx=no_mathdx)
        else:
            found = asked(squares(float64), arch=arch, gemm=gemm, no_mathdx=no_mathdx)
            assert found.backend == backend
            warning = scalar_warning(found, "tile_matmul()", squares(float64))
            assert (warning is not None and ABSENT in warning) is (backend == "scalar" and gemm != "scalar")


@pytest.mark.parametrize("gemm", ["auto", "mma", "cublasdx", "scalar"])
@pytest.mark.parametrize("require", [*BACKENDS, "hopper"])
def test_a_requirement_is_met_or_an_error(require: str, gemm: str) -> None:
    allowed = require in {"auto": BACKENDS, "cublasdx": ("cublasdx", "scalar")}.get(gemm, (gemm,))
    if allowed:
        assert asked(squares(float16), gemm=gemm, require=require).backend == require
    else:
        why = "this version does not have it" if require == "hopper" else f"'{gemm}' was asked for"
        with pytest.raises(CompileError, match=f"'{require}' is required, but cannot serve: {why}"):
            asked(squares(float16), gemm=gemm, require=require)
    if require == "cublasdx" and allowed:
        with pytest.raises(CompileError, match="cannot serve: cuBLASDx is not installed: do this"):
            asked(squares(float16), gemm=gemm, require=require, no_mathdx=ABSENT)


def test_architectures_that_it_does_not_serve() -> None:
    found = asked(squares(float16), arch="70", no_mathdx=ABSENT)
    assert found.backend == "scalar" and found.passed_over == (("cublasdx", "cuBLASDx does not serve sm_70"),)


def test_nobody_is_told_to_install_what_would_not_serve() -> None:
    for product in (squares(float64, 1024, 1024), tiles(float64, float32, *2 * (ViewMap.identity((8, 8)),))):
        assert ABSENT not in asked(product, arch="75", gemm="auto", no_mathdx=ABSENT).passed_over[1][1]
    assert asked(squares(float64), arch="75", gemm="auto", no_mathdx=ABSENT).passed_over[1] == ("cublasdx", ABSENT)


def test_the_cpu_has_none() -> None:
    found = asked(squares(float16), arch="")
    assert found.backend == "scalar" and found.passed_over == (("cublasdx", "the CPU has no cuBLASDx"),)


def test_a_plan_says_what_it_does() -> None:
    text = str(asked(loop(float16, 128, 128, 32)))
    assert "128x128x32, f16 x f16 -> f32: cublasdx (cuBLASDx, F16 in F32); 256 threads" in text
    assert "4 stages of 64 along k, 131072 bytes shared" in text
    assert str(asked(squares(float16)).unit) == "64x64x64 F16 NN, 64 threads, sm_90"
