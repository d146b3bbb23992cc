"""Kernels around the native products, one for each plan, and what their machine code holds."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.native.cuda_driver import compile_cubin
from tilekit.codegen.gemm.kinds import accumulator
from tilekit.codegen.gemm.plan import Plan, plan
from tilekit.codegen.gemm.product import Factor, Product, Situation, Source
from tilekit.codegen.target import ArrayClass
from tilekit.ir.types import DType
from tilekit.ir.views import ViewMap
from tilekit.runtime.cuda.disassemble import disassemble, find_disassembler


@dataclass(frozen=True)
class Case:
    """A product of tiles in a loop over k, of arrays in row-major (N) or column-major (T) order."""

    a: DType
    b: DType
    m: int
    n: int
    k: int
    precision: str = "default"
    order: str = "NN"
    packed: bool = True
    joined: bool = True
    stages: int | None = None
    threads: int | None = None
    arch: str = "90a"
    in_loop: bool = True
    rounds: bool = False
    """Whether float32 is rounded to tf32 in the ring."""

    @property
    def out(self) -> DType:
        return accumulator(self.a, self.b)

    @property
    def plan(self) -> Plan:
        a, b = (self._factor(*item) for item in ((self.a, self.m, self.k, 0), (self.b, self.k, self.n, 1)))
        product = Product(a, b, self.out, self.precision, self.joined)
        return plan(product, Situation(self.arch, self.threads, gemm="mma", stages=self.stages))

    def _factor(self, dtype: DType, rows: int, cols: int, which: int) -> Factor:
        unit = 1 if self.order[which] == "N" else 0
        if not self.in_loop:
            return Factor(dtype, ViewMap((rows, cols), (cols, 1) if unit else (1, rows)))
        source = Source(ArrayClass(unit, self.packed, (False, False), False), (0, 1), 16)
        return Factor(dtype, ViewMap.identity((rows, cols)), source)


def loop_kernel(case: Case) -> str:
    """A kernel over arrays a, b and c that computes tiles of ``alpha * (a @ b)``, each block one."""
    made = case.plan
    left, right = made.operands
    feeds, ring, out = made.feeds, made.ring, case.out.short
    feeds = [f"{feed[:-1]}, true>" for feed in feeds] if case.rounds else feeds
    assert ring is not None and made.a is not None and made.b is not None
    axes = [(0, 1) if factor.k_major is (k == 1) else (1, 0) for factor, k in ((made.a, 1), (made.b, 0))]
    width = 2 if case.packed and case.n % 2 == 0 else 1
    return f"""#include "mma_loop.h"
#include "registers.h"
using namespace tk;
TK_API void __launch_bounds__({made.threads}) run(const Array<{case.a.short}, 2>* a, const Array<{case.b.short}, 2>* b,
    const Array<{out}, 2>* c, i64 total, double alpha)
{{
    extern __shared__ __align__(128) char arena[];
    typedef {made.warps.layout.cpp} L;
    const BlockTeam<{made.threads}> team;
    const i64 tiles = (c->shape[1] + {case.n - 1}) / {case.n};
    const i64 i = blockIdx.x / tiles * {case.m}, j = blockIdx.x % tiles * {case.n};
    {made.kind}::Sum sums[L::registers] = {{}};
    multiply_ring<{made.kind}, L, {left}, {right}, {ring.k}, {ring.stages}, {str(made.ahead).lower()}>(
        team, sums, arena, {feeds[0]}::over<{axes[0][0]}, {axes[0][1]}>(*a, {{i, 0}}, {ring.k}),
        {feeds[1]}::over<{axes[1][0]}, {axes[1][1]}>(*b, {{0, j}}, {ring.k}), total);
    TK_UNROLL
    for (int r = 0; r < L::registers; ++r) sums[r] = sums[r] * ({out})alpha;
    store_registers<L, 1, {width}, false, {case.m}, {case.n}>(team.rank(), sums, *c, {{i, j}});
}}
"""


def tile_kernel(case: Case) -> str:
    """A kernel of one block that multiplies tiles in shared memory, and moves the sums wherever they can go.

    Its arguments: a, b, c, which is added to, and the result.
    """
    made = case.plan
    left, right = made.operands
    m, n, k, out = case.m, case.n, case.k, case.out.short
    tiles = [f"{{{'tk::shared_address(' if 'Shared' in t else ''}{v}{')' if 'Shared' in t else ''}}}" for t, v in
             ((left, "x"), (right, "y"))]  # fmt: skip
    return f"""#include "mma.h"
