"""Which code computes a product: over every dtype, size, order, thread count and architecture, without a GPU."""

from __future__ import annotations

import itertools

import pytest

from tilekit.codegen.gemm.kinds import accumulator
from tilekit.codegen.gemm.plan import Plan, plan, scalar_warning, unordered
from tilekit.codegen.gemm.product import Factor, Product, Situation, Source
from tilekit.codegen.gemm.tiles import REGISTERS, shared_of_block
from tilekit.codegen.orders import Order, is_packed, order_of, why_unordered
from tilekit.codegen.target import ArrayClass
from tilekit.errors import CompileError
from tilekit.ir.types import bfloat16, float16, float32, float64
from tilekit.ir.views import ViewMap

FLOATS = (float16, bfloat16, float32, float64)
ROWS = ArrayClass(1, True, (False, False), False)
COLUMNS = ArrayClass(0, True, (False, False), False)
ARCHES = ("80", "86", "89", "90a", "100a", "120a")


def loaded(dtype, rows, cols, array=ROWS, multiple=16):
    return Factor(dtype, ViewMap.identity((rows, cols)), Source(array, (0, 1), multiple))


def loop(a, b, m, n, k, precision="default", joined=True, **kind):
    product = Product(loaded(a, m, k), loaded(b, k, n), accumulator(a, b), precision, joined)
    return plan(product, Situation(**{"arch": "90a", **kind}))


# Orders: rows, columns, their strides, the order.
ORDERS = [
    ((4, 8), (8, 1), Order(1, 8)),
    ((4, 8), (40, 1), Order(1, 40)),  # part of a wider matrix
    ((8, 4), (1, 8), Order(0, 8)),  # a transpose flips the order
    ((8, 4), (1, 32), Order(0, 32)),
    ((4, 8), (7, 1), None),  # rows overlap
    ((4, 8), (0, 1), None),  # a broadcast of rows
    ((4, 8), (1, 0), None),
    ((4, 8), (0, 0), None),
    ((4, 8), (-8, 1), None),  # backwards
    ((4, 8), (8, -1), None),
    ((4, 8), (16, 2), None),  # every second element
    ((1, 8), (0, 1), Order(1, 8)),  # the stride of one row is free
    ((1, 8), (-3, 1), Order(1, 8)),
    ((1, 8), (8, 2), Order(0, 2)),  # one row of every second element is a column-major matrix
    ((8, 1), (1, 0), Order(1, 1)),  # both would do: its own order
    ((8, 1), (5, 7), Order(1, 5)),
    ((1, 1), (0, 0), Order(1, 1)),
]


@pytest.mark.parametrize(("shape", "strides", "order"), ORDERS)
def test_an_order_needs_a_unit_stride_and_rows_that_do_not_overlap(shape, strides, order):
    map = ViewMap(shape, strides)
    assert order_of(map) == order
    if order is None:
        assert f"its strides {strides}" in why_unordered(map)


@pytest.mark.parametrize(
    ("strides", "why"), [((0, 1), "broadcast"), ((8, -1), "backwards"), ((16, 2), "no 1"), ((7, 1), "overlap")]
)
def test_why_there_is_no_order(strides, why):
    assert why in why_unordered(ViewMap((4, 8), strides))


def test_a_transpose_is_a_flipped_order():
    for shape, strides, order in ORDERS:
        flipped = order_of(ViewMap(shape[::-1], strides[::-1]))
        assert (flipped is None) is (order is None)
        if order is not None and min(shape) > 1:
            assert flipped == order.transposed


@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_packs_need_an_aligned_base_view_and_leading_dimension(itemsize):
    pack = 16 // itemsize
    for leading, offset, extent in itertools.product((4 * pack, 4 * pack + 1), (0, pack, 1), (pack, pack - 1)):
        right = leading % pack == 0 and offset % pack == 0 and extent == pack
        assert is_packed(Order(1, leading), itemsize, offset, extent) is right


