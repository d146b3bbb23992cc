"""The meaning of cvt, and of the atoms whose results the PTX ISA only bounds, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import numpy as np

from tilekit.builtins.atom_arithmetic import (
    ARITHMETIC,
    Types,
    integer_dtype,
    limits,
    narrowed,
    operand,
    propagated,
    result,
    to_direction,
)
from tilekit.builtins.atom_formats import FORMATS, Array, Format, bits_of, finished, flushed, is_nan

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _cvt(types: Types, rounding: str, flags: Set[str], a: Array) -> Array:
    to, source = types
    if source not in FORMATS:
        return _from_integer(to, rounding, flags, a)
    # A GPU keeps what is subnormal in f32 where the result is f16, also with .ftz.
    x = operand(a, source, flags if source == "f32" and to != "f16" else flags - {"ftz"})
    if to not in FORMATS:
        return _to_integer(_INTEGRAL[rounding](x), to, wide=source == "f64")
    if rounding in _INTEGRAL:
        found = _to_float(np.copysign(_INTEGRAL[rounding](x), x), to, "rn", flags)
    else:
        found = _to_float(x, to, rounding, flags)
    if "sat" in flags:
        return found
    bits, of = bits_of(a, FORMATS[source]), FORMATS[to]
    nans = _nan_converted(bits, types, rounding, flags).astype(of.dtype)
    return np.where(is_nan(bits, FORMATS[source]), result(nans, to), found)


def _nan_converted(bits: Array, types: Types, rounding: str, flags: Set[str]) -> Array:
    """What NaNs become, as measured on a GPU: where either type is f64 the payload's upper bits stay."""
    to, source = types
    if to == "tf32":
        if rounding != "rna":
            return np.full_like(bits, 0x7FFFE000)
        return (bits & np.uint32(0xFFFFE000)) - np.uint32(0x2000 if "satfinite" in flags else 0)
    if "ftz" not in flags and rounding not in _INTEGRAL:
        if to == source and to in ("f32", "f64"):
            return bits
        if (to, source) == ("f32", "bf16"):
            return bits.astype(np.uint32) << np.uint32(16)
    narrow, wide = FORMATS[source], FORMATS[to]
    if "f64" not in types:
        return np.full(bits.shape, wide.nan, wide.dtype)
    return _quieted(np.full_like(bits, narrow.nan) if "ftz" in flags and to == "f64" else bits, narrow, wide)


def _quieted(bits: Array, narrow: Format, wide: Format) -> Array:
    """NaNs in another format: the sign, and of the payload what is there in both."""
    sign = np.where(bits & narrow.dtype.type(narrow.sign) != 0, np.uint64(wide.sign), np.uint64(0))
    payload = bits.astype(np.uint64) & np.uint64((1 << (narrow.digits - 1)) - 1)
    more = wide.digits - narrow.digits
    payload = payload << np.uint64(more) if more > 0 else payload >> np.uint64(-more)
    return np.asarray(sign | payload | np.uint64(wide.infinity | 1 << (wide.digits - 2)))


def _to_float(x: Array, to: str, rounding: str, flags: Set[str]) -> Array:
    if to == "f64":
        bits = np.ascontiguousarray(x).view(np.uint64).reshape(x.shape)
        return result(finished(bits, np.isnan(x), FORMATS[to], flags), to)
    return narrowed(x, to, rounding, flags if to == "f32" else flags - {"ftz"}, once_rounded=True)


def _to_integer(x: Array, to: str, wide: bool) -> Array:
    low, high = limits(to)
    inside = (x > low - 1) & (x < high + 1) if high < 1 << 53 else (x >= low) & (x < float(high))
    found = np.where(inside, x, 0.0).astype(integer_dtype(to))
    found = np.where(~inside & (x > 0), high, np.where(~inside & (x < 0), low, found)).astype(found.dtype)
    bits = 8 * found.itemsize
    nan = np.asarray(1 << (bits - 1) if wide or bits == 64 else 0, f"uint{bits}").view(found.dtype)
    return np.where(np.isnan(x), nan, found)


def _from_integer(to: str, rounding: str, flags: Set[str], a: Array) -> Array:
    if to in FORMATS:
        exact = a.astype(np.float64)
        if to == "f64":
            near = exact if rounding == "rn" else to_direction(int, exact, rounding, a)
            return _to_float(near, to, rounding, flags)
        return _to_float(exact if a.itemsize < 8 else _to_odd(a), to, rounding, flags)
    low, high = limits(to)
    if "sat" in flags:
        own = np.iinfo(a.dtype)
        a = np.clip(a, max(low, int(own.min)), min(high, int(own.max)))
    return a.astype(integer_dtype(to))


def _to_odd(a: Array) -> Array:
    """64-bit integers as float64, truncated and the last bit set where that loses something."""

    def one(value: int) -> float:
        size = abs(int(value))
        drop = max(size.bit_length() - 53, 0)
        kept = size >> drop | (size & ((1 << drop) - 1) != 0)
        return float(kept << drop) * (-1 if value < 0 else 1)

    return np.asarray(np.frompyfunc(one, 1, 1)(a), np.float64).reshape(a.shape)


def _approximately(compute: Callable[..., Any]) -> Callable[..., Any]:
    """An atom by a function of float64, rounded once."""

    def function(types: Types, rounding: str, flags: Set[str], *given: Array) -> Array:
        of = FORMATS[types[0]]
        numbers = [operand(v, type, flags) for v, type in zip(given, types[1:], strict=True)]
        if types[0] == "f64":
            return _upper_words(compute, *given) if "ftz" in flags else propagated(compute(*numbers), *given)
        if types[0] == "bf16" and "ftz" in flags:
            numbers = [np.where(np.abs(x) < 2.0**of.least, np.copysign(0.0, x), x) for x in numbers]
        found = narrowed(np.asarray(compute(*numbers)), types[0], "rn", flags)
        bits = found.view(of.dtype)
        return result(flushed(bits, of) if "ftz" in flags else bits, types[0])

    return function


def _upper_words(compute: Callable[..., Any], a: Array) -> Array:
    """f64 with .ftz: from the upper word of the operand to the upper word of the result."""
    of, upper = FORMATS["f64"], np.uint64(0xFFFFFFFF << 32)
    word = flushed(a.view(np.uint64) & upper, of).view(np.float64)
    found = np.asarray(compute(word))
    bits = flushed(found.view(np.uint64) & upper, of)
    return np.where(np.isnan(found), np.uint64(0x7FFFFFFF << 32), bits).view(np.float64)


def _divided(x: Array, y: Array) -> Any:
    """div.approx is a * (1 / b), whose reciprocal is zero for large b."""
    large = (np.abs(y) > 2.0**126) & np.isfinite(y)
    return np.where(large, x * np.copysign(0.0, y), x / y)


_APPROXIMATED: dict[str, Callable[..., Any]] = {
    "ex2_approx": np.exp2,
    "lg2_approx": np.log2,
    "sin_approx": np.sin,
    "cos_approx": np.cos,
    "tanh_approx": np.tanh,
    "sqrt_approx": np.sqrt,
    "rcp_approx": lambda x: 1.0 / x,
    "rsqrt_approx": lambda x: 1.0 / np.sqrt(x),
    "div_full": lambda x, y: x / y,
    "div_approx": _divided,
}
FUNCTIONS = {
    **ARITHMETIC,
    "cvt": _cvt,
    **{name: _approximately(compute) for name, compute in _APPROXIMATED.items()},
}
"""What computes each atom, by the names that the functions have in C++."""
