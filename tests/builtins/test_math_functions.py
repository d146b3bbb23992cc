"""Scalar mathematics, compiled and interpreted: exact functions bit for bit, the others within their bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.launching import converted, run_both
from tilekit.errors import KernelTypeError, TilekitError
from tilekit.ir.builtin import REGISTRY

F = np.float32
FLOATS = ("float16", "bfloat16", "float32", "float64")


@tk.kernel
def rounding(x: tk.array1d[Any], y: tk.array1d[Any], out: tk.array2d[Any]):
    i = tk.tid()
    a = x[i]
    b = y[i]
    out[0, i] = tk.floor(a)
    out[1, i] = tk.ceil(a)
    out[2, i] = tk.trunc(a)
    out[3, i] = tk.round(a)
    out[4, i] = tk.rint(a)
    out[5, i] = tk.frac(a)
    out[6, i] = tk.sqrt(a)
    out[7, i] = tk.degrees(a)
    out[8, i] = tk.radians(a)
    out[9, i] = tk.abs(a)
    out[10, i] = tk.sign(a)
    out[11, i] = tk.step(a)
    out[12, i] = tk.nonzero(a)
    out[13, i] = tk.min(a, b)
    out[14, i] = tk.max(a, b)
    out[15, i] = tk.clamp(a, b, 2.0)
    out[16, i] = tk.copysign(a, b)
    out[17, i] = tk.lerp(a, b, 0.25)
    out[18, i] = tk.smoothstep(-1.0, 1.5, a)
    out[19, i] = tk.where(tk.isnan(a), 1.0, 2.0)
    out[20, i] = tk.where(tk.isinf(b), 1.0, 2.0)
    out[21, i] = tk.where(tk.isfinite(a), b, a)
    out[22, i] = tk.div_approx(a, b)
    out[23, i] = tk.mod(a, b)
    out[24, i] = tk.floordiv(a, b)
    out[25, i] = min(a, b, 1.0) + max((a, b, 0.5))
    out[26, i] = abs(a) - round(b)
    out[27, i] = +a - (-b)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.49999997, 3.7, -3.7, 1e-3, 65504.0, -7.25, 1e-7]


def sample(dtype: str, extra: Any = ()) -> Any:
    rng = np.random.default_rng(3)
    values = np.concatenate([SPECIAL, rng.normal(0, 3, 40), rng.uniform(-100, 100, 20), extra])
    return converted(values, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_exact_functions(dtype: str) -> None:
    x = sample(dtype, [np.nan, np.inf, -np.inf])
    y = np.roll(x, 7)
    out = np.zeros((28, x.size), x.dtype)
    results = run_both(rounding, x.size, x, y, out, bits=False)
    got, wanted = (np.asarray(r).astype(np.float64) for r in results[2])
    different = ~((got == wanted) & (np.signbit(got) == np.signbit(wanted)) | (np.isnan(got) & np.isnan(wanted)))
    assert not different.any(), np.argwhere(different)
    exact = x.astype(np.float64)
    with np.errstate(all="ignore"):
        assert np.array_equal(got[0], np.floor(exact), equal_nan=True)
        assert np.array_equal(got[4], np.rint(exact), equal_nan=True)
        away = np.copysign(np.floor(np.abs(exact) + 0.5), exact)
    plain = np.isfinite(exact) & (np.abs(exact) != 0.49999997)
    assert np.array_equal(got[3][plain & (dtype != "float32")], away[plain & (dtype != "float32")])


@tk.kernel
def transcendental(x: tk.array1d[Any], y: tk.array1d[Any], out: tk.array2d[Any]):
    i = tk.tid()
    a = x[i]
    b = y[i]
    out[0, i] = tk.exp(a)
    out[1, i] = tk.exp2(a)
    out[2, i] = tk.expm1(a)
    out[3, i] = tk.log(a)
    out[4, i] = tk.log2(a)
    out[5, i] = tk.log10(a)
    out[6, i] = tk.log1p(a)
    out[7, i] = tk.cbrt(a)
    out[8, i] = tk.pow(a, b)
    out[9, i] = tk.sin(a)
    out[10, i] = tk.cos(a)
    out[11, i] = tk.tan(a)
    out[12, i] = tk.asin(a)
    out[13, i] = tk.acos(a)
    out[14, i] = tk.atan(a)
    out[15, i] = tk.atan2(a, b)
    out[16, i] = tk.sinh(a)
    out[17, i] = tk.cosh(a)
    out[18, i] = tk.tanh(a)
    out[19, i] = tk.asinh(a)
    out[20, i] = tk.acosh(a)
    out[21, i] = tk.atanh(a)
    out[22, i] = tk.erf(a)
    out[23, i] = tk.erfc(a)
    out[24, i] = tk.erfinv(a)
    out[25, i] = tk.erfcinv(a)
    out[26, i] = a**2


@tk.kernel
def roots(x: tk.array1d[float], out: tk.array2d[float]):
    i = tk.tid()
    out[0, i] = x[i] ** 0.5
    out[1, i] = tk.pow(x[i], -0.5)
    out[2, i] = tk.tile_load(x, shape=1, offset=i)[0] ** 0.5
    t = tk.tile_load(x, shape=1, offset=i) ** 0.5
    out[3, i] = t[0]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_a_power_of_one_half_is_no_square_root(device: str) -> None:
    x = np.array([-np.inf, -0.0, 4.0, -4.0], np.float32)
    out = np.zeros((4, 4), np.float32)
    tk.launch_tiled(roots, dim=4, inputs=[x, out], device=device)
    for row, wanted in zip(
        out, ([np.inf, 0, 2, np.nan], [0, np.inf, 0.5, np.nan], *[[np.inf, 0, 2, np.nan]] * 2), strict=True
    ):
        np.testing.assert_array_equal(row, np.array(wanted, np.float32))
        assert not np.signbit(row[:3]).any()


@tk.kernel
def angles(x: tk.array1d[float], out: tk.array2d[float]):
    i = tk.tid()
    out[0, i] = tk.asin(x[i])
    out[1, i] = tk.acos(x[i])


def by_warp(x: np.ndarray[Any, Any]) -> Any:
    wp = pytest.importorskip("warp")

    def warps_angles(x, out):
        i = wp.tid()
        out[0, i] = wp.asin(x[i])
        out[1, i] = wp.acos(x[i])

    warps_angles.__annotations__ = {"x": wp.array(dtype=float), "out": wp.array2d(dtype=float)}
    wanted = wp.zeros((2, x.size), dtype=float, device="cpu")
    wp.launch(wp.kernel(warps_angles), dim=x.size, inputs=[wp.array(x, device="cpu"), wanted], device="cpu")
    return wanted.numpy()


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_inverse_sine_and_cosine_limit_their_operand_as_in_warp(device: str) -> None:
    x = np.array([-np.inf, -2, -1.0000001, -1, -0.3, -0.0, 0.4, 1, 1.0000001, 3, np.inf], np.float32)
    out = np.zeros((2, x.size), np.float32)
    tk.launch(angles, dim=x.size, inputs=[x, out], device=device)
    np.testing.assert_allclose(out, by_warp(x), rtol=3e-7)
    tk.launch(angles, dim=1, inputs=[np.full(1, np.nan, np.float32), out], device=device)
    assert np.isnan(out[:, 0]).all()


PINNED: dict[int, Callable[..., Any]] = {
    0: np.exp, 1: np.exp2, 3: np.log, 7: np.cbrt, 9: np.sin, 10: np.cos, 12: lambda x: np.arcsin(np.clip(x, -1, 1)),
    13: lambda x: np.arccos(np.clip(x, -1, 1)), 14: np.arctan, 18: np.tanh, 21: np.arctanh,
}  # fmt: skip


def ulps(got: Any, wanted: Any, dtype: str) -> Any:
    """Distances in units of the last place; NaN must meet NaN, infinity infinity."""
    assert (np.isnan(got) == np.isnan(wanted)).all(), np.argwhere(np.isnan(got) != np.isnan(wanted))
    digits = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype]
    least = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 5e-324}[dtype]
    with np.errstate(all="ignore"):
        unit = np.maximum(2.0 ** (np.floor(np.log2(np.abs(wanted))) - digits), least)
        distance = np.where(got == wanted, 0, np.abs(got - wanted) / unit)
    return np.where(np.isnan(wanted), 0, distance)


@pytest.mark.parametrize("dtype", [pytest.param("float16", marks=pytest.mark.deep), *FLOATS[1:]])
def test_transcendental_functions(dtype: str) -> None:
    x = sample(dtype, [np.nan, np.inf, -np.inf, 0.9, -0.99, 0.3, 1e-30, 1.9])
    y = np.roll(x, 5)
    results = run_both(transcendental, x.size, x, y, np.zeros((27, x.size), x.dtype), bits=False)
    got, wanted = (np.asarray(r).astype(np.float64) for r in results[2])
    worst = ulps(got, wanted, dtype).max(axis=1)
    assert (worst <= (8 if dtype == "float64" else 2)).all(), list(enumerate(worst))
    with np.errstate(all="ignore"):
        for row, function in PINNED.items():
            exact = function(x.astype(np.float64))
            near = converted(exact, dtype).astype(np.float64)
            assert (ulps(got[row], near, dtype) <= (3 if dtype == "float64" else 2)).all(), row


def test_inverse_error_functions_against_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-1, 1, 101), [1e-300, 1 - 2.0**-53, -0.71, 0.7100001, 0.29, 1e-12]])
    y = np.concatenate([np.linspace(0, 2, 101), [1e-300, 5e-324, 1e-17, 0.29, 0.2899, 1.71, 1.7101, 1e-8]])
    table = np.zeros((27, x.size))
    got = run_both(transcendental, x.size, x, x, table, bits=False)[2]
    for values in got:
        assert (ulps(values[24], special.erfinv(x), "float64") <= 8).all()
    table = np.zeros((27, y.size))
    got = run_both(transcendental, y.size, y, y, table, bits=False)[2]
    for values in got:
        back = special.erfc(values[25])
        assert np.allclose(back, y, rtol=1e-12, atol=1e-323)
    tail = (y > 0) & (y < 1)  # where erfc has few digits, one tells little of the other
    assert (ulps(got[0][25, tail], got[1][25, tail], "float64") <= 8).all()


@tk.kernel
def reciprocal_roots(x: tk.array1d[Any], out: tk.array2d[Any]):
    i = tk.tid()
    t = tk.tile_load(x, shape=4096, offset=i * 4096)
    tk.tile_store(out[0], tk.rsqrt(t), offset=i * 4096)
    tk.tile_store(out[1], 1.0 / tk.sqrt(t), offset=i * 4096)
    for k in range(i * 8, i * 8 + 8):
        out[2, k] = tk.rsqrt(x[k])


@pytest.mark.parametrize("dtype", FLOATS)
def test_rsqrt_is_off_by_one_and_a_half_units_at_most(dtype: str) -> None:
    rng = np.random.default_rng(8)
    bits = np.arange(1 << 16, dtype=np.uint32) if "16" in dtype else rng.integers(0, 1 << 31, 1 << 16, np.uint32)
    wide = (bits.astype(np.uint64) << 32 | 12345) if dtype == "float64" else bits
    held = {"float16": np.uint16, "bfloat16": np.uint16, "float32": np.uint32, "float64": np.uint64}[dtype]
    x = wide.astype(held).view(converted([0.0], dtype).dtype)
    for out in run_both(reciprocal_roots, x.size // 4096, x, np.zeros((3, x.size), x.dtype))[1:]:
        with np.errstate(all="ignore"):
            got, exact = out[0].astype(np.longdouble), 1 / np.sqrt(x.astype(np.longdouble))
            assert np.array_equal(got[:128], out[2, :128].astype(np.longdouble), equal_nan=True)
        worst = ulps(got, exact, dtype).max()
        assert worst <= (0.505 if dtype in ("float16", "bfloat16") else 1.5), worst
        if dtype in ("float32", "float64"):
            same = (out[0] == out[1]) | (np.isnan(out[0]) & np.isnan(out[1]))
            assert same.all()


# Python's and the math module's names, literals, folding.


@tk.kernel
def python_names(x: tk.array1d[float], n: tk.array1d[int], out: tk.array1d[float]):
    a = x[0]
    out[0] = math.sin(a) + math.pi * math.fabs(a) + math.fmod(a, 2.0)
    out[1] = math.exp(1.0)
    out[2] = max(a, 0.0)
    out[3] = float(n[0]) / 2.0
    out[4] = float(int(a))
    out[5] = pow(a, 2.0)
    out[6] = float(min(n[0], n[1], 3))
    out[7] = float(bool(n[0])) + float(int(2.9)) + float(round(2.5))
    out[8] = tk.PI + tk.HALF_PI - tk.tau + tk.E
    out[9] = tk.where(a < tk.INF, math.sqrt(2.0), tk.NAN)
    out[10] = float(int(3 / 2)) + float(7 // 2) + float(-7 % 4)


def test_python_names() -> None:
    x, n = np.array([-1.25], F), np.array([7, 5], np.int32)
    arrays = run_both(python_names, 1, x, n, np.zeros(11, F), bits=False)
    for out in arrays[2]:
        expected = [math.sin(-1.25) + math.pi * 1.25 - 1.25, math.e, 0, 3.5, -1, 1.5625, 3, 1 + 2 + 3]
        expected += [math.pi + math.pi / 2 - math.tau + math.e, math.sqrt(2), 1 + 3 - 3]
        assert np.allclose(out, expected, rtol=3e-7)


@tk.kernel
def on_tiles(x: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_load(x, shape=8)
    u = tk.max(tk.sin(t), 0.0) + tk.clamp(t, -1.0, 1.0) * tk.where(t > 0.0, t, -t)
    tk.tile_store(out, tk.tile_map(tk.lerp, u, t, 0.5) + abs(t))


def test_tiles() -> None:
    x = np.linspace(-2, 2, 8).astype(F)
    for out in run_both(on_tiles, 1, x, np.zeros(8, F), bits=False)[1]:
        u = np.maximum(np.sin(x), 0) + np.clip(x, -1, 1) * np.abs(x)
        assert np.allclose(out, (u + x) / 2 + np.abs(x), atol=1e-6)


@tk.kernel
def int_sine(n: tk.array1d[int], x: tk.array1d[float]):
    x[0] = tk.sin(n[0])


@tk.kernel
def float_bits(n: tk.array1d[int], x: tk.array1d[float]):
    x[0] = x[0] & x[1]


@tk.kernel
def int_power(n: tk.array1d[int], x: tk.array1d[float]):
    n[0] = n[0] ** 2


@tk.kernel
def mixed_min(n: tk.array1d[int], x: tk.array1d[float]):
    x[0] = min(x[0], n[0])


@tk.kernel
def math_gamma(n: tk.array1d[int], x: tk.array1d[float]):
    x[0] = math.gamma(x[0])


@tk.kernel
def rounded_to_digits(n: tk.array1d[int], x: tk.array1d[float]):
    x[0] = round(x[0], 2)


@tk.kernel
def int_of_tile(n: tk.array1d[int], x: tk.array1d[float]):
    n[0] = int(tk.tile_load(x, shape=2))


@tk.kernel
def one_minimum(n: tk.array1d[int], x: tk.array1d[float]):
    x[0] = min(x[0])


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (int_sine, "sin needs floats, got an int32"),
        (float_bits, "'&' needs bools or integers, got a float32"),
        (int_power, r"'\*\*' needs floats, got an int32"),
        (mixed_min, r"min needs one dtype: x\[0\] is float32 but n\[0\] is int32; cast one of them"),
        (math_gamma, "math.gamma is not available on a kernel's run-time values"),
        (rounded_to_digits, r"round\(\) in a kernel takes one number"),
        (int_of_tile, r"convert the tile with tk.tile_astype\(t, tk.int32\)"),
        (one_minimum, "needs two or more numbers"),
    ],
)
def test_refused(kernel: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        tk.launch_tiled(kernel, dim=1, inputs=[np.zeros(2, np.int32), np.zeros(2, F)], block_dim=1)


def test_every_scalar_function_of_warp_is_there() -> None:
    context = pytest.importorskip("warp._src.context")
    left_out = {"int", "float"}  # Python's own, in kernels
    missing = []
    for name, function in context.builtin_functions.items():
        overloads = getattr(function, "overloads", None) or [function]
        if any(overload.group == "Scalar Math" for overload in overloads) and name not in left_out:
            missing += [name] if not hasattr(tk, name) else []
    assert missing == []
    with pytest.raises(TilekitError):
        _ = tk.no_such_function


def test_declarations_are_complete() -> None:
    scalar = [b for b in REGISTRY.values() if b.group == "Scalar math"]
    assert len(scalar) > 60
    assert {b.name: b.missing_rules() for b in scalar if b.missing_rules()} == {}


@pytest.mark.filterwarnings("error")
def test_folded_constants_are_silent_where_they_are_not_finite() -> None:
    assert math.isnan(tk.sqrt(-1.0))
    assert tk.exp(1e4) == math.inf
    assert tk.log(0.0) == -math.inf
