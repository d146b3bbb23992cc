"""Kernels linked with real units of cuBLASDx: tensor cores are used, sums stay in registers. No GPU is needed.

MathDx is proprietary, so the extra ``test`` does not bring it: these run where it is installed.
"""

from __future__ import annotations

from typing import Any

import pytest

import tilekit as tk
from tests.codegen.loops import Tile, product
from tests.native.mma_source import counted, instructions, main_loop, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tilekit.codegen.gemm.units import Unit
from tilekit.runtime.compiled import Compiled
from tilekit.runtime.cuda import build, link, nvrtc
from tilekit.runtime.mathdx import providers
from tilekit.runtime.mathdx.units import make_units
from tilekit.runtime.program import compile_kernel

needs_mathdx = pytest.mark.skipif(bool(providers.why_missing()), reason=f"needs MathDx: {providers.why_missing()}")
pytestmark = [needs_nvrtc, needs_nvdisasm, needs_mathdx]


def viewed(tile: Tile, dtype: Any) -> tk.Kernel:
    """Parts of tiles in shared memory, which lie as they do."""
    m, n, k = tile
    total = tk.float64 if dtype is tk.float64 else tk.float32

    @tk.kernel
    def gemm(a: tk.array2d[dtype], b: tk.array2d[dtype], c: tk.array2d[total], steps: int):
        acc = tk.tile_zeros(shape=(m, n), dtype=total)
        for s in range(steps):
            x = tk.tile_load(a, shape=(m, 2 * k), offset=(0, s * k))
            y = tk.tile_load(b, shape=(2 * n, k), offset=(0, s * k))
            left = tk.tile_view(x, offset=(0, k), shape=(m, k))
            tk.tile_matmul(left, tk.tile_transpose(tk.tile_view(y, offset=(n, 0), shape=(n, k))), acc)
        tk.tile_store(c, acc)

    return gemm


def compiled(kernel: tk.Kernel, arch: str) -> Compiled:
    with tk.config.scoped(gemm="cublasdx", require_gemm="cublasdx"):
        return compile_kernel(kernel, device="cuda", arch=arch, block_dim=64)


def check(found: Compiled, opcode: str) -> None:
    assert [plan.backend for plan in found.plans] == ["cublasdx"]
    assert (found.local_bytes, found.spilled_bytes) == (0, 0) and 0 < found.registers <= 255
    ops = instructions(found.cubin)
    loop = main_loop(ops, opcode)
    assert sum(op.startswith(opcode) for op in loop) >= 4
    assert not {"STL", "LDL"} & counted(ops).keys()
    assert "CALL" not in counted(loop)  # a division of the block's number before it calls
    plan = found.plans[0]
    rounded = plan.unit.precision == "TF32"  # in the ring
    assert plan.ring is None or rounded or "STS" not in counted(ops)


def test_a_loop_reaches_the_tensor_cores() -> None:
    check(compiled(product((64, 64, 32), tk.float16), "90a"), "HMMA.16816.F32")


def test_turing_is_served() -> None:
    """It has no asynchronous copies: threads fill the ring, in which factors lie as its tensor cores want them."""
    found = compiled(product((64, 64, 32), tk.float16), "75")
    assert found.plans[0].backend == "cublasdx" and (found.local_bytes, found.spilled_bytes) == (0, 0)
    loop = main_loop(instructions(found.cubin), "HMMA.1688.F32")
    assert sum(op.startswith("HMMA.1688.F32") for op in loop) >= 32


KINDS = {
    (tk.float16, "default"): "HMMA.16816.F32",
    (tk.bfloat16, "default"): "HMMA.16816.F32.BF16",
    (tk.float32, "tf32"): "HMMA.1688.F32.TF32",
    (tk.float32, "default"): "FFMA",
    (tk.float64, "default"): "DMMA",
}


