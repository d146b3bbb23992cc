"""What NVRTC makes of the headers, where it is installed: code for every architecture, and what that code holds."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tilekit as tk
from tests.native.cuda_driver import compile_cubin
from tests.quick_nvrtc import compile_quickly
from tilekit.codegen.layouts.cores import in_turn
from tilekit.codegen.target import Target
from tilekit.runtime.cuda import build, nvrtc

pytestmark = pytest.mark.skipif(
    not (importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bindings")), reason="needs NVRTC"
)
ARCHS = ("75", "80", "90a", "100", "120")
WIDTHS = {"f64": 2, "f32": 4, "i32": 4, "bf16": 8, "f16": 8, "i16": 8, "u8": 16}

HEAD = """
#include "math.h"
#include "gemm.h"
#include "mailbox.h"
#include "reduce.h"
#include "registers.h"
#include "tile_atomic.h"
using namespace tk;
extern __shared__ __align__(128) char arena[];
template <class T, int ND> struct Two { Array<T, ND> a, b; };
"""
EVERYTHING = """
struct Both : Two<f16, 2> { Launch launch; };
TK_API void __launch_bounds__(128) everything(const __grid_constant__ Both p)
{
    const Launch& launch = p.launch;
    const BlockTeam<128> team;
    f16* const tile = (f16*)arena;
    f32* const sums = (f32*)(arena + 8192);
    i32 at[2];
    coordinates<2>(launch, blockIdx.x, at);
    load<f16, 64, 64>(team, tile, p.a, {at[0] * 64, at[1] * 64});
    fill<64 * 64>(team, sums, 1.0f);
    team.sync();
    gemm<64, 64, 64, f32>(team, operand<64, 1>(tile), operand<1, 64>(tile), operand<64, 1>(sums), operand<64, 1>(sums),
                          1.0f, 1.0f);
    team.sync();
    const f32 most = reduce_all<f32, f32, Max, 64, 64>(team, sums, {64, 1}, Max(), (f32*)(arena + 32768));
    reduce_axis<1, f32, f32, f16, Sum, 64, 64>(team, tile, {1, 0}, sums, {64, 1}, Sum());
    team.sync();
    tile_atomic_add<f16, 64, 64>(team, tile, {64, 1}, p.b, {at[0], at[1]});
    store<f16, 64, 64>(team, tile, p.b, {at[0] * 64, at[1] * 64});
    const Piece pieces[] = {{(const char*)at, 8}};
    if (team.rank() == 0) post(launch, 0, blockIdx.x, pieces, 1);
    record(error_of(launch), kValueError, (i32)tk::sin(most), blockIdx.x, 0, 0, 0, 0, 0);
}
"""


def test_what_the_compiler_writes_is_not_shared() -> None:
    """Used to be bytes: where the log was empty, its end went into Python's one object for a space."""
    compile_cubin("", "90")
    assert b" " + bytes(1) == bytes([32, 0])


def moves(kind: str, width: int) -> str:
    """A tile through shared memory, and one through registers."""
    layout = in_turn((64, 64), 128, width).cpp
    return f"""
TK_API void __launch_bounds__(128) tile_{kind}(const __grid_constant__ Two<{kind}, 2> p)
{{
    const BlockTeam<128> team;
    load<{kind}, 64, 64>(team, ({kind}*)arena, p.a, {{(i64)blockIdx.x * 64, 0}});
    team.sync();
    store<{kind}, 64, 64>(team, ({kind}*)arena, p.b, {{(i64)blockIdx.x * 64, 0}});
}}
TK_API void __launch_bounds__(128) registers_{kind}(const __grid_constant__ Two<{kind}, 2> p)
{{
    typedef {layout} L;
    {kind} r[L::registers];
    load_registers<L, 1, {width}, false, L::registers, 64, 64>((int)threadIdx.x, r, p.a, {{(i64)blockIdx.x * 64, 0}});
    for (int i = 0; i < L::registers; ++i) r[i] = add(mul(r[i], r[i]), cast<{kind}>(1));
    store_registers<L, 1, {width}, false, 64, 64>((int)threadIdx.x, r, p.b, {{(i64)blockIdx.x * 64, 0}});
}}
"""


def product(name: str, kinds: tuple[str, str, str], dims: tuple[int, int, int], threads: int) -> str:
    (t, out, acc), (m, n, k) = kinds, dims
    size = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}[t]
    b, c = m * k * size, (m + n) * k * size
    sums = f"operand<{n}, 1>(c), operand<{n}, 1>(c)"
    operands = f"operand<{k}, 1>(({t}*)arena), operand<{n}, 1>(({t}*)(arena + {b})), {sums}"
    return f"""
TK_API void __launch_bounds__({threads}) gemm_{name}({acc} alpha, {acc} beta)
{{
    {out}* const c = ({out}*)(arena + {c});
    gemm<{m}, {n}, {k}, {acc}>(BlockTeam<{threads}>(), {operands}, alpha, beta);
}}
"""