#include "registers.h"
using namespace tk;
TK_API void __launch_bounds__({made.threads}) run(const {case.a.short}* a, const {case.b.short}* b,
    const Array<{out}, 2>* c, const Array<{out}, 2>* result)
{{
    typedef {made.warps.layout.cpp} L;
    __shared__ __align__(128) {case.a.short} x[{m * k}];
    __shared__ __align__(128) {case.b.short} y[{n * k}];
    __shared__ {out} z[{m * n}];
    const BlockTeam<{made.threads}> team;
    const int rank = team.rank();
    for (int e = rank; e < {m * k}; e += {made.threads}) x[e] = a[e];
    for (int e = rank; e < {n * k}; e += {made.threads}) y[e] = b[e];
    team.sync();
    {made.kind}::Sum r[L::registers], again[L::registers];
    load_registers<L, 1, 1, true, L::registers, {m}, {n}>(rank, r, *c, {{-1, 0}});
    multiply<{made.kind}, L, {made.depth}>(rank, r, {left}{tiles[0]}, {right}{tiles[1]});
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i)
        if (L::is_held(rank, i))
            z[L::first<0>(rank) + L::further<0>(i) + (L::first<1>(rank) + L::further<1>(i)) * {m}] = r[i];
    team.sync();
    TK_UNROLL
    for (int i = 0; i < L::registers; ++i)
        if (L::is_held(rank, i))
            again[i] = z[L::first<0>(rank) + L::further<0>(i) + (L::first<1>(rank) + L::further<1>(i)) * {m}];
    store_registers<L, 1, 1, true, {m}, {n}>(rank, again, *result, {{-2, 0}});
}}
"""


def cubin(case: Case) -> bytes:
    return compile_cubin(loop_kernel(case), case.arch)


def has_nvdisasm() -> bool:
    command = find_disassembler()
    return command is not None and Path(command[0]).name == "nvdisasm"


needs_nvdisasm = pytest.mark.skipif(not has_nvdisasm(), reason="needs nvdisasm")


def instructions(code: bytes) -> list[str]:
    """The opcodes of a kernel with their modifiers, in order; a ``BRA`` backwards is followed by where it goes.

    A ``CALL`` to a place in the kernel itself is how some loops are left, and becomes a ``BRA``.
    """
    found: list[str] = []
    labels: dict[str, int] = {}
    for line in disassemble(code).splitlines():
        if label := re.match(r"\s*(\.L_\w+):", line):
            labels[label[1]] = len(found)
        elif op := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z0-9_.]+)(.*)", line):
            target = re.search(r"\((\.L_\w+)\)", op[2]) if op[1].startswith(("BRA", "CALL")) else None
            found.append(f"BRA {labels[target[1]]}" if target and target[1] in labels else "BRA" if target else op[1])
    return found


def main_loop(ops: list[str], instruction: str) -> list[str]:
    """The instructions of the outermost loop that holds a kind of them, with parts outside that jump back into it."""
    jumps = sorted((int(op.split()[1]), i) for i, op in enumerate(ops) if op.startswith("BRA ") and op != f"BRA {i}")
    loops: list[tuple[int, int]] = []
    for start, end in jumps:
        if loops and start <= loops[-1][1]:
            loops[-1] = (loops[-1][0], max(end, loops[-1][1]))
        else:
            loops.append((start, end))
    bodies = [ops[start:end] for start, end in loops]
    return max(bodies, key=lambda body: sum(op.startswith(instruction) for op in body), default=[])


def counted(ops: list[str]) -> Counter[str]:
    return Counter(op.split(".")[0] for op in ops)
