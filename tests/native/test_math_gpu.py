"""exp, exp2, log, tanh and erf of GPUs: the largest error over floats, against float64, and what is promised of it.

On a GPU over all floats; on the emulator over some, with the instructions of ``approx.h`` as far off as they may be.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.emulator import Emulated
from tests.native.cuda_driver import HEADERS, CudaLibrary

PROMISED = re.compile(r"^// .* within (\d+) ulp.*\n(?://.*\n)*TK_FN f32 (\w+)\(f32 x\)$", re.MULTILINE)
BOUNDS = {name: int(ulp) for ulp, name in PROMISED.findall((HEADERS / "math_gpu.h").read_text())}
"""The errors that the header states, in units of the last place."""
ROUNDED = 0.51
"""The error of 16-bit floats, whose function is computed in f32 and then rounded."""
FORMATS = {"f32": (23, -126, 128, 32), "f16": (10, -14, 16, 16), "bf16": (7, -126, 128, 16)}
"""Digits after the first, the least and the first too large exponent, and bits."""
WRITTEN = {"sigmoid": ("1.0f / (1.0f + tk::exp(x > -87 ? -x : 87.0f))", "1 / (1 + ::exp(x > -87 ? -x : 87.0))")}
"""What users write, and the same in f64; below -87 the exponential comes to overflow."""

KERNEL = """
TK_FN f64 power(int k) { return bit_cast<f64>((u64)(k + 1023) << 52); }
// How far a result is off, in units of the last place of the exact one; infinite for another sign, or where one is NaN.
TK_FN f32 distance(f64 got, f64 exact)
{
    const f64 top = power(beyond), infinite = bit_cast<f64>(0x7ff0000000000000ull);
    if (got != got || exact != exact) return (got != got) == (exact != exact) ? 0.0f : (f32)infinite;
    if (bit_cast<u64>(got) >> 63 != bit_cast<u64>(exact) >> 63) return (f32)infinite;
    const f64 a = tk::min(tk::abs(got), top), b = tk::min(tk::abs(exact), top);
    const int exponent = (int)(bit_cast<u64>(b) >> 52) - 1023;
    const int last = (exponent < least ? least : exponent < beyond ? exponent : beyond - 1) - digits;
    return (f32)(tk::abs(a - b) / power(last));
}
// worst = the largest error, above the bits of where that is, of `count` floats whose bits are `step` apart.
TK_API void run(u64* worst, u64 count, u64 step)
{
    u64 most = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
        const bits_t<Float> bits = (bits_t<Float>)(i * step);
        const Float x = bit_cast<Float>(bits);
        const f32 off = distance(cast<f64>(found_value(x)), exact_value(cast<f64>(x)));
        const u64 found = (u64)bit_cast<u32>(off) << 32 | bits;
        most = found > most ? found : most;
    }
    atomicMax(worst, most);
}
"""
CALL = """emulator::exp2_off = (int)((i64*)given)[3]; emulator::reciprocal_off = (int)((i64*)given)[4];
run(((u64**)given)[0], ((u64*)given)[1], ((u64*)given)[2]);"""


def source(name: str, kind: str) -> str:
    digits, least, beyond, _ = FORMATS[kind]
    found, exact = WRITTEN.get(name, (f"tk::{name}(x)", f"::{name}(x)"))
    return f"""
#include "math.h"
using namespace tk;
typedef {kind} Float;
constexpr int digits = {digits}, least = {least}, beyond = {beyond};
TK_FN Float found_value(Float x) {{ return {found}; }}
TK_FN f64 exact_value(f64 x) {{ return {exact}; }}
{KERNEL}"""


def error(worst: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The largest error, and the float's bits as float32."""
    high, low = np.uint32(worst[0] >> np.uint64(32)), np.uint32(worst[0] & np.uint64(0xFFFFFFFF))
    return float(high.view(np.float32)), float(low.view(np.float32))


NAMES = [*BOUNDS, *WRITTEN]


def test_every_function_states_its_error() -> None:
    assert {"exp": 3, "exp2": 3, "log": 3, "tanh": 8, "erf": 8} == BOUNDS


@pytest.mark.parametrize("name", NAMES)
def test_errors_where_instructions_are_as_far_off_as_they_may(name: str, tmp_path: Path) -> None:
    worst, step = np.zeros(1, np.uint64), 65521 if name in WRITTEN else 16381
    emulated = Emulated([source(name, "f32")], tmp_path, [CALL])
    for off in product((0, 1, -1), repeat=2):
        emulated.run(0, [worst.ctypes.data, (1 << 32) // step, step, *off], 1, 1)
    assert error(worst)[0] <= BOUNDS.get(name, 8), error(worst)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_errors_of_16_bits_on_the_emulator(kind: str, tmp_path: Path) -> None:
    worst = np.zeros(len(BOUNDS), np.uint64)
    emulated = Emulated([source(name, kind) for name in BOUNDS], tmp_path, [CALL] * len(BOUNDS))
    for number in range(len(BOUNDS)):
        for off in (1, -1):
            emulated.run(number, [worst[number:].ctypes.data, 1 << 16, 1, off, -off], 1, 1)
        assert error(worst[number:])[0] <= ROUNDED, (list(BOUNDS)[number], error(worst[number:]))


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "kind"), [*product(BOUNDS, FORMATS), *product(WRITTEN, ["f32"])])
def test_errors_of_all_floats(name: str, kind: str) -> None:
    worst, runs = np.zeros(1, np.uint64), CudaLibrary(source(name, kind)).run
    runs(worst, 1 << FORMATS[kind][3], 1, blocks=4096, threads=256)
    found = error(worst)
    print(f"{name} of {kind}: {found[0]:.3f} ulp at {found[1]!r}")
    assert found[0] <= (BOUNDS.get(name, 8) if kind == "f32" else ROUNDED), found
