"""On a GPU only: arrays beyond 2 GiB, updates from many threads at once, and blocks of every size."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.native.cuda_driver import SHARED, THREADS, checked
from tilekit.codegen.layouts.cores import in_turn

pytestmark = pytest.mark.gpu
GIB = 1 << 30


def test_spans_beyond_32_bits(build: Any) -> None:
    code = """
    #include "registers.h"
    #include "tile.h"
    using namespace tk;
    TK_API void run(u8* memory, i64 row, i64 last, u8* tile)
    {
        const Array<u8, 2> a = {memory + (row < 0 ? -row : 0), {2, last + 32}, {row, 1}};
        const BlockTeam<96> team;
        load<u8, 2, 32>(team, tile, a, {0, last});
        team.sync();
        store<u8, 2, 32>(team, tile, a, {0, last - 64});
        typedef LAYOUT L;
        u8 r[L::registers];
        load_registers<L, 1, 16, false, L::registers, 2, 32>(team.rank(), r, a, {0, last});
        store_registers<L, 1, 16, false, 2, 32>(team.rank(), r, a, {0, last - 128});
    }
    """.replace("LAYOUT", in_turn((2, 32), 96, 16).cpp)
    library = build(code, "cuda")
    memory = int(checked(library.driver.cuMemAlloc(7 * GIB)))
    try:
        for row in (3 * GIB, -3 * GIB, 3 * GIB + 1):  # the last is no multiple of 16
            last = 3 * GIB - 64
            checked(library.driver.cuMemsetD8(memory, 7, 7 * GIB))
            starts = [memory + (row if row > 0 else 0) * i + (-row * (1 - i) if row < 0 else 0) + last for i in (0, 1)]
            values = np.random.default_rng(0).integers(8, 255, (2, 32)).astype(np.uint8)
            for start, part in zip(starts, values, strict=True):
                checked(library.driver.cuMemcpyHtoD(start, part.ctypes.data, 32))
            tile = np.zeros((2, 32), np.uint8)
            library.run(memory, row, last, tile)
            np.testing.assert_array_equal(tile, values)
            for start, part in zip(starts, values, strict=True):
                found = np.empty(160, np.uint8)
                checked(library.driver.cuMemcpyDtoH(found.ctypes.data, start - 128, 160))
                want = np.full(160, 7, np.uint8)
                want[0:32] = want[64:96] = want[128:] = part
                np.testing.assert_array_equal(found, want)
    finally:
        checked(library.driver.cuMemFree(memory))


KINDS = {"u8": "u1", "i16": "i2", "i32": "i4", "u64": "u8", "f16": "f2", "bf16": ml_dtypes.bfloat16, "f32": "f4"}


@pytest.mark.parametrize("kind", [*KINDS, "f64"])
def test_no_update_of_many_threads_is_lost(kind: str, build: Any) -> None:
    dtype = np.dtype({**KINDS, "f64": "f8"}[kind])
    code = f"""
    #include "atomic.h"
    using namespace tk;
    TK_API void run({kind}* p, {kind}* order)
    {{
        const {kind} one = cast<{kind}>(1), mine = cast<{kind}>((i32)(blockIdx.x * {THREADS} + threadIdx.x) % 120);
        atomic_add(p, one);
        atomic_max(p + 1, mine);
        atomic_min(p + 2, mine);
        atomic_exch(p + 3, mine);
        {kind} old = order[0];
        for (;;) {{  // a counter by compare and swap
            const {kind} seen = atomic_cas(order, old, add(old, one));
            if (bit_cast<word_t<{kind}>>(seen) == bit_cast<word_t<{kind}>>(old)) break;
            old = seen;
        }}
    }}
    """
    blocks = 2 if dtype.itemsize < 4 else 50  # bfloat16 counts to 256
    cells, order = np.array([0, -1 if dtype.kind != "u" else 0, 119, 119]).astype(dtype), np.zeros(4, dtype)
    build(code, "cuda").run(cells, order, blocks=blocks)
    count = np.array([blocks * THREADS]).astype(dtype)[0]
    assert (cells[0], order[0]) == (count, count)
    assert (cells[1], cells[2]) == (119, 0)
    assert 0 <= cells[3] < 120


DIMS = [(1, 5), (3, 40), (33, 17), (64, 64), (5, 300)]


@pytest.mark.parametrize("threads", [1, 7, 32, 64, 100, 1024])
def test_reductions_have_the_bits_of_the_cpu_in_blocks_of_any_size(
    threads: int, compilers: dict[str, list[str]], build: Any, call: Any
) -> None:
    code = '#include "reduce.h"\nusing namespace tk;\n' + SHARED
    for m, n in DIMS:
        for op in ("Sum", "Max"):
            types, team = f"f32, f32, {op}, {m}, {n}", "Team()" if threads % 32 else f"BlockTeam<{threads}>()"
            code += f"TK_API void all_{op}_{m}x{n}(const f32* x, f32* y) {{ SHARED f32 scratch[kLanes]; "
            code += f"y[{team}.rank()] = reduce_all<{types}>({team}, x, {{{n}, 1}}, {op}(), scratch); }}\n"
            for axis, into in ((0, "0, 1"), (1, "1, 0")):
                code += f"TK_API void axis{axis}_{op}_{m}x{n}(const f32* x, f32* y) {{ reduce_axis<{axis}, f32, f32, "
                code += f"{types[5:]}>({team}, y, {{{into}}}, x, {{{n}, 1}}, {op}()); }}\n"
    cuda, cpu = build(code, "cuda"), build(code, next(iter(compilers)))
    for m, n in DIMS:
        x = (np.random.default_rng(m).standard_normal((m, n)) * 100).astype("f4")
        for name in (f"{how}_{op}_{m}x{n}" for how in ("all", "axis0", "axis1") for op in ("Sum", "Max")):
            size = threads if name.startswith("all") else n if name.startswith("axis0") else m
            got, want = np.zeros(size, "f4"), np.zeros(size, "f4")
            cuda[name](x, got, threads=threads)
            call(cpu[name], x, want)
            if name.startswith("all"):
                want[:] = want[0]
            assert got.tobytes() == want.tobytes(), name


@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_products_have_the_bits_of_the_definition_in_blocks_of_any_size(threads: int, build: Any) -> None:
    shapes = [(16, 16, 16), (64, 64, 32), (128, 96, 8), (33, 50, 7), (1, 40, 64)]
    code = '#include "gemm.h"\nusing namespace tk;\n'
    for m, n, k in shapes:
        operands = f"operand<{k}, 1>(a), operand<{n}, 1>(b), operand<{n}, 1>(c), operand<{n}, 1>(c)"
        for name in ("gemm", "gemm_plain"):
            code += f"TK_API void {name}_{m}x{n}x{k}(const f16* a, const f32* b, f32* c) {{ "
            code += f"{name}<{m}, {n}, {k}, f32>(BlockTeam<{threads}>(), {operands}, 0.5f, 2.0f); }}\n"
    library = build(code, "cuda")
    for m, n, k in shapes:
        rng = np.random.default_rng(k)
        a, b = rng.standard_normal((m, k)).astype("f2"), rng.standard_normal((k, n)).astype("f4")
        got = rng.standard_normal((m, n)).astype("f4")
        want = got.copy()
        library[f"gemm_{m}x{n}x{k}"](a, b, got, threads=threads)
        library[f"gemm_plain_{m}x{n}x{k}"](a, b, want, threads=threads)
        assert got.tobytes() == want.tobytes(), (m, n, k)
