"""How fast the native headers are on CUDA: ``python -m tests.native.measure_cuda``.

Elementwise kernels and tiles through shared memory against the device's own copy; the scalar product in FLOP/s.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

from tests.native.cuda_driver import CudaFunction, CudaLibrary, checked
from tilekit.codegen.layouts.cores import in_turn

BYTES = 1 << 30
KINDS = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8, "u8": 1}
HEAD = """
#include "gemm.h"
#include "registers.h"
#include "tile.h"
using namespace tk;
extern __shared__ __align__(128) char arena[];
"""


def elementwise(kind: str, threads: int, runs: int, width: int) -> str:
    """Tiles of ``runs`` packs a thread, x * x + 1, one tile a block."""
    size = threads * runs * width
    layout = in_turn((size,), threads, width).cpp
    return f"""
TK_API void __launch_bounds__({threads}) each_{kind}_{threads}_{runs}_{width}({kind}* x, {kind}* y, i64 n)
{{
    const Array<{kind}, 1> a = {{x, {{n}}, {{sizeof({kind})}}}}, b = {{y, {{n}}, {{sizeof({kind})}}}};
    const i64 at[] = {{(i64)blockIdx.x * {size}}};
    typedef {layout} L;
    {kind} r[L::registers];
    load_registers<L, 0, {width}, false, L::registers, {size}>((int)threadIdx.x, r, a, at);
    for (int i = 0; i < {runs * width}; ++i) r[i] = add(mul(r[i], r[i]), cast<{kind}>(1));
    store_registers<L, 0, {width}, false, {size}>((int)threadIdx.x, r, b, at);
}}
"""


def through_tile(name: str, kind: str, threads: int, strides: tuple[str, str]) -> str:
    """64 x 64 tiles of a square array, through shared memory, from an array with these strides in elements."""
    steps = ", ".join(f"({s}) * (i64)sizeof({kind})" for s in strides)
    return f"""
TK_API void __launch_bounds__({threads}) tile_{name}_{kind}_{threads}({kind}* x, {kind}* y, i64 side)
{{
    const BlockTeam<{threads}> team;
    const i64 n = side / 64, at[] = {{blockIdx.x / n * 64, blockIdx.x % n * 64}};
    const Array<{kind}, 2> a = {{x, {{side, side}}, {{{steps}}}}};
    const Array<{kind}, 2> b = {{y, {{side, side}}, {{side * (i64)sizeof({kind}), sizeof({kind})}}}};
    load<{kind}, 64, 64>(team, ({kind}*)arena, a, at);
    team.sync();
    store<{kind}, 64, 64>(team, ({kind}*)arena, b, at);
}}
"""


def product(name: str, kind: str, acc: str, shape: tuple[int, int, int], threads: int, turned: bool) -> str:
    """Products of tiles that stay in shared memory, 256 a block."""
    (m, n, k), size = shape, {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}[kind]
    b = f"1, {k}" if turned else f"{n}, 1"
    operands = f"operand<{k}, 1>(a), operand<{b}>(a + {m * k}), operand<{n}, 1>(c), operand<{n}, 1>(c)"
    return f"""
