"""Which products become one op, with which plan, and that it means what the loop meant."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.codegen.gemm.products import plans_of
from tilekit.codegen.layouts import Layout
from tilekit.codegen.target import Target
from tilekit.errors import CompileError, FallbackWarning, PrecisionWarning
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function, Op, walk
from tilekit.ir.interpret import Machine, interpret
from tilekit.ir.regions import emitted
from tilekit.passes import run_pipeline
from tilekit.passes.choose_block import choose_block
from tilekit.runtime.spec import dense_class

M, N, K = 32, 48, 16


def lowered(
    kernel: Kernel, arch: str = "90a", block_dim: int = 128, checked: bool = False
) -> tuple[Function, Target, Any]:
    types = kernel.default_types()
    arrays = {name: dense_class(type.ndim) for name, type in types.items() if hasattr(type, "ndim")}
    target = Target("cuda", arch, block_dim, True, 2, False, checked, arrays=arrays)
    function = kernel.trace(kernel.default_types(), LaunchForm(True, 2, block_dim))
    target = choose_block(function, target)
    fn, storage = run_pipeline(function, target)
    return fn, target, storage


def gemm_loops(fn: Function) -> list[Op]:
    return [op for op in walk(fn.body) if op.builtin.name == "gemm_loop"]


def product(body: Callable[..., None], dtype: Any = tk.float16) -> Kernel:
    @tk.kernel
    def gemm(a: tk.array2d[dtype], b: tk.array2d[dtype], out: tk.array2d[float], size: int):
        i, j = tk.tid()
        acc = tk.tile_full(shape=(M, N), value=0.5, dtype=float)
        body(a, b, acc, i * M, j * N, size)
        tk.tile_store(out, acc * 2.0, offset=(i * M, j * N))

    return gemm


def plain(a, b, acc, row, column, size):
    for k in range(size / K):
        x = tk.tile_load(a, shape=(M, K), offset=(row, k * K))
        y = tk.tile_load(b, shape=(K, N), offset=(k * K, column))
        tk.tile_matmul(x, y, acc)


def in_elements(a, b, acc, row, column, size):
    for k in range(0, size, K):
        x = tk.tile_load(a, shape=(M, K), offset=(row, k))
        y = tk.tile_load(b, shape=(K, N), offset=(k, column))
        tk.tile_matmul(x, y, acc, alpha=0.25)


def transposed(a, b, acc, row, column, size):
    for k in range(0, size, K):
        x = tk.tile_load(a, shape=(K, M), offset=(k, row))
        y = tk.tile_load(b, shape=(N, K), offset=(column, k))
        tk.tile_matmul(tk.tile_transpose(x), y.T, acc)


def downwards(a, b, acc, row, column, size):
    for k in range(size - K, -1, -K):
        x = tk.tile_load(a, shape=(M, K), offset=(row - 3, k + 1))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N), offset=(k + 1, column)), acc)


def gaps(a, b, acc, row, column, size):
    for k in range(0, size, K + 8):
        x = tk.tile_load(a, shape=(M, K), offset=(row, k))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N), offset=(k, column)), acc)


def stepping(a, b, acc, row, column, size):
    by = size // 4
    scale = float(by)
    for k in range(size // 8, size, by):
        x = tk.tile_load(a, shape=(M, K), offset=(row, k * 2 - 20))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N), offset=(k * 2 - 20, column)), acc, alpha=scale)


def changing(a, b, acc, row, column, size):
    for k in range(0, size, K):
        x = tk.tile_load(a, shape=(M, K), offset=(row, k))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N), offset=(k, column)), acc, alpha=float(k))


BODIES = [plain, in_elements, transposed, downwards, gaps, stepping]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_a_loop_over_k_is_one_op(body: Callable[..., None]) -> None:
    fn, target, storage = lowered(product(body))
    (op,) = gemm_loops(fn)
    plan = op.attrs["plan"]
    assert (plan.backend, plan.m, plan.n, plan.k) == ("mma", M, N, K)
    assert plan.threads == target.threads
    assert op.attrs["joined"] == (body not in (downwards, gaps, stepping))
    assert not any(inner.builtin.contraction for inner in emitted(fn.body))
    assert [inner.builtin.name for inner in op.blocks[0].ops if inner.builtin.contraction] == ["tile_matmul"]
    (made,) = plans_of(fn, target)
    assert made is plan
    result = storage.buffers[op.results[0]]
    assert result.layout == plan.layout
    assert isinstance(result.layout, Layout)
    ring = storage.buffers[op.results[1]]
    assert (ring.layout, ring.size, ring.offset % 128) == (None, plan.shared, 0)
    assert storage.size == plan.shared  # nothing else lies in shared memory


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_it_means_what_the_loop_meant(body: Callable[..., None]) -> None:
    assert_same(product(body), ((83, 70), (70, 90)) if body is not transposed else ((70, 83), (90, 70)), np.float16)


def assert_same(kernel: Kernel, shapes: Any, dtype: Any) -> None:
    """What the kernel was gives the same bits as what it has become."""
    form = LaunchForm(True, 2, 128)
    before = kernel.trace(kernel.default_types(), form)
    after, _, _ = lowered(kernel)
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    results = []
    for fn in (before, after):
        out, held = np.full((83, 90), 7.0, np.float32), a.copy()
        for block in np.ndindex(3, 2):
            interpret(fn, {"a": held, "b": b, "out": out, "size": np.int32(64)}, Machine(block, (3, 2), 128))
        results.append(out)
    assert np.array_equal(*results)


def test_a_factor_that_changes_stays_in_the_loop() -> None:
    (op,) = gemm_loops(lowered(product(changing))[0])
    assert op.operands["stop"].value == 1
    assert_same(product(changing), ((83, 70), (70, 90)), np.float16)


def sixteen_bytes(body: Callable[..., None], dtype: Any = tk.float16) -> list[bool]:
    (op,) = gemm_loops(lowered(product(body, dtype))[0])
    return [op.attrs["plan"].a.packed, op.attrs["plan"].b.packed]


def test_packs_are_copied_where_every_step_begins_at_one() -> None:
    assert sixteen_bytes(plain) == [True, True]
    assert sixteen_bytes(downwards) == [False, True]
    assert sixteen_bytes(gaps) == [True, True]


def also_read(a, b, acc, row, column, size):
    total = 0.0
    for k in range(0, size, K):
        x = tk.tile_load(a, shape=(M, K), offset=(row, k))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N), offset=(k, column)), acc)
        total += tk.tile_extract(x, 0, 0)
    acc += total


def test_a_loop_that_does_other_things_keeps_them() -> None:
    fn, _, _ = lowered(product(also_read, tk.float32))
    (op,) = gemm_loops(fn)
    assert op.operands["stop"].value == 1
    assert any(op in loop.blocks[0].ops for loop in walk(fn.body) if loop.blocks)


def written_out(a, b, acc, row, column, size):
    for k in range(3):  # which could be unrolled
        x = tk.tile_load(a, shape=(M, K), offset=(row, k * K))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N), offset=(k * K, column)), acc)


def by_itself(a, b, acc, row, column, size):
    x = tk.tile_load(a, shape=(M, K), offset=(row, 5))
    acc += tk.tile_astype(x @ tk.tile_load(b, shape=(K, N), offset=(0, column)), float)


def while_it_counts(a, b, acc, row, column, size):
    k = 0  # as weak as the literal
    while k < size:
        x = tk.tile_load(a, shape=(M, K), offset=(row, k))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N), offset=(k, column)), acc)
        k += K


def left_early(a, b, acc, row, column, size):
    for k in range(size):
        if k == 3:
            break
        x = tk.tile_load(a, shape=(M, K), offset=(row, k * K))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N), offset=(k * K, column)), acc)


ALONE = [(written_out, 3), (by_itself, 1), (while_it_counts, 1), (left_early, 1)]


@pytest.mark.parametrize(("body", "steps"), ALONE, ids=[body.__name__ for body, _ in ALONE])
@pytest.mark.parametrize("dtype", [tk.float16, tk.float32], ids=["f16", "f32"])
def test_products_without_a_loop_are_one(body: Callable[..., None], steps: int, dtype: Any) -> None:
    (op,) = gemm_loops(lowered(product(body, dtype))[0])
    assert (op.operands["stop"].value, op.attrs["joined"]) == (steps, True)
    assert_same(product(body, dtype), ((83, 70), (70, 90)), dtype.numpy)


def written_between(a, b, acc, row, column, size):
    x = tk.tile_load(a, shape=(M, K), offset=(row, 0))
    tk.tile_store(a, x * 2.0, offset=(row, 0))
    tk.tile_matmul(x, tk.tile_load(b, shape=(K, N)), acc)


def computed(a, b, acc, row, column, size):
    x = tk.tile_load(a, shape=(M, K), offset=(row, 0))
    tk.tile_matmul(x * x, tk.tile_load(b, shape=(K, N)), acc)


def scaled(a, b, acc, row, column, size):
    x = tk.tile_load(a, shape=(M, K), offset=(row, 0)) * 0.5
    tk.tile_matmul(x, tk.tile_load(b, shape=(K, N)), acc, alpha=2.0, beta=0.5)


def sliced(a, b, acc, row, column, size):
    x = tk.tile_load(a, shape=(M + 1, K + 3), offset=(row, 0))
    y = tk.tile_load(b, shape=(N, 2 * K))
    tk.tile_matmul(x[1:, 3:], y[:, ::2].T, acc)


def in_bits(a, b, acc, row, column, size):
    x, y = tk.tile_load(a, shape=(M, K), offset=(row, 0)), tk.tile_load(b, shape=(K, N))
    tk.tile_bitcast(x, tk.uint32)[0, 0] = tk.uint32(0x3C003C00)
    tk.tile_matmul(x, tk.tile_bitcast(tk.tile_bitcast(y, tk.int16), tk.float16), acc)


@pytest.mark.parametrize(
    ("body", "how"),
    [
        (written_between, ["kDense", "kDense"]),
        (computed, ["kDense", "kDense"]),
        (scaled, ["kDense", "kDense"]),
        (sliced, ["", ""]),
        (in_bits, ["kDense", ""]),
    ],
    ids=["written_between", "computed", "scaled", "sliced", "in_bits"],
)
def test_tiles_in_shared_memory_are_multiplied_there(body: Callable[..., None], how: list[str]) -> None:
    fn, target, storage = lowered(product(body))
    (op,) = (op for op in walk(fn.body) if op.builtin.name == "gemm_tiles")
    plan = op.attrs["plan"]
    assert (plan.backend, plan.ring, plan.threads) == ("mma", None, target.threads)
    assert [plan.a.how, plan.b.how] == how
    assert storage.buffers[op.results[0]].layout == plan.layout
    assert_same(product(body), ((83, 70), (70, 90)), np.float16)


def test_a_product_that_falls_back_warns_and_says_why() -> None:
    kernel, why = product(computed, tk.float64), "the tensor cores of sm_75 multiply float16 alone"
    with pytest.warns(FallbackWarning, match="computed without tensor cores") as told:
        fn, target, _ = lowered(kernel, "75")
    assert [str(warning.message) for warning in told] == [
        "tile_matmul(): the product of a, a 32x16xf64 tile of strides (16, 1), and b, a 16x48xf64 tile of strides "
        f"(48, 1), is computed without tensor cores: {why}; {target.no_mathdx}"
    ]
    (line,) = {warning.lineno for warning in told if warning.filename == __file__}
    assert "tile_matmul(" in Path(__file__).read_text().splitlines()[line - 1]
    (plan,) = plans_of(fn, target)
    assert plan.backend == "scalar" and f"not mma: {why}" in str(plan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tk.config.scoped(gemm="scalar"):
            lowered(kernel, "75")
        lowered(kernel)


def large(a, b, acc, row, column, size):
    x = tk.tile_load(a, shape=(256, K))
    tk.tile_store(a, tk.tile_astype(tk.tile_matmul(x * x, tk.tile_load(b, shape=(K, 384))), tk.float16))


def test_sums_that_no_block_holds_fall_back() -> None:
    with pytest.warns(FallbackWarning, match="the registers of 128 threads do not hold 256 x 384 sums"):
        lowered(product(large))


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_a_precision_that_only_tensor_cores_have(precision: str) -> None:
    def body(a, b, acc, row, column, size):
        x = tk.tile_load(a, shape=(M, K))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N)), acc, precision=precision)

    kernel = product(body, tk.float32)
    (op,) = gemm_loops(lowered(kernel)[0])
    assert "tf32" in op.attrs["plan"].reason
    with pytest.warns(
        PrecisionWarning, match=f"precision '{precision}' is not available on sm_75, as its tensor cores"
    ):
        lowered(kernel, "75")


def test_options_decide() -> None:
    with tk.config.scoped(gemm="scalar"):
        fn, target, _ = lowered(product(plain))
        assert gemm_loops(fn) == []
        assert target.threads == 128
    with tk.config.scoped(gemm="mma"):
        assert len(gemm_loops(lowered(product(plain))[0])) == 1
        with pytest.raises(CompileError, match="sm_75 multiply float16 alone") as raised:
            lowered(product(plain, tk.float64), "75")
    assert raised.value.location is not None


def two(a, b, acc, row, column, size):
    other = tk.tile_zeros(shape=(M, N), dtype=float)
    for k in range(0, size, K):
        x = tk.tile_load(a, shape=(M, K), offset=(row, k))
        y = tk.tile_load(b, shape=(K, N), offset=(k, column))
        z = tk.tile_load(b, shape=(K, N), offset=(k, column + N))
        tk.tile_matmul(x, y, acc)
        tk.tile_matmul(x, z, other)
    acc += other


def test_each_of_two_products_is_an_op() -> None:
    fn, _, storage = lowered(product(two))
    first, second = gemm_loops(fn)
    assert storage.buffers[first.results[0]].layout == storage.buffers[second.results[0]].layout
    assert storage.buffers[first.results[1]].overlaps(storage.buffers[second.results[1]])  # one after the other


def elsewhere(a, b, acc, row, column, size):
    plain(a, b, acc, row, column, size)
    acc += tk.tile_sum(acc)[0]


def test_sums_that_are_read_across_threads_lie_in_shared_memory() -> None:
    fn, _, storage = lowered(product(elsewhere))
    (op,) = gemm_loops(fn)
    assert storage.buffers[op.results[0]].layout is None
    assert not storage.buffers[op.results[0]].overlaps(storage.buffers[op.results[1]])


def crowded(a, b, acc, row, column, size):
    """Beside 216 KiB that live on."""
    other = tk.tile_load(a, shape=(216, 512))
    plain(a, b, acc, row, column, size)
    acc += float(tk.tile_sum(other)[0])
    acc += float(tk.tile_max(other)[0])


def test_a_ring_leaves_room_for_other_tiles() -> None:
    fn, _, storage = lowered(product(crowded))
    (op,) = gemm_loops(fn)
    assert 216 * 512 * 2 < storage.size <= 232448
    (alone,) = gemm_loops(lowered(product(plain))[0])
    assert op.attrs["plan"].ring.stages < alone.attrs["plan"].ring.stages


def test_the_ir_shows_plan_and_loop() -> None:
    text = str(lowered(product(in_elements))[0])
    lines = [line.strip() for line in text.splitlines()]
    (at,) = (number for number, line in enumerate(lines) if "gemm_loop(" in line)
    line, block = lines[at], lines[at + 1 :]
    left, attributes = line.split(" {", 1)
    assert re.fullmatch(
        r"%\d+: tile<32x48xf32>, %\d+: tile<20480xu8> = gemm_loop\(a=%a, b=%b, a_offset=\(%\d+, 0:i32\), "
        r"b_offset=\(0:i32, %\d+\), start=0:i32, stop=%size, step=16:i32, init=%\d+, alpha=0.25:f32\)",
        left,
    )
    assert attributes == (
        "plan=32x48x16, f16 x f16 -> f32: mma (mma.m16n8k16.f32.f16.f16.f32); 1 x 1 warps of 32 x 48, 32 threads; "
        "about 144 registers; 4 stages of 32 along k, 20480 bytes shared, walks=(Walk(across=0, along=1, step=1), "
        "Walk(across=1, along=0, step=1)), joined=True} { (%7: i32, %8: tile<32x48xf32>)"
    )
    assert [re.split(r" = |\(", text)[1] for text in block[:3]] == ["tile_load", "tile_load", "tile_matmul"]
    assert re.fullmatch(r"yield %\d+", block[3])
