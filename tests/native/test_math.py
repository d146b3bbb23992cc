"""Elementary functions: error bounds against extended precision, special values, equal bits from every compiler."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Set
from typing import Any

import numpy as np
import pytest

from tests.native.cuda_driver import EACH
from tests.native.test_math_gpu import BOUNDS

UNARY = """exp exp2 log log2 log10 log1p expm1 sqrt rsqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh
atanh erf erfc floor ceil trunc round rint frac degrees radians""".split()
MACROS = (
    """#include "math.h"
using namespace tk;
#define ONE(f, T) TK_API void f##_##T(const T* x, T* y, i64 n) { EACH y[i] = tk::f(x[i]); }
#define TWO(f, T) TK_API void f##_##T(const T* a, const T* b, T* y, i64 n) { EACH y[i] = tk::f(a[i], b[i]); }
"""
    + EACH
)


def driver(*types: str) -> str:
    one = [f"ONE({f}, {t})\n" for f in UNARY for t in types]
    return MACROS + "".join(one + [f"TWO({f}, {t})\n" for f in ("pow", "atan2") for t in types])


DRIVER, HALVES = driver("f32", "f64"), driver("f16", "bf16")
SHORT = {"f32": np.float32, "f64": np.float64}
LONG = np.longdouble
extended = pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="needs an 80-bit long double as the reference")

# name: (ulp bound f64, ulp bound f32, ranges)
WIDE = [(1e-300, 1e300)]
REFERENCE: dict[str, tuple[Any, float, float, list[tuple[float, float]]]] = {
    "exp": (np.exp, 1, 1, [(-1, 1), (-700, 700)]),
    "exp2": (np.exp2, 1, 1, [(-1, 1), (-1000, 1000)]),
    "log": (np.log, 1, 1, [(0.5, 2), *WIDE]),
    "log2": (np.log2, 1, 1, [(0.5, 2), *WIDE]),
    "log10": (np.log10, 1, 1, [(0.5, 2), *WIDE]),
    "log1p": (np.log1p, 2, 1, [(-0.9, 2), (-1e-5, 1e-5), *WIDE]),
    "expm1": (np.expm1, 2, 1, [(-2, 2), (-1e-5, 1e-5), (-50, 700)]),
    "sqrt": (np.sqrt, 0.501, 0.501, WIDE),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 1.5, WIDE),
    "cbrt": (np.cbrt, 1, 1, [(-10, 10), *WIDE]),
    "sin": (np.sin, 1, 1, [(-4, 4), (-1e5, 1e5), (-1e9, 1e9), (1e9, 1e300)]),
    "cos": (np.cos, 1, 1, [(-4, 4), (-1e5, 1e5), (-1e9, 1e9), (1e9, 1e300)]),
    "tan": (np.tan, 3, 1, [(-4, 4), (-1e5, 1e5), (-1e9, 1e9), (1e9, 1e300)]),
    "asin": (lambda x: np.arcsin(np.clip(x, -1, 1)), 2, 1, [(-1, 1), (-1e-3, 1e-3)]),
    "acos": (lambda x: np.arccos(np.clip(x, -1, 1)), 2, 1, [(-1, 1), (0.999, 1)]),
    "atan": (np.arctan, 2, 1, [(-4, 4), *WIDE]),
    "sinh": (np.sinh, 3, 1, [(-3, 3), (-700, 700)]),
    "cosh": (np.cosh, 3, 1, [(-3, 3), (-700, 700)]),
    "tanh": (np.tanh, 3, 2, [(-1, 1), (-25, 25)]),
    "asinh": (np.arcsinh, 3, 1, [(-3, 3), *WIDE]),
    "acosh": (np.arccosh, 3, 1, [(1, 3), (1, 1e300)]),
    "atanh": (np.arctanh, 3, 1, [(-1, 1), (-1e-3, 1e-3)]),
    "degrees": (np.degrees, 1, 1, [(-10, 10)]),
    "radians": (np.radians, 1, 1, [(-1000, 1000)]),
}


def sample(kind: str, ranges: list[tuple[float, float]], n: int = 20000) -> Any:
    rng = np.random.default_rng(7)
    top, bottom = (1e38, 1e-37) if kind == "f32" else (1e308, 1e-307)
    parts = []
    for low, high in ranges:
        low, high = max(low, -top), min(high, top)
        if low > 0 and high / low > 1e3:
            parts.append(np.exp(rng.uniform(math.log(max(low, bottom)), math.log(high), n)))
        else:
            parts.append(rng.uniform(low, high, n))
    return np.concatenate(parts).astype(SHORT[kind])


def apply(lib: ctypes.CDLL, call: Callable[..., None], name: str, kind: str, *args: Any) -> Any:
    out = np.empty_like(args[0])
    call(getattr(lib, f"{name}_{kind}"), *[np.ascontiguousarray(a) for a in args], out, out.size)
    return out


def ulps(got: Any, exact: Any) -> float:
    """The largest error in units of the last place of the exact value."""
    with np.errstate(all="ignore"):
        near = exact.astype(got.dtype)
        finite = np.isfinite(near) & np.isfinite(got)
        same = (got == near) | (np.isnan(got) & np.isnan(near))
        assert (finite | same).all(), (got[~(finite | same)], near[~(finite | same)])
        tiny = np.finfo(got.dtype).smallest_subnormal
        unit = np.maximum(np.spacing(np.abs(near[finite])).astype(LONG), LONG(tiny))
        error = np.abs(got[finite].astype(LONG) - exact[finite]) / unit
    return float(error.max())


@extended
@pytest.mark.parametrize("name", REFERENCE)
@pytest.mark.parametrize("kind", SHORT)
def test_error_bound(name: str, kind: str, compiler: str, build: Any, call: Any) -> None:
    reference, bound64, bound32, ranges = REFERENCE[name]
    x = sample(kind, ranges)
    got = apply(build(DRIVER, compiler), call, name, kind, x)
    with np.errstate(all="ignore"):
        assert ulps(got, reference(x.astype(LONG))) <= (bound64 if kind == "f64" else bound32)


@pytest.mark.parametrize("kind", SHORT)
def test_erf(kind: str, compiler: str, build: Any, call: Any) -> None:
    lib = build(DRIVER, compiler)
    x = sample(kind, [(-1, 1), (-6, 6), (-1e-3, 1e-3)])
    exact = np.array([math.erf(v) for v in x.tolist()])
    assert ulps(apply(lib, call, "erf", kind, x), exact.astype(LONG)) <= (3 if kind == "f64" else 2)
    x = sample(kind, [(-1, 1), (-6, 9), (0, 26.5 if kind == "f64" else 9)])
    exact = np.array([math.erfc(v) for v in x.tolist()])
    assert ulps(apply(lib, call, "erfc", kind, x), exact.astype(LONG)) <= (5 if kind == "f64" else 1)


@extended
@pytest.mark.parametrize("kind", SHORT)
def test_two_operands(kind: str, compiler: str, build: Any, call: Any) -> None:
    lib = build(DRIVER, compiler)
    x, y = (
        sample(kind, [(0, 3), (1e-30, 1e30)]),
        np.random.default_rng(1).permutation(sample(kind, [(-8, 8), (-60, 60)])),
    )
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(LONG), y.astype(LONG))
        got = apply(lib, call, "pow", kind, x, y)
        assert ulps(got, exact) <= 1
        a, b = sample(kind, [(-3, 3), *WIDE]), np.random.default_rng(2).permutation(sample(kind, [(-3, 3), *WIDE]))
        assert ulps(apply(lib, call, "atan2", kind, a, b), np.arctan2(a.astype(LONG), b.astype(LONG))) <= 3


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    3.0,
    -3.0,
    1e-40,
    -1e-40,
    5e-324,
    1e-310,
    88.8,
    -103.5,
    710.0,
]
SPECIAL += [
    -745.2,
    1e30,
    -1e30,
    1e308,
    2.0**31,
    2.0**52 + 1,
    0.49999999999999994,
    4503599627370497.5,
    np.inf,
    -np.inf,
    np.nan,
]
ROUNDING = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}


def agree(got: Any, want: Any, bits: int = 4) -> bool:
    """Equal up to some ulp, with equal NaNs, infinities and signs of zero."""
    close = np.isclose(got.astype(LONG), want.astype(LONG), rtol=bits * float(np.finfo(got.dtype).eps), atol=0)
    small = np.abs(got.astype(LONG) - want) <= 2 * LONG(np.finfo(got.dtype).smallest_subnormal)
    same = close | small | (np.isnan(got) & np.isnan(want))
    zeros = (want != 0) | (np.signbit(got) == np.signbit(want))
    return bool((same & zeros).all())


@pytest.mark.parametrize("name", [*REFERENCE, *ROUNDING])
@pytest.mark.parametrize("kind", SHORT)
def test_special_values(name: str, kind: str, compiler: str, build: Any, call: Any) -> None:
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL, SHORT[kind])
        reference = ROUNDING[name] if name in ROUNDING else REFERENCE[name][0]
        got, want = apply(build(DRIVER, compiler), call, name, kind, x), reference(x.astype(LONG)).astype(x.dtype)
        assert agree(got, want), [
            (a, b, c) for a, b, c in zip(x, got, want, strict=True) if b != c and not (b != b and c != c)
        ]


@pytest.mark.parametrize("kind", SHORT)
def test_round_and_frac(kind: str, compiler: str, build: Any, call: Any) -> None:
    lib = build(DRIVER, compiler)
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, -0.3, 1e20, -0.0, 8388609.0, np.inf, np.nan], SHORT[kind])
    want = np.array([1, 2, 3, -1, -3, 0, -0.0, 1e20, -0.0, 8388609, np.inf, np.nan], SHORT[kind])
    got = apply(lib, call, "round", kind, x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[:-1]), np.signbit(want[:-1]))
    np.testing.assert_array_equal(apply(lib, call, "frac", kind, x[:9]), x[:9] - np.trunc(x[:9]))


@pytest.mark.parametrize("kind", SHORT)
def test_pow_and_atan2_special_values(kind: str, compiler: str, build: Any, call: Any) -> None:
    lib = build(DRIVER, compiler)
    with np.errstate(all="ignore"):
        values = np.array([v for v in SPECIAL if not 0 < abs(v) < 1e-20], SHORT[kind])
        x, y = (g.ravel().copy() for g in np.meshgrid(values, values))
        for name, reference in (("pow", np.power), ("atan2", np.arctan2)):
            got, want = apply(lib, call, name, kind, x, y), reference(x.astype(LONG), y.astype(LONG)).astype(x.dtype)
            rows = zip(x, y, got, want, strict=True)
            wrong = [row for row in rows if not agree(np.array(row[2:3]), np.array(row[3:]))]
            assert not wrong, (name, wrong)


def test_angles_on_the_axes_are_rounded_correctly(compiler: str, build: Any, call: Any) -> None:
    values = np.array([0.0, -0.0, 1.5, -1.5, 3e9, -3e9, 1e300, -1e300, np.inf, -np.inf])
    axes = np.array([0.0, -0.0, np.inf, -np.inf])
    y, x = (
        np.concatenate(pair)
        for pair in ((np.repeat(values, 4), np.repeat(axes, 10)), (np.tile(axes, 10), np.tile(values, 4)))
    )
    got, want = apply(build(DRIVER, compiler), call, "atan2", "f64", y, x), np.arctan2(y, x)
    np.testing.assert_array_equal(got.view(np.uint64), want.view(np.uint64))


def test_same_bits_from_every_compiler(compilers: dict[str, list[str]], build: Any, call: Any) -> None:
    if len(compilers) < 2:
        pytest.skip("needs two compilers")
    # The second has no FMA instruction and no float16 conversions.
    builds = [(c, f) for c in compilers for f in (("-O3", "-march=native"), ("-O1", "-march=sandybridge"))]
    check_same_bits(builds, build, call)


@pytest.mark.gpu
def test_same_bits_on_cuda(compilers: dict[str, list[str]], build: Any, call: Any) -> None:
    """All but the functions of float32 that GPUs have of their own, and those of 16-bit floats by them."""
    check_same_bits([(next(iter(compilers)), ("-O3", "-march=native")), ("cuda", ())], build, call, set(BOUNDS))


def check_same_bits(builds: list[Any], build: Any, call: Any, f64_only: Set[str] = frozenset()) -> None:
    rng = np.random.default_rng(3)
    for kind, unsigned in (("f32", np.uint32), ("f64", np.uint64), ("f16", np.uint16), ("bf16", np.uint16)):
        bits = np.frombuffer(rng.bytes(8 * 20000), unsigned).copy()
        for name in UNARY if kind == "f64" else (name for name in UNARY if name not in f64_only):
            results = []
            for compiler, flags in builds:
                lib = (
                    build(DRIVER, compiler, *flags)
                    if kind in SHORT
                    else build(HALVES, compiler, "-O1", "-march=native")
                )
                got = apply(lib, call, name, kind, bits)
                if kind in SHORT:
                    floats = got.view(SHORT[kind])
                    floats[np.isnan(floats)] = np.nan  # which NaN comes out is not part of the promise
                results.append(got.tobytes())
            assert len(set(results)) == 1, (name, kind)