TK_API void __launch_bounds__({threads}) {name}({acc}* out)
{{
    const BlockTeam<{threads}> team;
    {kind}* const a = ({kind}*)arena;
    {acc}* const c = ({acc}*)(arena + {(m + n) * k * size});
    for (int e = team.rank(); e < {(m + n) * k}; e += {threads}) a[e] = cast<{kind}>(e % 7);
    for (int e = team.rank(); e < {m * n}; e += {threads}) c[e] = 0;
    team.sync();
    for (int turn = 0; turn < 256; ++turn) {{
        gemm<{m}, {n}, {k}, {acc}>(team, {operands}, ({acc})1, ({acc})1);
        team.sync();
    }}
    out[blockIdx.x * {threads} + team.rank()] = c[team.rank() % {m * n}];
}}
"""


class Timer:
    """Runs things on the device and says how long they take."""

    def __init__(self, library: CudaLibrary) -> None:
        self.driver = library.driver
        self.events = [checked(self.driver.cuEventCreate(0)) for _ in range(2)]

    def seconds(self, run: Callable[[], Any], times: int = 10) -> float:
        run()
        best = float("inf")
        for _ in range(3):
            checked(self.driver.cuEventRecord(self.events[0], 0))
            for _ in range(times):
                run()
            checked(self.driver.cuEventRecord(self.events[1], 0))
            checked(self.driver.cuEventSynchronize(self.events[1]))
            best = min(best, checked(self.driver.cuEventElapsedTime(*self.events)) / 1e3 / times)
        return best

    def launch(self, function: CudaFunction, blocks: int, threads: int, shared: int, *args: int) -> None:
        kinds = tuple(ctypes.c_longlong for _ in args)
        if shared > 48 << 10:
            limit = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(self.driver.cuFuncSetAttribute(function.kernel, limit, shared))
        checked(self.driver.cuLaunchKernel(function.kernel, blocks, 1, 1, threads, 1, 1, shared, 0, (args, kinds), 0))


def measure_moves() -> None:
    shapes = [(256, 1), (256, 4), (128, 8)]
    widths = {kind: 16 // size for kind, size in KINDS.items()}
    code = HEAD + "".join(
        elementwise(kind, threads, runs, widths[kind]) for kind, (threads, runs) in itertools.product(KINDS, shapes)
    )
    layouts = {"rows": ("side", "1"), "columns": ("1", "side"), "apart": ("2 * side", "2")}
    code += elementwise("f32", 256, 8, 1)
    code += "".join(
        through_tile(name, kind, threads, strides)
        for (name, strides), kind, threads in itertools.product(layouts.items(), ("f32", "f16"), (128, 256))
    )
    library = CudaLibrary(code)
    timer, driver = Timer(library), library.driver
    x, y = (int(checked(driver.cuMemAlloc(2 * BYTES))) for _ in range(2))
    checked(driver.cuMemsetD8(x, 0, 2 * BYTES))
    copy = 2 * BYTES / timer.seconds(lambda: driver.cuMemcpyDtoDAsync(y, x, BYTES, 0))
    print(f"device copy {copy / 1e9:.0f} GB/s")

    def show(name: str, blocks: int, threads: int, shared: int, n: int, start: int = x) -> None:
        took = timer.seconds(lambda: timer.launch(library[name], blocks, threads, shared, start, y, n))
        print(f"{name:28} {'misaligned' if start % 16 else '':10} {2 * BYTES / took / copy:.3f} of the copy")

    for kind, (threads, runs) in itertools.product(KINDS, shapes):
        size, count = threads * runs * widths[kind], BYTES // KINDS[kind]
        show(f"each_{kind}_{threads}_{runs}_{widths[kind]}", count // size, threads, 0, count)
    for width, offset in ((1, 0), (1, 4), (4, 4)):
        runs = 8 // width * (1 if width == 1 else 2)
        name = f"each_f32_256_{runs}_{width}"
        show(name, BYTES // 4 // (256 * runs * width), 256, 0, BYTES // 4, x + offset)
    for name, kind, threads in itertools.product(layouts, ("f32", "f16"), (128, 256)):
        side = int((BYTES // KINDS[kind]) ** 0.5) // 64 * 64
        show(f"tile_{name}_{kind}_{threads}", (side // 64) ** 2, threads, 4096 * KINDS[kind], side)
    for memory in (x, y):
        checked(driver.cuMemFree(memory))


def measure_products() -> None:
    cases = {}
    shapes = [((64, 64, 64), 128), ((64, 64, 64), 256), ((128, 128, 32), 256), ((32, 32, 32), 64), ((16, 16, 16), 32)]
    for (kind, acc), (shape, threads) in itertools.product(
        (("f32", "f32"), ("f16", "f32"), ("bf16", "f32"), ("f64", "f64")), shapes
    ):
        cases[f"{kind}_{'x'.join(map(str, shape))}_{threads}"] = (kind, acc, shape, threads, False)
    cases["f32_turned_64x64x64_256"] = ("f32", "f32", (64, 64, 64), 256, True)
    library = CudaLibrary(HEAD + "".join(product(name, *case) for name, case in cases.items()))
    timer, driver = Timer(library), library.driver
    out = int(checked(driver.cuMemAlloc(1 << 26)))
    size = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
    for name, (kind, acc, (m, n, k), threads, _) in cases.items():
        shared = (m + n) * k * size[kind] + m * n * size[acc]
        blocks = 132 * 16
        took = timer.seconds(lambda: timer.launch(library[name], blocks, threads, shared, out), 3)  # noqa: B023
        print(f"product {name:28} {blocks * 256 * 2 * m * n * k / took / 1e12:.1f} TFLOP/s")
    checked(driver.cuMemFree(out))


if __name__ == "__main__":
    measure_moves()
    measure_products()