@pytest.mark.deep
@pytest.mark.parametrize("order", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("arch", ["80", "86", "89", "90a", "100", "120"])
@pytest.mark.parametrize(("dtype", "precision"), KINDS, ids=str)
def test_every_kind_in_every_order(dtype: Any, precision: str, arch: str, order: str) -> None:
    opcode = KINDS[dtype, precision]
    if opcode == "DMMA" and arch in ("86", "89", "120"):  # which have no tensor cores for float64
        opcode = "D"
    check(
        compiled(product((64, 64, 32 if dtype.itemsize == 2 else 16), dtype, None, precision, order=order), arch),
        opcode,
    )


ITEMSIZE = {"F16": 2, "BF16": 2, "TF32": 4, "F32": 4, "F64": 8}


def places_kernel(unit: Unit, shift: int) -> str:
    """A kernel that stores something unless 16 bytes of a row stay together, aligned and inside the factor."""
    per, name, found = 16 // ITEMSIZE[unit.precision], unit.name, []
    for letter, extents, row in (("a", (unit.m, unit.k), unit.rows[0]), ("b", (unit.k, unit.n), unit.rows[1])):
        rows, cols = extents if row else extents[::-1]
        at, first = (
            f"{name}::place_{letter}({x if row else y}, {y if row else x})" for x, y in (("i", "j"), ("i", "f"))
        )
        found.append(f"""
    TK_UNROLL
    for (int i = 0; i < {rows}; ++i) {{
        TK_UNROLL
        for (int j = 0; j < {cols}; ++j) {{
            const int f = j / {per} * {per};
            bad |= {at} != {first} + j - f + {shift} || {first} % {per} != 0 || {at} >= {rows * cols};
        }}
    }}""")
    body = f"    bool bad = false;{''.join(found)}\n    if (bad) *out = 1;\n"
    return f'#include "mathdx.h"\nTK_GEMM_UNIT({name})\nextern "C" __global__ void check(int* out)\n{{\n{body}}}\n'


TURING = [(tk.float16, "default"), (tk.float32, "default"), (tk.float64, "default")]
"""What cuBLASDx multiplies on sm_75."""
WHOLE = [(*kind, arch) for arch in ("80", "90a") for kind in KINDS] + [(*kind, "75") for kind in TURING]


@pytest.mark.deep
@pytest.mark.parametrize("order", ["NN", "TN"])
@pytest.mark.parametrize(("dtype", "precision", "arch"), WHOLE, ids=str)
def test_packs_of_a_row_stay_whole(dtype: Any, precision: str, order: str, arch: str) -> None:
    """What asynchronous copies rely on. Linked, the answer is a constant, so that no GPU is needed to know it."""
    found = compiled(product((64, 64, 32 if dtype.itemsize == 2 else 16), dtype, None, precision, order=order), arch)
    (ready,) = make_units(found.generated.units)
    given = build.options_of(found.target, {})
    told = [option for option in given if not option.startswith("--ptxas")] + list(ready.options)
    stores = []
    for shift in (0, 1):
        code = nvrtc.compile_for_linking(places_kernel(ready.unit, shift), "check", build.headers(), told)
        cubin = link.link({"check": code, ready.unit.name: ready.code}, "check", link.options_of(given))
        stores.append(counted(instructions(cubin.code))["STG"])
    assert stores == [0, 1]


@pytest.mark.deep
@pytest.mark.parametrize("arch", ["75", "90a"])
@pytest.mark.parametrize("dtype", [tk.float16, tk.float32, tk.float64], ids=str)
def test_parts_of_tiles_in_memory(dtype: Any, arch: str) -> None:
    found = compiled(viewed((32, 32, 32), dtype), arch)
    assert found.plans[0].unit.leading == (64, 32) and found.local_bytes == 0


@pytest.mark.deep
@pytest.mark.parametrize("tile", [(128, 128, 32), (128, 64, 64), (48, 40, 24), (16, 8, 8), (1, 1, 1)], ids=str)
def test_sizes(tile: Tile) -> None:
    found = compiled(product(tile, tk.float16), "90a")
    assert found.plans[0].backend == "cublasdx" and found.local_bytes == 0
