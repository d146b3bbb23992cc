"""Quotients by a shared divisor are those of ``x / d``: where rounding is close, and of numbers of all kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.emulator import Emulated
from tests.native.cuda_driver import CudaLibrary

SOURCE = """
#include "divide.h"
using namespace tk;
// For each d = D 2^-23 in [1, 2), the x = X 2^-23 whose quotients are next to the middle between two f32: X 2^s = K D +
// c with an odd K, whose last bit is one below f32's, so that the quotient is c / (2 D) of its last place from that
// middle. Before under() rounds it is off by at most 5 / (2 D): r is within 2^-25 of 1 / d and x * r within 1.5 units
// of the last place, which gives 3; the remainder is rounded to 24 bits, which gives 2. All others are rounded rightly.
TK_API void hard(u64* wrong, u64* cases, u64 step)
{
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x, all = (u64)gridDim.x * blockDim.x;
    for (i64 D = (1 << 23) + 1 + (i64)(first * step); D < 1 << 24; D += (i64)(all * step)) {
        i64 odd = D, power = 1;
        for (; odd % 2 == 0; odd /= 2) power *= 2;
        if (power > 7) continue;
        i64 t = 0, next = 1;
        for (i64 r = odd, n = ((i64)1 << 24) / power % odd; n;) {
            const i64 q = r / n, t2 = t - q * next, r2 = r - q * n;
            t = next, next = t2, r = n, n = r2;
        }
        const i64 inverse = t < 0 ? t + odd : t;                              // of 2^24 / power, modulo `odd`
        const i64 halved = (inverse % 2 ? inverse + odd : inverse) / 2;       // of 2^25 / power
        const f32 d = (f32)D * 0x1p-23f;
        const Divisor by(d);
        for (int s = 24; s <= 25; ++s)
            for (i64 c = -7; c <= 7; ++c) {
                if (c == 0 || c % power) continue;
                const i64 low = s == 24 ? D : 1 << 23, high = s == 24 ? 1 << 24 : D;
                const i64 root = ((c / power % odd + odd) % odd) * (s == 24 ? inverse : halved) % odd;
                for (i64 X = root + (low - root + odd - 1) / odd * odd; X < high; X += odd) {
                    if (((X << s) - c) / D % 2 == 0) continue;
                    const f32 x = (f32)X * 0x1p-23f;
                    atomicAdd(cases, (u64)1);
                    if (by.under(x) != x / d) atomicAdd(wrong, (u64)1);
                }
            }
    }
}
// Pairs of a divisor and four dividends, as a tile is divided: how many quotients have other bits than x / d.
TK_API void each(const u32* numbers, u64* wrong, u64* plain, u64 count)
{
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
        const Divisor by(bit_cast<f32>(numbers[5 * i]));
        Dividends seen;
        for (int j = 1; j < 5; ++j) seen.add(bit_cast<f32>(numbers[5 * i + j]));
        const bool all = by.is_plain() && seen.are_plain();
        if (all) atomicAdd(plain, (u64)1);
        for (int j = 1; j < 5; ++j) {
            const f32 x = bit_cast<f32>(numbers[5 * i + j]), want = x / by.d;
            const f32 got = all ? quotient(x, by) : any_quotient(x, by);
            if (bit_cast<u32>(got) != bit_cast<u32>(want) && (got == got || want == want)) atomicAdd(wrong, (u64)1);
        }
    }
}
"""
DEVICES = pytest.mark.parametrize("device", ["emulator", pytest.param("gpu", marks=pytest.mark.gpu)])


def run(device: str, kernel: str, folder: Path, *arguments: Any) -> None:
    if device == "gpu":
        CudaLibrary(SOURCE)[kernel](*arguments, blocks=1024, threads=256)
        return
    types = {"hard": "u64*, u64*, u64", "each": "u32*, u64*, u64*, u64"}[kernel].split(", ")
    call = f"{kernel}({', '.join(f'(({type}*)given)[{number}]' for number, type in enumerate(types))});"
    words = [value.ctypes.data if isinstance(value, np.ndarray) else value for value in arguments]
    Emulated([SOURCE], folder, [call]).run(0, words, 1, 1)


@pytest.mark.parametrize(
    ("device", "step"),
    [
        ("emulator", 61),
        pytest.param("emulator", 1, marks=pytest.mark.deep),
        pytest.param("gpu", 1, marks=pytest.mark.gpu),
    ],
)
def test_quotients_next_to_the_middle_between_two_floats(device: str, step: int, tmp_path: Path) -> None:
    wrong, cases = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    run(device, "hard", tmp_path, wrong, cases, step)
    assert cases[0] > 4_000_000 * 9 // step and not wrong[0], (cases, wrong)


def numbers(count: int) -> Any:
    """Of all kinds: any bits, special ones, and ones near the limits of what counts as plain."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, (count, 5), np.uint32)
    near = rng.choice(
        [-149, -127, -126, -125, -101, -100, -99, -25, -24, -23, 0, 23, 24, 25, 99, 100, 101, 127], bits.shape
    )
    sizes = np.ldexp(1 + rng.integers(0, 1 << 23, bits.shape) * 2.0**-23, near).astype(np.float32)
    usual = rng.lognormal(0, 3, bits.shape).astype(np.float32)
    special = rng.choice(
        np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1.0, -1.0, 3.0, 2.0**24, 2.0**-24]), bits.shape
    )
    zeros = np.where(rng.random(bits.shape) < 0.3, np.copysign(np.float32(0), usual - 1), usual)
    kinds = [bits.view(np.float32), sizes, -sizes, usual, special, zeros]
    return np.ascontiguousarray(np.choose(rng.integers(0, len(kinds), (count, 1)), kinds).view(np.uint32))


@DEVICES
def test_quotients_of_numbers_of_all_kinds(device: str, tmp_path: Path) -> None:
    given, wrong, plain = numbers(1 << 18), np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    run(device, "each", tmp_path, given, wrong, plain, len(given))
    assert plain[0] > len(given) // 4 and not wrong[0], (plain, wrong)