TILES = list(itertools.product((1, 8, 16, 24, 64, 72, 128, 256), (1, 8, 24, 40, 64, 104, 128, 256), (1, 8, 24, 32, 64)))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(("a", "b"), list(itertools.product(FLOATS, FLOATS)), ids=str)
def test_every_product_has_a_plan_that_fits(a, b, arch):
    precisions = ("default", "tf32", "tf32x3") if a is b is float32 else ("default",)
    for (m, n, k), precision, joined in itertools.product(TILES, precisions, (True, False)):
        found = loop(a, b, m, n, k, precision, joined, arch=arch)
        if found.backend == "scalar":
            assert m * n * accumulator(a, b).itemsize // 4 >= 128 * 256 or "do not fit" in found.passed_over[0][1]
            continue
        assert_fits(found, m, n, k, joined, int(arch.rstrip("a")))


def assert_fits(found: Plan, m: int, n: int, k: int, joined: bool, arch: int) -> None:
    warps, ring = found.warps, found.ring
    assert warps is not None and ring is not None
    assert warps.rows >= m and warps.cols >= n
    assert found.threads % 32 == 0 and 32 <= found.threads <= 1024
    assert warps.sum_registers * found.threads < REGISTERS
    assert found.shared <= shared_of_block(arch)
    assert ring.depth % warps.kind.k == 0 and ring.depth >= ring.k
    assert joined or ring.k == k
    for factor in (found.a, found.b):
        along, across = ring.depth, warps.rows if factor is found.a else warps.cols
        assert (along if factor.k_major else across) * factor.dtype.itemsize % 16 == 0


@pytest.mark.parametrize("threads", [32, 64, 96, 128, 160, 256, 512, 1024])
def test_a_given_number_of_threads_is_kept(threads):
    for dtype, (m, n, k) in itertools.product(FLOATS, TILES[::7]):
        found = loop(dtype, dtype, m, n, k, threads=threads)
        assert found.threads in (threads, None)
        if found.backend == "mma":
            assert_fits(found, m, n, k, True, 90)
        else:
            fits = loop(dtype, dtype, m, n, k).threads
            instead = f"{fits} threads, or smaller tiles" if fits else "smaller tiles"
            why = f"the registers of {threads} threads do not hold {m} x {n} sums; use {instead}"
            assert found.passed_over[0][1] == why and fits != threads


# What was fastest on an H200: warps down and right, elements of a step.
FASTEST = [
    (float16, "default", (32, 32), (1, 1), 32),
    (float16, "default", (64, 64), (1, 2), 32),
    (float16, "default", (128, 128), (2, 2), 32),
    (float16, "default", (128, 256), (2, 4), 32),
    (float16, "default", (256, 128), (4, 2), 32),
    (float32, "tf32", (64, 64), (1, 2), 16),
    (float32, "tf32", (128, 64), (2, 2), 16),
    (float32, "tf32", (128, 128), (2, 4), 32),
    (float32, "tf32", (128, 256), (2, 4), 32),
    (float32, "tf32x3", (64, 64), (2, 2), 32),
    (float32, "tf32x3", (128, 128), (2, 4), 32),
    (float64, "default", (128, 128), (4, 2), 16),
    (float32, "default", (64, 64), (1, 2), 32),
    (float32, "default", (128, 128), (2, 2), 32),
]


@pytest.mark.parametrize(("dtype", "precision", "tile", "warps", "k"), FASTEST, ids=str)
def test_what_was_measured_is_chosen(dtype, precision, tile, warps, k):
    found = loop(dtype, dtype, *tile, 32, precision)
    assert (found.warps.down, found.warps.right) == warps
    assert found.ring.k == k


def test_bfloat16_never_accumulates():
    assert {accumulator(a, b) for a, b in itertools.product(FLOATS, FLOATS)} == {float32, float64}
    with pytest.raises(AssertionError):
        plan(Product(loaded(bfloat16, 64, 64), loaded(bfloat16, 64, 64), bfloat16), Situation("90a"))


def test_f32_is_never_rounded_unasked():
    for out in (float16, float32):
        factors = loaded(float32, 64, 64), loaded(float32, 64, 64)
        assert plan(Product(*factors, out), Situation("90a")).kind == "tk::Fma32"
        assert plan(Product(loaded(float16, 64, 64), factors[1], out), Situation("90a")).kind == "tk::Fma32"


def test_both_halves_meet_in_tf32_which_holds_them_exactly():
    assert loop(float16, bfloat16, 64, 64, 32).kind == "tk::Tf32"


