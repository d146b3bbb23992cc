"""Scalar arithmetic: wrapping, division, remainders, shifts, min/max, casts, fused multiply-add."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.native.cuda_driver import EACH

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of what is tested here

INTS = {f"{s}{b}": np.dtype(f"{'' if s == 'i' else 'u'}int{b}") for s in "iu" for b in (8, 16, 32, 64)}
FLOATS = {"f32": np.dtype("float32"), "f64": np.dtype("float64")}
ALL = {"bool": np.dtype("bool"), **INTS, "f16": np.dtype("uint16"), "bf16": np.dtype("uint16"), **FLOATS}
BINARY = "add sub mul div floordiv mod min max".split()
UNARY = "neg abs sign step nonzero".split()
COMPARE = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}
BITS = "bit_and bit_or bit_xor shl shr".split()


def loop(name: str, t: str, out: str, expression: str, count: int) -> str:
    params = ", ".join(f"const {t}* {v}" for v in "abc"[:count])
    return f"TK_API void {name}_{t}({params}, {out}* y, i64 n) {{ EACH y[i] = tk::{expression}; }}\n"


def driver() -> str:
    lines = ['#include "scalar.h"\nusing namespace tk;\n', EACH]
    for t in ALL:
        if t != "bool":
            lines += [loop(f, t, t, f"{f}(a[i], b[i])", 2) for f in BINARY]
            lines += [loop(f, t, t, f"{f}(a[i])", 1) for f in UNARY]
            lines += [loop("clamp", t, t, "clamp(a[i], b[i], c[i])", 3), loop("fma", t, t, "fma(a[i], b[i], c[i])", 3)]
        if t in INTS:
            lines += [loop(f, t, t, f"{f}(a[i], b[i])", 2) for f in BITS] + [loop("bit_not", t, t, "bit_not(a[i])", 1)]
        lines += [loop(f, t, "bool", f"{f}(a[i], b[i])", 2) for f in COMPARE]
        lines += [loop("logical_not", t, "bool", "logical_not(a[i])", 1)]
        lines += [loop("where", t, t, "where(a[i], b[i], c[i])", 3)]
        lines += [loop(f"to_{to}", t, to, f"cast<{to}>(a[i])", 1) for to in ALL]
    return "".join(lines)


DRIVER = driver()
SOFT = (
    '#include "fma.h"\nusing namespace tk;\n'
    + EACH
    + "".join(
        loop("soft", t, t, "fma_soft(a[i], b[i], c[i])", 3) + loop("hard", t, t, "fma_ieee(a[i], b[i], c[i])", 3)
        for t in FLOATS
    )
)


@pytest.fixture
def run(device_compiler: str, build: Any, call: Any) -> Any:
    """``run(name, type, out_dtype, *arrays)``."""
    lib = build(DRIVER, device_compiler, "-O0", "-march=native")

    def apply(name: str, t: str, out: Any, *args: Any) -> Any:
        result = np.empty(args[0].size, out)
        call(lib[f"{name}_{t}"], *[np.ascontiguousarray(a) for a in args], result, result.size)
        return result

    return apply


def int_pairs(t: str) -> tuple[Any, Any]:
    info = np.iinfo(INTS[t])
    rng = np.random.default_rng(0)
    edge = [info.min, info.min + 1, -1, 0, 1, 2, 3, 7, info.bits - 1, info.bits, info.bits + 1, info.max - 1, info.max]
    values = [v for v in edge if v >= info.min] + rng.integers(info.min, info.max, 40, INTS[t], endpoint=True).tolist()
    a, b = np.meshgrid(np.array(values, INTS[t]), np.array(values, INTS[t]))
    return a.ravel(), b.ravel()


def quotient(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def wrap(v: int, t: str) -> int:
    bits = INTS[t].itemsize * 8
    v &= (1 << bits) - 1
    return v - (1 << bits) if t[0] == "i" and v >> (bits - 1) else v


def shift_right(a: int, b: int, t: str) -> int:
    return a >> min(b if b >= 0 else 64, 64)


@pytest.mark.parametrize("t", INTS)
def test_integers(t: str, run: Any) -> None:
    a, b = int_pairs(t)
    bits = INTS[t].itemsize * 8
    rules = {
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
        "div": quotient, "floordiv": lambda x, y: 0 if y == 0 else x // y,
        "mod": lambda x, y: 0 if y == 0 else x - y * quotient(x, y), "min": min, "max": max,
        "bit_and": lambda x, y: x & y, "bit_or": lambda x, y: x | y, "bit_xor": lambda x, y: x ^ y,
        "shl": lambda x, y: 0 if not 0 <= y < bits else x << y, "shr": lambda x, y: shift_right(x, y, t),
    }  # fmt: skip
    for name, rule in rules.items():
        want = [wrap(rule(x, y), t) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        np.testing.assert_array_equal(run(name, t, INTS[t], a, b), np.array(want, INTS[t]), err_msg=name)
    unary = {
        "neg": lambda x: -x, "abs": abs, "sign": lambda x: -1 if x < 0 else 1, "step": lambda x: int(x < 0),
        "nonzero": lambda x: int(x != 0), "bit_not": lambda x: ~x,
    }  # fmt: skip
    for name, one in unary.items():
        np.testing.assert_array_equal(run(name, t, INTS[t], a), [wrap(one(x), t) for x in a.tolist()], err_msg=name)
    for name, method in COMPARE.items():
        np.testing.assert_array_equal(run(name, t, bool, a, b), getattr(a, method)(b))
    c = np.roll(a, 5)
    want = [wrap(x * y + z, t) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    np.testing.assert_array_equal(run("fma", t, INTS[t], a, b, c), want)
    np.testing.assert_array_equal(run("clamp", t, INTS[t], a, b, c), np.minimum(np.maximum(b, a), c))
    np.testing.assert_array_equal(run("where", t, INTS[t], a, b, c), np.where(a, b, c))
    np.testing.assert_array_equal(run("logical_not", t, bool, a), a == 0)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 3.0, 0.1, 1e-40, -1e-44, 1e30, -1e30, 7e37, np.inf, -np.inf, np.nan]


def float_pairs(t: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    x = np.concatenate([SPECIAL, rng.standard_normal(30) * 2.0 ** rng.integers(-60, 60, 30)]).astype(FLOATS[t])
    a, b = np.meshgrid(x, x)
    return a.ravel(), b.ravel()


def same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@pytest.mark.parametrize("t", FLOATS)
def test_floats(t: str, run: Any) -> None:
    a, b = float_pairs(t)
    with np.errstate(all="ignore"):
        rules = {
            "add": a + b, "sub": a - b, "mul": a * b, "div": a / b, "floordiv": np.floor(a / b), "mod": np.fmod(a, b),
        }  # fmt: skip
        for name, want in rules.items():
            same(run(name, t, FLOATS[t], a, b), want)
        for name, method in COMPARE.items():
            np.testing.assert_array_equal(run(name, t, bool, a, b), getattr(a, method)(b))
        low, high = np.fmin(a, b), np.fmax(a, b)
        zeros = (a == 0) & (b == 0)
        low[zeros] = np.where(np.signbit(a) | np.signbit(b), -0.0, 0.0)[zeros]
        high[zeros] = np.where(np.signbit(a) & np.signbit(b), -0.0, 0.0)[zeros]
        same(run("min", t, FLOATS[t], a, b), low)
        same(run("max", t, FLOATS[t], a, b), high)
        same(run("neg", t, FLOATS[t], a), -a)
        same(run("abs", t, FLOATS[t], a), np.abs(a))
        np.testing.assert_array_equal(run("sign", t, FLOATS[t], a), np.where(a < 0, -1, 1))
        np.testing.assert_array_equal(run("step", t, FLOATS[t], a), np.where(a < 0, 1, 0))
        np.testing.assert_array_equal(run("nonzero", t, FLOATS[t], a), np.where(a == 0, 0, 1))


@pytest.mark.parametrize("t", FLOATS)
def test_mod_is_exact_for_any_operands(t: str, run: Any) -> None:
    bits = np.frombuffer(np.random.default_rng(2).bytes(FLOATS[t].itemsize * 20000), FLOATS[t])
    a, b = bits[:10000], bits[10000:]
    near = a * np.random.default_rng(3).integers(1, 1000, 10000).astype(FLOATS[t])
    with np.errstate(all="ignore"):
        same(run("mod", t, FLOATS[t], a, b), np.fmod(a, b))
        same(run("mod", t, FLOATS[t], near, a), np.fmod(near, a))


def exact_fma(a: float, b: float, c: float, t: str) -> Any:
    if not all(map(math.isfinite, (a, b, c))):
        with np.errstate(all="ignore"):
            finite = math.isfinite(a) and math.isfinite(b)
            return FLOATS[t].type(c if finite else np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return FLOATS[t].type(np.float64(a) * b + c) if 0 in (a, b) else FLOATS[t].type(0.0)
    return FLOATS[t].type(round_fraction(exact, t))


# Significand bits, exponent of the least subnormal, exponent of the first overflow.
FORMATS = {"f16": (11, -24, 16), "bf16": (8, -133, 128), "f32": (24, -149, 128), "f64": (53, -1074, 1024)}


def round_fraction(v: Fraction, t: str) -> float:
    digits, least, top = FORMATS[t]
    a = abs(v)
    e = a.numerator.bit_length() - a.denominator.bit_length()
    e = e if Fraction(2) ** e <= a else e - 1
    unit = Fraction(2) ** max(e - digits + 1, least)
    value = round(a / unit) * unit  # ties to even
    rounded = math.inf if value >= Fraction(2) ** top else float(value)
    return rounded if v > 0 else -rounded


@pytest.mark.parametrize("t", FLOATS)
def test_fma_rounds_once_with_and_without_the_instruction(t: str, device_compiler: str, build: Any, call: Any) -> None:
    rng = np.random.default_rng(4)
    n = 4000
    scale = 2.0 ** rng.integers(-50, 50, n) if t == "f32" else 2.0 ** rng.integers(-500, 500, n)
    a, b = (rng.standard_normal(n) * scale).astype(FLOATS[t]), rng.standard_normal(n).astype(FLOATS[t])
    c = np.where(rng.random(n) < 0.5, -a * b, a * b * 2.0 ** rng.integers(-80, 80, n)).astype(FLOATS[t])
    raw = np.frombuffer(rng.bytes(3 * 2000 * FLOATS[t].itemsize), FLOATS[t]).reshape(3, -1)
    x = np.array(SPECIAL, FLOATS[t])
    grid = np.stack(np.meshgrid(x, x, x)).reshape(3, -1)
    a, b, c = (np.concatenate([v, r, g]) for v, r, g in zip((a, b, c), raw, grid, strict=True))
    want = np.array([exact_fma(*v, t) for v in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)], FLOATS[t])
    lib = build(SOFT, device_compiler, "-O2", "-march=native")
    for name in ("soft", "hard"):
        got = np.empty(a.size, FLOATS[t])
        call(lib[f"{name}_{t}"], a, b, c, got, a.size)
        same(got, want)


def half_values(t: str, bits: Any) -> Any:
    return bits.view(np.float16).astype(np.float64) if t == "f16" else (bits.astype("u4") << 16).view("f4").astype("f8")


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_halves_compute_in_f32_and_round_once(t: str, run: Any) -> None:
    rng = np.random.default_rng(5)
    a, b = (np.frombuffer(rng.bytes(40000), np.uint16) for _ in range(2))
    x, y = half_values(t, a), half_values(t, b)
    with np.errstate(all="ignore"):
        for name, exact in (("add", x + y), ("sub", x - y), ("mul", x * y), ("div", x / y), ("mod", np.fmod(x, y))):
            want = run(f"to_{t}", "f32", np.uint16, exact.astype(np.float32))
            np.testing.assert_array_equal(half_values(t, run(name, t, np.uint16, a, b)), half_values(t, want), name)
        np.testing.assert_array_equal(run("lt", t, bool, a, b), x < y)
        np.testing.assert_array_equal(run("neg", t, np.uint16, a), a ^ 0x8000)
        np.testing.assert_array_equal(half_values(t, run("max", t, np.uint16, a, b)), np.fmax(x, y))


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_fma_of_halves_rounds_once(t: str, run: Any) -> None:
    rng = np.random.default_rng(8)
    a, b, c = (np.frombuffer(rng.bytes(6000), np.uint16).copy() for _ in range(3))
    product = half_values(t, a) * half_values(t, b)
    with np.errstate(all="ignore"):
        c[::2] = run(f"to_{t}", "f64", np.uint16, -product * 2.0 ** rng.integers(0, 20, 3000))[::2]
    x, y, z = (half_values(t, v) for v in (a, b, c))
    got = half_values(t, run("fma", t, np.uint16, a, b, c))
    for p, q, r, g in zip(x.tolist(), y.tolist(), z.tolist(), got.tolist(), strict=True):
        if all(map(math.isfinite, (p, q, r))) and (exact := Fraction(p) * Fraction(q) + Fraction(r)):
            assert g == round_fraction(exact, t), (p, q, r)


@pytest.mark.parametrize("to", ["bool", *INTS])
@pytest.mark.parametrize("t", [*INTS, "f32", "f64", "f16", "bf16", "bool"])
def test_casts_to_integers(t: str, to: str, run: Any) -> None:
    rng = np.random.default_rng(6)
    if t == "bool":
        a = np.array([False, True])
        values = [0, 1]
    elif t in INTS:
        a = int_pairs(t)[0]
        values = a.tolist()
    else:
        edge = [
            s * (2.0**b + d) for s in (1, -1) for b in (0, 7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5, 1)
        ]
        x = np.array([*edge, np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, *rng.uniform(-300, 300, 50)])
        a = run(f"to_{t}", "f64", ALL[t], x)
        values = (half_values(t, a) if t in ("f16", "bf16") else a.astype(np.float64)).tolist()
    if to == "bool":
        want = [v != 0 for v in values]
    elif t in INTS or t == "bool":
        want = [wrap(v, to) for v in values]
    else:
        low, high = int(np.iinfo(INTS[to]).min), int(np.iinfo(INTS[to]).max)
        want = [0 if v != v else (high if v >= high else low if v <= low else int(v)) for v in values]
    np.testing.assert_array_equal(run(f"to_{to}", t, ALL[to], a), np.array(want, ALL[to]))


@pytest.mark.parametrize("t", INTS)
@pytest.mark.parametrize("to", FLOATS)
def test_casts_to_floats(t: str, to: str, run: Any) -> None:
    a = int_pairs(t)[0]
    np.testing.assert_array_equal(run(f"to_{to}", t, FLOATS[to], a), a.astype(FLOATS[to]))
