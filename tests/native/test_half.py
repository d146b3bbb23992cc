"""float16 and bfloat16: every pattern, both code paths, single rounding from f64 and integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.native.cuda_driver import EACH

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
SOURCES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "u64": np.uint64, "i32": np.int32, "u8": np.uint8}
DRIVER = (
    '#include "cast.h"\nusing namespace tk;\n'
    + EACH
    + "".join(
        f"TK_API void {h}_to_{s}(const {h}* x, {s}* y, i64 n) {{ EACH y[i] = cast<{s}>(x[i]); }}\n"
        f"TK_API void {s}_to_{h}(const {s}* x, {h}* y, i64 n) {{ EACH y[i] = cast<{h}>(x[i]); }}\n"
        for h in TYPES
        for s in SOURCES
    )
)
PATHS = [("-O3", "-march=native"), ("-O2", "-march=native", "-DTK_HALF_BITS"), ("-O0", "-march=sandybridge")]


@pytest.fixture(params=PATHS, ids=["native", "bits", "no-f16c"])
def lib(request: pytest.FixtureRequest, device_compiler: str, build: Any) -> Any:
    """The driver with hardware conversions where the compiler has them, and without."""
    return build(DRIVER, device_compiler, *request.param)


def round_once(x: Any, half: str) -> Any:
    """Bits of the nearest ``half``, ties to even, by searching all its values (an independent definition)."""
    values = np.arange(0x7C00 if half == "f16" else 0x7F80, dtype=np.uint16)
    grid = values.view(TYPES[half]).astype(np.longdouble)
    top = 2 * grid[-1] - grid[-2]  # where the next value would be: rounding to it means infinity
    grid = np.append(grid, top)
    a = np.abs(x.astype(np.longdouble))
    i = np.clip(np.searchsorted(grid, a, side="right") - 1, 0, len(grid) - 2)
    low, high = a - grid[i], grid[i + 1] - a
    i = i + ((low > high) | ((low == high) & (i % 2 == 1)))
    return np.where(np.isnan(a), 0x7E00 if half == "f16" else 0x7FC0, i | (np.signbit(x).astype(int) << 15)).astype(
        "u2"
    )


@pytest.mark.parametrize("half", TYPES)
def test_every_pattern_widens_exactly(half: str, device_compiler: str, lib: Any, call: Any) -> None:
    bits = np.arange(65536, dtype=np.uint16)
    with np.errstate(all="ignore"):
        want = bits.view(TYPES[half]).astype(np.float32)
    for kind in ("f32", "f64"):
        got = np.empty(65536, SOURCES[kind])
        call(lib[f"{half}_to_{kind}"], bits, got, 65536)
        np.testing.assert_array_equal(got, want)
        # CUDA's conversions between f32 and f64 give one NaN.
        signed = ~np.isnan(want) if (device_compiler, kind) == ("cuda", "f64") else np.full(65536, True)
        np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(want[signed]))
        back = np.empty(65536, np.uint16)
        call(lib[f"{kind}_to_{half}"], got, back, 65536)
        nan = np.isnan(want)
        np.testing.assert_array_equal(back[~nan], bits[~nan])
        assert (back[nan] == (0x7E00 if half == "f16" else 0x7FC0)).all()


def boundaries(half: str, kind: str) -> Any:
    """Halfway points between neighbours, and what lies next to them in the wider type."""
    bits = np.arange(0x7C00 if half == "f16" else 0x7F80, dtype=np.uint16)
    v = bits.view(TYPES[half]).astype(np.longdouble)
    middle = np.append((v[:-1] + v[1:]) / 2, v[-1] + (v[-1] - v[-2]) / 2)
    m = np.concatenate([middle, v]).astype(SOURCES[kind])
    with np.errstate(all="ignore"):
        m = np.concatenate([m, np.nextafter(m, np.inf), np.nextafter(m, -np.inf)]).astype(SOURCES[kind])
    return np.concatenate([m, -m])


@pytest.mark.parametrize("half", TYPES)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_floats_round_once(half: str, kind: str, lib: Any, call: Any) -> None:
    rng = np.random.default_rng(5)
    with np.errstate(all="ignore"):
        noise = np.frombuffer(rng.bytes(160000), SOURCES[kind])
        spread = (rng.standard_normal(20000) * 2.0 ** rng.integers(-30, 18, 20000)).astype(SOURCES[kind])
        x = np.concatenate([boundaries(half, kind), noise, spread])
        if kind == "f64":
            x = np.concatenate([x, [1 + 2.0**-11 + 2.0**-40, 65519.99999999999, 65520, 2.0**-25 + 2.0**-70]])
        got = np.empty(x.size, np.uint16)
        call(lib[f"{kind}_to_{half}"], x, got, x.size)
        np.testing.assert_array_equal(got, round_once(x, half))


@pytest.mark.parametrize("half", TYPES)
@pytest.mark.parametrize("kind", ["i64", "u64", "i32", "u8"])
def test_integers_round_once(half: str, kind: str, lib: Any, call: Any) -> None:
    rng = np.random.default_rng(6)
    raw = np.frombuffer(rng.bytes(80000), np.uint64) >> rng.integers(0, 64, 10000).astype(np.uint64)
    tie = [
        (1 << 62) + (1 << 54),
        (1 << 62) + (1 << 54) + 1,
        (1 << 62) + (1 << 54) - 1,
        2049,
        2051,
        65519,
        65520,
        (1 << 63) - 1,
    ]
    x = np.concatenate([raw, np.array(tie, np.uint64)]).astype(SOURCES[kind])
    got = np.empty(x.size, np.uint16)
    call(lib[f"{kind}_to_{half}"], x, got, x.size)
    np.testing.assert_array_equal(got, round_once(x, half))


@pytest.mark.deep
@pytest.mark.parametrize("half", TYPES)
def test_every_f32_rounds_alike_on_both_paths(half: str, compiler: str, build: Any, call: Any) -> None:
    libs = [build(DRIVER, compiler, *flags) for flags in PATHS]
    for high in range(0, 1 << 32, 1 << 26):
        x = np.arange(high, high + (1 << 26), dtype=np.uint32)
        results = []
        for lib in libs[:2]:
            results.append(np.empty(x.size, np.uint16))
            call(lib[f"f32_to_{half}"], x, results[-1], x.size)
        np.testing.assert_array_equal(*results)