@pytest.mark.parametrize(
    ("array", "multiple", "k_major", "packed"),
    [
        (ROWS, 16, True, True),
        (COLUMNS, 16, False, True),
        (ROWS, 4, True, False),  # the tile starts between packs
        (ROWS, 0, True, True),  # always at the array's edge
        (ArrayClass(1, False, (False, False), False), 16, True, False),
        (ArrayClass(-1, True, (False, False), False), 16, True, False),  # no unit stride
        (ArrayClass(1, True, (True, False), False), 16, True, True),  # repeated rows are read again
    ],
)
def test_arrays_decide_the_order_in_shared_memory(array, multiple, k_major, packed):
    product = Product(loaded(float16, 64, 32, array, multiple), loaded(float16, 32, 64), float32, joined=True)
    found = plan(product, Situation("90a"))
    assert (found.a.k_major, found.a.packed) == (k_major, packed)
    assert found.operands[0] == f"tk::SharedOperand<tk::f16, 64, 32, {str(k_major).lower()}, tk::kMatrices>"


def test_a_transposed_load_is_another_order():
    swapped = Factor(float16, ViewMap.identity((64, 32)), Source(ROWS, (1, 0), 16))
    found = plan(Product(swapped, loaded(float16, 32, 64), float32, joined=True), Situation("90a"))
    assert not found.a.k_major and found.a.packed


MEMORY = [
    (ViewMap.identity((64, 32)), "tk::SharedOperand<tk::f16, 64, 32, true, tk::kDense, 32>"),
    (ViewMap((64, 32), (40, 1), 8), "tk::SharedOperand<tk::f16, 64, 32, true, tk::kDense, 40>"),
    (ViewMap((64, 32), (1, 64)), "tk::SharedOperand<tk::f16, 64, 32, false, tk::kDense, 64>"),
    (ViewMap((64, 32), (33, 1)), "tk::StridedOperand<tk::f16, 64, 32, 33, 1>"),
    (ViewMap((64, 32), (40, 1), 4), "tk::StridedOperand<tk::f16, 64, 32, 40, 1>"),
    (ViewMap((64, 32), (0, 1)), "tk::StridedOperand<tk::f16, 64, 32, 0, 1>"),
    (ViewMap((64, 32), (-32, 1), 63 * 32), "tk::StridedOperand<tk::f16, 64, 32, -32, 1>"),
    (ViewMap((60, 32), (32, 1)), "tk::StridedOperand<tk::f16, 60, 32, 32, 1>"),
    (ViewMap((64, 24), (24, 1)), "tk::StridedOperand<tk::f16, 64, 24, 24, 1>"),
]


@pytest.mark.parametrize(("map", "operand"), MEMORY, ids=lambda value: str(value)[:40])
def test_tiles_in_memory_are_read_as_their_strides_allow(map, operand):
    b = Factor(float16, ViewMap.identity((map.shape[1], 64)))
    found = plan(Product(Factor(float16, map), b, float32), Situation("90a"))
    assert found.backend == "mma" and found.ring is None and found.shared == 0
    assert found.operands[0] == operand
    assert found.depth % 16 == 0


def test_broadcasts_are_named():
    product = Product(Factor(float16, ViewMap((64, 64), (0, 1))), loaded(float16, 64, 64), float32)
    assert list(unordered(product)) == ["a"]


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
def test_stages_can_be_asked_for(stages):
    found = loop(float16, float16, 128, 128, 32, stages=stages)
    assert found.ring.stages == stages and found.shared == stages * 2 * 128 * 32 * 2
    assert found.ahead is (stages > 1)


def test_what_shared_memory_others_need_is_left():
    taken = shared_of_block(90) - 40000
    found = loop(float16, float16, 128, 128, 32, shared=taken)
    assert found.shared <= 40000
    none = loop(float64, float64, 128, 128, 64, joined=False, shared=taken)
    assert none.backend == "scalar" and "do not fit in 40000 bytes" in none.passed_over[0][1]


