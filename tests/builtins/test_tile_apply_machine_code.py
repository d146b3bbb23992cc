"""What kernels of atoms are on the machine: one instruction a repeat, whatever options would have the compiler do."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilekit as tk
from tests.native.mma_source import instructions, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tilekit.runtime.cuda import build, nvrtc

pytestmark = [needs_nvrtc, needs_nvdisasm]

OPTIONS = {
    "own": (),
    "fast_math": ("--use_fast_math",),
    "not_contracted": ("--fmad=false",),
}
FLOATS = re.compile(r"^(?:F|D|H)(?:FMA|MUL|ADD)2?(?:\..*)?$")


def compute(kernel: Any, options: tuple[str, ...], arch: str = "90a") -> list[str]:
    """The sums and products of a kernel of one thread, compiled with other options for floating point than its own."""
    found = tk.compile(kernel, device="cuda", arch=arch, block_dim=1)
    kept = [option for option in build.options_of(found.target, {}) if not option.startswith("--fmad")]
    cubin = nvrtc.compile_cubin(found.source, "kernel", build.headers(), (*kept, *options))
    return [name for name in instructions(cubin.code) if FLOATS.match(name)]


@tk.kernel
def directed(A: tk.array1d[tk.float32]):
    r = tk.tile_load(A, 4)
    tk.tile_apply("fma.rz.f32", r, r, tk.float32(3), tk.float32(1))
    tk.tile_store(A, r)


def of_pairs(dtype: Any, atom: str) -> Any:
    @tk.kernel
    def paired(A: tk.array2d[dtype]):
        r = tk.tile_load(A, (4, 2))
        x = tk.tile_bitcast(r, tk.uint32)
        tk.tile_apply(atom, x, x, tk.pack2(3.0, 5.0, dtype), x)
        tk.tile_store(A, r)

    return paired


@tk.kernel
def of_doubles(A: tk.array1d[tk.float64]):
    r = tk.tile_load(A, 4)
    tk.tile_apply("fma.rp.f64", r, r, r, r)
    tk.tile_store(A, r)


@tk.kernel
def flushing(A: tk.array1d[tk.float32]):
    r = tk.tile_load(A, 4)
    tk.tile_apply("fma.rm.ftz.sat.f32", r, r, r, r)
    tk.tile_store(A, r)


@tk.kernel
def friendly(A: tk.array1d[tk.float32]):
    r = tk.tile_load(A, 4)
    tk.tile_store(A, tk.tile_fma(r, 3.0, r, rounding="rp"))


@tk.kernel
def of_numbers(A: tk.array1d[tk.float64]):
    for i in tk.static_range(4):
        A[i] = tk.fma(A[i], A[i], A[4], rounding="rm")


@tk.kernel
def apart(A: tk.array1d[tk.float32]):
    """Two roundings were asked for."""
    r = tk.tile_load(A, 4)
    q = tk.tile_empty(4)
    tk.tile_apply("mul.f32", q, r, r)
    tk.tile_apply("add.f32", q, q, r)
    tk.tile_store(A, q)


EXPECTED = [
    (directed, ["FFMA.RZ"] * 4),
    (of_pairs(tk.float16, "fma.rn.f16x2"), ["HFMA2"] * 4),
    (of_pairs(tk.bfloat16, "fma.rn.bf16x2"), ["HFMA2.BF16_V2"] * 4),
    (of_doubles, ["DFMA.RP"] * 4),
    (flushing, ["FFMA.FTZ.RM.SAT"] * 4),
    (friendly, ["FFMA.RP"] * 4),
    (of_numbers, ["DFMA.RM"] * 4),
    (apart, ["FADD"] * 4 + ["FMUL"] * 4),
]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("kernel", "expected"), EXPECTED, ids=lambda value: getattr(value, "key", "").split(".")[-1])
def test_each_repeat_is_its_instruction(kernel: Any, expected: list[str], options: tuple[str, ...]) -> None:
    # Which of two units of a half-precision instruction runs it is the assembler's choice.
    assert sorted(name.replace(".MMA", "") for name in compute(kernel, options)) == expected


def test_the_options_do_change_what_is_no_atom() -> None:
    """Else the test above would show nothing."""

    @tk.kernel
    def written_out(A: tk.array1d[tk.float32]):
        tk.tile_store(A, 3.0 * tk.tile_load(A, 4))

    assert compute(written_out, OPTIONS["own"]) == ["FMUL"] * 4
    assert compute(written_out, OPTIONS["fast_math"]) == ["FMUL.FTZ"] * 4