def disassembler() -> str | None:
    found = shutil.which("nvdisasm")
    spec = importlib.util.find_spec("nvidia")
    wheels = (
        [Path(place) / "cu13" / "bin" / "nvdisasm" for place in (spec.submodule_search_locations or ())] if spec else []
    )
    return found or next((str(path) for path in wheels if path.is_file()), None)


@pytest.fixture(scope="module")
def sass(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``sass(source)``: the instructions of every kernel of a source, by name."""
    tool = disassembler()
    if tool is None:
        pytest.skip("needs nvdisasm")

    def read(source: str) -> dict[str, list[str]]:
        path = tmp_path_factory.mktemp("sass") / "code.cubin"
        path.write_bytes(compile_cubin(source, "90a"))
        text = subprocess.run([tool, "-c", str(path)], check=True, capture_output=True, text=True).stdout
        kernels: dict[str, list[str]] = {}
        for line in text.splitlines():
            if start := re.match(r"\.text\.(\w+):", line):
                kernels[start[1]] = []
            if found := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]+)", line):
                kernels[next(reversed(kernels))].append(found[1])
        return kernels

    return read


@pytest.mark.parametrize("arch", ARCHS)
def test_compiles_for_every_architecture(arch: str) -> None:
    assert compile_cubin(HEAD + EVERYTHING, arch).startswith(b"\x7fELF")


@pytest.mark.parametrize(
    "options",
    [{"fast_math": True}, {"lineinfo": True}, {"max_registers": 32}, {"arch": "75"}, {"quick": True}],
    ids=str,
)
def test_no_compile_changes_those_after_it(options: dict[str, Any]) -> None:
    """NVRTC's own ``--Ofast-compile`` does, which is why ``tests.quick_nvrtc`` has a process of its own."""
    source = HEAD + moves("f64", 2)
    before = compile_cubin(source, "90a")
    target = Target("cuda", options.get("arch", "90a"), 32, threads=32)
    registers = {"cuda_max_registers": options["max_registers"]} if "max_registers" in options else {}
    with tk.config.scoped(fast_math="fast_math" in options, lineinfo="lineinfo" in options):
        given = build.options_of(target, registers)
        if "quick" in options:
            compile_quickly([(source, "moves", given)])
        else:
            nvrtc.compile_cubin(source, "moves", build.headers(), given)
    assert compile_cubin(source, "90a") == before


def test_tiles_move_in_packs_without_local_memory(sass: Any) -> None:
    kernels = sass(HEAD + "".join(moves(kind, width) for kind, width in WIDTHS.items()))
    for kind, width in WIDTHS.items():
        packs = 64 * 64 // 128 // width
        for name in (f"tile_{kind}", f"registers_{kind}"):
            code = kernels[name]
            for wide in ("LDG.E.128", "STG.E.128"):
                # Registers: of a tile that lies inside as a whole, and of one that does not.
                assert code.count(wide) == (2 * packs if name.startswith("r") else min(packs, 8)), (name, wide)
            assert not [op for op in code if op.startswith(("LDL", "STL", "LD.", "ST."))], name


def test_packs_are_read_before_the_first_is_used(sass: Any) -> None:
    code = sass(HEAD + moves("f32", 4))["registers_f32"]
    first = code.index("LDG.E.128")
    last = len(code) - 1 - code[::-1].index("LDG.E.128")
    assert not [op for op in code[first:last] if op.startswith(("FADD", "FMUL", "STG"))]


def test_products_keep_their_sums_in_registers(sass: Any) -> None:
    cases = {
        "plain": (("f32", "f32", "f32"), (64, 64, 64), 128),
        "large": (("f32", "f32", "f32"), (128, 128, 32), 256),
        "small": (("f32", "f32", "f32"), (16, 16, 16), 128),
        "half": (("f16", "f32", "f32"), (64, 64, 64), 128),
        "brain": (("bf16", "f32", "f32"), (64, 128, 64), 256),
        "double": (("f64", "f64", "f64"), (64, 64, 32), 256),
        "crowd": (("f32", "f32", "f32"), (128, 128, 32), 1024),
    }
    kernels = sass(HEAD + "".join(product(name, *case) for name, case in cases.items()))
    for name in cases:
        code = kernels[f"gemm_{name}"]
        assert not [op for op in code if op.startswith(("LDL", "STL", "LD.", "ST."))], name
    for name in ("plain", "large"):
        code = kernels[f"gemm_{name}"]
        reads = [op for op in code if op.startswith("LDS")]
        assert set(reads) == {"LDS.128"}
        assert code.count("FFMA") >= 6 * len(reads)
    assert "HADD2.F32" in kernels["gemm_half"]