@pytest.mark.parametrize(("arch", "why"), [("", "the CPU"), ("70", "sm_70 is older than sm_75")])
def test_older_targets_fall_to_scalar_and_say_so(arch, why):
    product = Product(loaded(float32, 64, 64), loaded(float32, 64, 64), float32, "tf32")
    found = plan(product, Situation(arch))
    assert found.backend == "scalar" and why in found.passed_over[0][1]
    assert found.lost_precision and "tf32" in found.lost_precision
    assert why in scalar_warning(found, "tile_matmul()", product)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(FLOATS, FLOATS)), ids=str)
def test_turing_multiplies_float16_alone_on_tensor_cores(a, b):
    for (m, n, k), joined in itertools.product(TILES[::5], (True, False)):
        found = loop(a, b, m, n, k, joined=joined, arch="75")
        if found.backend == "scalar":
            why = found.passed_over[0][1]
            assert "multiply float16 alone" in why if float64 in (a, b) else m * n >= 128 * 256 or "do not fit" in why
            continue
        assert_fits(found, m, n, k, joined, 75)
        kind = "tk::Tensor16<tk::f16>" if a is b is float16 else "tk::Fma32"
        assert (found.kind, found.ring.stages) == (kind, 2)
    instruction = loop(float16, float16, 64, 64, 32, arch="75").reason
    assert instruction == "2 x mma.m16n8k8.f32.f16.f16.f32"


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_turing_has_no_tf32_and_says_so(precision):
    found = loop(float32, float32, 64, 64, 32, precision, arch="75")
    assert (found.backend, found.kind) == ("mma", "tk::Fma32")
    assert found.lost_precision == "its tensor cores multiply float16 alone"
    assert loop(float32, float32, 64, 64, 32, precision).lost_precision is None


def test_a_backend_can_be_asked_for():
    assert loop(float16, float16, 64, 64, 32, gemm="scalar").backend == "scalar"
    assert loop(float16, float16, 64, 64, 32, gemm="mma").backend == "mma"
    assert scalar_warning(loop(float16, float16, 64, 64, 32, gemm="scalar"), "f", None) is None
    for options in ({"gemm": "mma"}, {"require": "mma"}):
        with pytest.raises(CompileError, match="'mma' is required, but cannot serve: the tensor cores of sm_75"):
            loop(float64, float64, 64, 64, 32, arch="75", **options)
    with pytest.raises(CompileError, match="'scalar' is required, but cannot serve"):
        loop(float16, float16, 64, 64, 32, gemm="mma", require="scalar")


def test_a_backend_can_be_required():
    assert loop(float16, float16, 64, 64, 32, require="scalar").backend == "scalar"
    assert loop(float16, float16, 64, 64, 32, require="mma").backend == "mma"
    with pytest.raises(CompileError, match="'mma' is required, but cannot serve: 'scalar' was asked for"):
        loop(float16, float16, 64, 64, 32, gemm="scalar", require="mma")
    with pytest.raises(CompileError, match="'hopper' is required, but cannot serve: this version does not have it"):
        loop(float16, float16, 64, 64, 32, require="hopper")


def test_a_plan_says_what_it_does():
    text = str(loop(float16, float16, 128, 128, 32))
    assert "128x128x32, f16 x f16 -> f32: mma (mma.m16n8k16.f32.f16.f16.f32)" in text
    assert "2 x 2 warps of 64 x 64, 128 threads" in text
    assert "4 stages of 32 along k, 65536 bytes shared" in text


@pytest.mark.parametrize(
    ("dtype", "total", "k", "stages"),
    [
        (float16, 0, 32, 4), (float16, 16, 16, 1), (float16, 24, 32, 1), (float16, 64, 32, 3), (float16, 1000, 32, 4),
        (float32, 3, 4, 1), (float32, 8, 8, 1), (float32, 12, 16, 1), (float64, 16, 16, 1),
    ],
)  # fmt: skip
def test_a_ring_is_no_longer_than_its_loop(dtype, total, k, stages):
    """Else more blocks would fit, and a small product would be multiplied with zeros."""
    factors = loaded(dtype, 32, 16), loaded(dtype, 16, 32)
    ring = plan(Product(*factors, accumulator(dtype, dtype), joined=True, total=total), Situation("90a")).ring
    assert (ring.k, ring.stages) == (k, stages)
