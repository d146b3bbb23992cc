"""The CUDA code of products: sums stay in registers from zeros to the store, and tensor cores multiply."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import tilekit as tk
from tests.codegen.loops import product
from tests.native.mma_source import counted, instructions, main_loop, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tilekit.runtime.compiled import Compiled
from tilekit.runtime.program import compile_kernel
from tilekit.runtime.spec import dense_class


def compiled(*given: Any, arch: str = "90a", **more: Any) -> Compiled:
    return compile_kernel(product(*given, **more), device="cuda", arch=arch)


def test_a_loop_is_zeros_a_ring_and_a_store() -> None:
    source = compiled((128, 128, 32), tk.float16, tk.float32).source
    body = source[source.index("TK_FN bool run_block") : source.index("return true;")]
    assert re.findall(r"tk::(multiply_ring|store_registers|load|gemm|store)<", body) == [
        "multiply_ring",
        "store_registers",
    ]
    assert "store_registers<L0, 1, 2, true, 128, 128>" in body  # two neighbours at once
    assert "tk::f32 r0[128];" in body
    assert "for (tk::i32" not in body  # the loop is in the ring


KINDS = [
    (tk.float16, tk.float16, "default", "HMMA.16816.F32", (128, 128, 32)),
    (tk.bfloat16, tk.float32, "default", "HMMA.16816.F32.BF16", (128, 128, 32)),
    (tk.float32, tk.float32, "tf32", "HMMA.1688.F32.TF32", (128, 128, 16)),
    (tk.float64, tk.float64, "default", "DMMA", (64, 64, 16)),
    (tk.float32, tk.float32, "default", "FFMA", (128, 128, 16)),
]


def scaled(t: Any) -> Any:
    return tk.tile_map(lambda x: tk.max(x * 0.5 + 1.0, 0.0), t)


ARCHITECTURES = [
    pytest.param(arch, marks=[] if arch in ("80", "90") else pytest.mark.deep)
    for arch in ("80", "86", "89", "90", "100", "120")
]


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("dtype", "out", "precision", "opcode", "tile"), KINDS, ids=str)
def test_the_loop_multiplies_in_registers(
    dtype: Any, out: Any, precision: str, opcode: str, tile: tuple[int, int, int], arch: str
) -> None:
    found = compiled(tile, dtype, out, precision, scaled, arch=arch)
    assert (found.plans[0].backend, found.spilled_bytes, found.local_bytes) == ("mma", 0, 0)
    assert found.shared_bytes == found.plans[0].shared
    ops = instructions(found.cubin)
    loop = main_loop(ops, opcode)
    assert sum(op.startswith(opcode) for op in loop) >= 16
    assert counted(loop)["LDGSTS"], "copies are not asynchronous"
    assert not {"STL", "LDL", "STS", "STG"} & counted(loop).keys(), "sums leave the registers"
    assert not {"STL", "LDL", "STS"} & counted(ops).keys()  # nor does the epilogue go through shared memory


TURING = [
    (tk.float16, "HMMA.1688.F32", "NN", (128, 128, 32)),
    (tk.float16, "HMMA.1688.F32", "TT", (128, 128, 32)),
    (tk.float32, "FFMA", "NN", (128, 128, 16)),
    (tk.bfloat16, "FFMA", "NT", (64, 64, 32)),
    (tk.bfloat16, "FFMA", "NT", (128, 128, 32)),
]


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(("dtype", "opcode", "order", "tile"), TURING, ids=str)
def test_turing_fills_the_ring_by_hand_and_keeps_sums_in_registers(
    dtype: Any, opcode: str, order: str, tile: tuple[int, int, int]
) -> None:
    found = compiled(tile, dtype, tk.float32, "default", scaled, order, arch="75")
    assert (found.plans[0].backend, found.spilled_bytes, found.local_bytes) == ("mma", 0, 0)
    loop = main_loop(instructions(found.cubin), opcode)
    assert sum(op.startswith(opcode) for op in loop) >= 64
    assert any(op.startswith("LDG.E.128") for op in loop) and counted(loop)["STS"]
    assert not {"STL", "LDL", "STG", "LDGSTS"} & counted(loop).keys()


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(
    ("dtype", "opcode", "tile", "most"),
    [(tk.float32, "FFMA", (128, 128, 32), 0.12), (tk.float64, "DMMA", (128, 128, 32), 7.0)],
    ids=str,
)
def test_a_whole_step_is_hardly_more_than_its_products(
    dtype: Any, opcode: str, tile: tuple[int, int, int], most: float
) -> None:
    """It was 0.17 and 11 while each load computed its address, and each copy looked at its unit."""
    ops = instructions(compiled(tile, dtype, dtype).cubin)
    inner = innermost_loop(ops, opcode)
    start = len(inner) if opcode == "FFMA" else len(inner) - ragged_part(inner)
    count = sum(op.startswith(opcode) for op in inner)
    assert (start - count) / count <= most


def innermost_loop(ops: list[str], opcode: str) -> list[str]:
    """The shortest loop that holds a kind of instructions."""
    jumps = [(int(op.split()[1]), i) for i, op in enumerate(ops) if op.startswith("BRA ")]
    loops = [ops[start:end] for start, end in jumps if start < end]
    return min((loop for loop in loops if any(op.startswith(opcode) for op in loop)), key=len)


def ragged_part(loop: list[str]) -> int:
    """How many instructions copy a step that lies over the edge of an array, where each unit is looked at."""
    edges = [i for i, op in enumerate(loop) if op.startswith("LDGSTS") and op.endswith("ZFILL")]
    return edges[-1] - edges[0] if edges else 0


@tk.kernel
def added(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], d: tk.array2d[float], c: tk.array2d[float], n: int):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(64, 64), dtype=float)
    for s in range(n):
        x = tk.tile_load(a, shape=(64, 32), offset=(i * 64, s * 32))
        tk.tile_matmul(x, tk.tile_load(b, shape=(32, 64), offset=(s * 32, j * 64)), acc)
    bias = tk.tile_load(d, shape=(64, 64), offset=(i * 64, j * 64))
    tk.tile_store(c, acc + bias, offset=(i * 64, j * 64))


@tk.kernel
def overwritten(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], c: tk.array2d[float], n: int):
    i, j = tk.tid()
    bias = tk.tile_load(c, shape=(64, 64), offset=(i * 64, j * 64))
    tk.tile_store(c, tk.tile_zeros(shape=(64, 64), dtype=float), offset=(i * 64, j * 64))
    acc = tk.tile_zeros(shape=(64, 64), dtype=float)
    for s in range(n):
        x = tk.tile_load(a, shape=(64, 32), offset=(i * 64, s * 32))
        tk.tile_matmul(x, tk.tile_load(b, shape=(32, 64), offset=(s * 32, j * 64)), acc)
    tk.tile_store(c, acc + bias, offset=(i * 64, j * 64))


@pytest.mark.parametrize(("kernel", "deferred"), [(added, True), (overwritten, False)], ids=["added", "overwritten"])
def test_a_tile_that_is_added_is_read_where_it_is_used(kernel: tk.Kernel, deferred: bool) -> None:
    source = compile_kernel(kernel, device="cuda", arch="90a").source
    counts = re.findall(r"tk::load_registers<L\d, 1, 2, true, (\d+), 64, 64>", source)
    assert counts == (["16", "16"] if deferred else ["64"])  # the first registers, then in a loop the next ones


MIXED = [
    (tk.float16, tk.bfloat16, (128, 128, 32)),
    (tk.bfloat16, tk.float16, (64, 64, 32)),
    (tk.float32, tk.float16, (128, 128, 32)),
    (tk.float16, tk.float32, (128, 128, 32)),
    (tk.float32, tk.float64, (128, 128, 16)),
]


def mixed(first: Any, second: Any, tile: tuple[int, int, int], with_added: bool = False) -> tk.Kernel:
    m, n, k = tile
    total = tk.float64 if tk.float64 in (first, second) else tk.float32

    @tk.kernel
    def gemm(a: tk.array2d[first], b: tk.array2d[second], d: tk.array2d[float], c: tk.array2d[total], steps: int):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(m, n), dtype=total)
        for s in range(steps):
            x = tk.tile_load(a, shape=(m, k), offset=(i * m, s * k))
            tk.tile_matmul(x, tk.tile_load(b, shape=(k, n), offset=(s * k, j * n)), acc)
        if with_added:
            acc = acc + tk.tile_load(d, shape=(m, n), offset=(i * m, j * n))
        tk.tile_store(c, acc, offset=(i * m, j * n))

    return gemm


@needs_nvrtc
@pytest.mark.parametrize(("first", "second", "tile"), MIXED, ids=str)
def test_factors_of_two_dtypes_fit_the_registers(first: Any, second: Any, tile: tuple[int, int, int]) -> None:
    found = compile_kernel(mixed(first, second, tile), device="cuda", arch="90a")
    assert (found.plans[0].backend, found.local_bytes) == ("mma", 0)


@needs_nvrtc
@pytest.mark.parametrize("dtype", [tk.float16, tk.float32], ids=str)
@pytest.mark.parametrize("tile", [(64, 64, 32), (128, 128, 32)], ids=str)
def test_an_added_tile_fits_the_registers(dtype: Any, tile: tuple[int, int, int]) -> None:
    assert compile_kernel(mixed(dtype, dtype, tile, True), device="cuda", arch="90a").local_bytes == 0


@needs_nvrtc
def test_a_tile_that_is_read_before_the_loop_fits_the_registers() -> None:
    assert compile_kernel(overwritten, device="cuda", arch="90a").local_bytes == 0


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(("dtype", "words"), [(tk.float16, 2), (tk.float32, 4)], ids=str)
def test_neighbours_of_a_column_are_stored_together(dtype: Any, words: int) -> None:
    arrays = {name: dense_class(2) for name in "ab"} | {"c": replace(dense_class(2), unit_axis=0)}
    gemm = product((64, 64, 32), dtype, tk.float32)
    found = compile_kernel(gemm, device="cuda", arch="90a", arrays=arrays)
    assert ("tk::swap_bits<0, 2>" in found.source) == (words == 2)
    assert re.search(rf"tk::store_registers<.*, 0, {words}, true, 64, 64>\(", found.source)
    assert any(op.startswith(f"STG.E.{words * 32}") for op in instructions(found.cubin))


def test_an_attention_multiplies_what_it_has_computed() -> None:
    @tk.kernel
    def attention(q: tk.array2d[tk.float16], k: tk.array2d[tk.float16], v: tk.array2d[tk.float16], n: int):
        x = tk.tile_load(q, shape=(32, 64))
        acc = tk.tile_zeros(shape=(32, 64), dtype=float)
        for s in range(n):
            y = tk.tile_load(k, shape=(48, 64), offset=(s * 48, 0))
            p = tk.tile_map(lambda t: t * 0.125, tk.tile_matmul(x, y.T))
            tk.tile_matmul(p, tk.tile_load(v, shape=(48, 64), offset=(s * 48, 0)), acc)
        tk.tile_store(q, tk.tile_astype(acc, tk.float16))

    found = compile_kernel(attention, device="cuda", arch="90a")
    assert [plan.backend for plan in found.plans] == ["mma", "mma"]
    assert found.source.count("tk::multiply<tk::Tensor16<tk::f16>") == 2
    assert "tk::gemm<" not in found.source
