"""The meaning of atoms of single values in NumPy. Each function takes types, rounding, modifiers and registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from fractions import Fraction
from typing import Any

import numpy as np

from tilekit.builtins.arithmetic import truncated_quotient
from tilekit.builtins.atom_formats import (
    FORMATS,
    Array,
    Format,
    bits_of,
    finished,
    flushed,
    is_nan,
    is_tiny,
    is_tiny_once_rounded,
    passed_on,
    rounded,
    to_float64,
)
from tilekit.builtins.exact import add_to_odd, fused

Types = Sequence[str]
ARITHMETIC: dict[str, Callable[..., Any]] = {}
"""By the names that the functions have in C++."""


def _function(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        ARITHMETIC[name] = function
        return function

    return keep


def result(bits: Array, type: str) -> Array:
    """Bits as a register holds them."""
    return bits.view(np.float32 if type == "f32" else np.float64 if type == "f64" else bits.dtype)


def operand(values: Array, type: str, flags: Set[str]) -> Array:
    """The numbers of an operand in float64."""
    of = FORMATS[type]
    bits = bits_of(values, of)
    return to_float64(flushed(bits, of) if "ftz" in flags and type in ("f32", "f16") else bits, of)


def narrowed(x: Array, type: str, rounding: str, flags: Set[str], once_rounded: bool = False) -> Array:
    """A result of fewer bits than float64, from its value in it or what that is rounded to odd from.

    ``.ftz`` decides before rounding, or ``once_rounded``.
    """
    of = FORMATS[type]
    tiny = None
    if "ftz" in flags:
        tiny = is_tiny_once_rounded(x, of, rounding) if once_rounded else is_tiny(x, of)
    return result(finished(rounded(x, of, rounding, tiny), np.isnan(x), of, flags), type)


def propagated(r: Array, *given: Array) -> Array:
    """f64 results whose NaNs are the first of these that is one, made quiet, else the default."""
    found = np.full(r.shape, FORMATS["f64"].nan, np.uint64)
    for values in reversed(given):
        quiet = passed_on(bits_of(values, FORMATS["f64"]), FORMATS["f64"])
        found = np.where(np.isnan(values), quiet, found)
    return np.where(np.isnan(r), found.view(np.float64), r)


# Sums and products.


def _sum(x: Array, y: Array, rounding: str) -> Array:
    """x + y in float64, rounded to odd; exact zeros have the sign that the rounding gives them."""
    total = add_to_odd(x, y)
    return np.where((total == 0) & (np.signbit(x) | np.signbit(y)), -0.0, total) if rounding == "rm" else total


def to_direction(compute: Callable[..., Any], nearest: Array, rounding: str, *given: Array) -> Array:
    """Results in float64 of a rounding other than to nearest, from the nearest ones and the exact value."""

    def one(near: float, *numbers: float) -> float:
        if not all(map(math.isfinite, numbers)) or math.isnan(near):
            return near
        return _directed(near, Fraction(compute(*map(Fraction, numbers))), rounding)

    return np.asarray(np.frompyfunc(one, 1 + len(given), 1)(nearest, *given), np.float64).reshape(nearest.shape)


def _directed(near: float, exact: Fraction, rounding: str) -> float:
    """The neighbour in a direction of an exact value whose nearest float is ``near``."""
    if math.isinf(near):
        above, below = near < 0, near > 0
    else:
        above, below = exact > Fraction(near), exact < Fraction(near)
    if (rounding == "rp" or (rounding == "rz" and near < 0)) and above:
        return math.nextafter(near, math.inf)
    if (rounding == "rm" or (rounding == "rz" and near > 0)) and below:
        return math.nextafter(near, -math.inf)
    return near


def _zero_to_minus(r: Array, rounding: str, product: Array, addend: Array) -> Array:
    """Exact zeros of a sum, which are negative where rounding goes down and the signs differ."""
    exact = (r == 0) & (product == -addend)
    return np.where(exact & (np.signbit(product) | np.signbit(addend)), -0.0, r) if rounding == "rm" else r


@_function("fma")
def _fma(types: Types, rounding: str, flags: Set[str], a: Array, b: Array, c: Array) -> Array:
    if types[0] == "f64":
        near = np.asarray(fused(a, b, c))
        if rounding != "rn":
            near = to_direction(lambda x, y, z: x * y + z, near, rounding, a, b, c)
        if rounding == "rm":
            zero = np.asarray(np.frompyfunc(_is_zero_sum, 3, 1)(a, b, c), bool)
            near = np.where(zero & (np.signbit(a) ^ np.signbit(b) | np.signbit(c)), -0.0, near)
        return propagated(near, b, c, a)
    x, y, z = (operand(v, type, flags) for v, type in zip((a, b, c), types[1:], strict=True))
    found = narrowed(_sum(x * y, z, rounding), types[0], rounding, flags, once_rounded=True)
    if "oob" in flags:
        outside = ((a & np.uint16(0x7FFF)) == 0x7FF7) | ((b & np.uint16(0x7FFF)) == 0x7FF7)
        found = np.where(outside, found.dtype.type(0), found)
    return found


def _is_zero_sum(x: float, y: float, z: float) -> bool:
    finite = math.isfinite(x) and math.isfinite(y) and math.isfinite(z)
    return finite and Fraction(x) * Fraction(y) + Fraction(z) == 0


@_function("add")
def _add(types: Types, rounding: str, flags: Set[str], a: Array, b: Array) -> Array:
    if types[0] not in FORMATS:
        return _integers(types[0], flags, lambda x, y: x + y, a, b)
    if types[0] == "f64":
        near = a + b
        if rounding != "rn":
            near = _zero_to_minus(to_direction(lambda x, y: x + y, near, rounding, a, b), rounding, a, b)
        return propagated(near, b, a)
    x, y = (operand(v, type, flags) for v, type in zip((a, b), types[1:], strict=True))
    return narrowed(_sum(x, y, rounding), types[0], rounding, flags)


@_function("sub")
def _sub(types: Types, rounding: str, flags: Set[str], a: Array, b: Array) -> Array:
    if types[0] not in FORMATS:
        return _integers(types[0], flags, lambda x, y: x - y, a, b)
    of = FORMATS[types[2]]
    bits = bits_of(b, of)
    minus = np.where(is_nan(bits, of), bits, bits ^ of.dtype.type(of.sign))
    return np.asarray(_add(types, rounding, flags, a, result(minus, types[2])))


@_function("mul")
def _mul(types: Types, rounding: str, flags: Set[str], a: Array, b: Array) -> Array:
    if types[0] not in FORMATS:
        return np.asarray(a * b)
    if types[0] == "f64":
        near = a * b
        if rounding != "rn":
            near = to_direction(lambda x, y: x * y, near, rounding, a, b)
        return propagated(near, b, a)
    x, y = (operand(v, type, flags) for v, type in zip((a, b), types[1:], strict=True))
    return narrowed(x * y, types[0], rounding, flags)


# Quotients and roots. Those of float32 are in float64 never on the wrong side of a float32, or of a midpoint of two.


@_function("div")
def _div(types: Types, rounding: str, flags: Set[str], a: Array, b: Array) -> Array:
    if types[0] not in FORMATS:
        return np.where(b == 0, ~np.zeros_like(a), truncated_quotient(a, b))
    if types[0] != "f64":
        return narrowed(operand(a, "f32", flags) / operand(b, "f32", flags), "f32", rounding, flags)
    near = a / b
    if rounding != "rn":
        infinite = b == 0
        found = to_direction(lambda x, y: x / y, near, rounding, a, np.where(infinite, 1.0, b))
        near = np.where(infinite, near, found)
    return propagated(near, a, b)


@_function("rcp")
def _rcp(types: Types, rounding: str, flags: Set[str], a: Array) -> Array:
    found = _div((types[0], *types), rounding, flags, np.ones_like(a), a)
    return propagated(found, a) if types[0] == "f64" else found


@_function("sqrt")
def _sqrt(types: Types, rounding: str, flags: Set[str], a: Array) -> Array:
    near = np.sqrt(operand(a, types[1], flags))
    if types[0] != "f64":
        return narrowed(near, "f32", rounding, flags)

    def one(root: float, x: float) -> float:
        if not math.isfinite(root):
            return root
        square, exact = Fraction(root) ** 2, Fraction(x)
        if square == exact or rounding == "rn":
            return root
        # A number on the root's side is as good as the root itself.
        return _directed(root, Fraction(root) + (1 if square < exact else -1), rounding)

    found = np.asarray(np.frompyfunc(one, 2, 1)(near, a), np.float64).reshape(near.shape)
    return propagated(found, a)


# Selection.


def _extreme(least: bool, types: Types, flags: Set[str], *given: Array) -> Array:
    best, *others = given
    for other in others:
        best = _lesser(least, types[0], flags, best, other)
    return best


def _lesser(least: bool, type: str, flags: Set[str], a: Array, b: Array) -> Array:
    if type not in FORMATS:
        r = np.minimum(a, b) if least else np.maximum(a, b)
        return np.maximum(r, r.dtype.type(0)) if "relu" in flags else r
    of = FORMATS[type]
    x, y = (bits_of(v, of) for v in (a, b))
    if "ftz" in flags:
        x, y = flushed(x, of), flushed(y, of)
    nans, sign, low = (is_nan(x, of), is_nan(y, of)), of.dtype.type(of.sign), of.dtype.type(of.sign - 1)
    signs = (x ^ y) & sign
    if "abs" in flags:
        x, y = x & low, y & low
    # Unsigned numbers that order like the floats.
    order = [np.where(v & sign != 0, ~v, v | sign) for v in (x, y)]
    first = order[0] < order[1] if least else order[0] > order[1]
    out = np.where(nans[0], y, np.where(nans[1] | first, x, y))
    if "xorsign" in flags:
        out = out & low | signs
    nan = nans[0] | nans[1] if "NaN" in flags else nans[0] & nans[1]
    return result(np.where(nan, passed_on(y, of), out).astype(of.dtype), type)


@_function("min")
def _min(types: Types, rounding: str, flags: Set[str], *given: Array) -> Array:
    return _extreme(True, types, flags, *given)


@_function("max")
def _max(types: Types, rounding: str, flags: Set[str], *given: Array) -> Array:
    return _extreme(False, types, flags, *given)


def _signed(type: str, flags: Set[str], a: Array, change: Callable[[Array, Format], Array]) -> Array:
    of = FORMATS[type]
    bits = bits_of(a, of)
    out = change(flushed(bits, of) if "ftz" in flags else bits, of)
    return result(np.where(is_nan(bits, of), passed_on(bits, of), out).astype(of.dtype), type)


@_function("abs")
def _abs(types: Types, rounding: str, flags: Set[str], a: Array) -> Array:
    if types[0] not in FORMATS:
        return np.abs(a)
    return _signed(types[0], flags, a, lambda bits, of: bits & of.dtype.type(of.sign - 1))


@_function("neg")
def _neg(types: Types, rounding: str, flags: Set[str], a: Array) -> Array:
    if types[0] not in FORMATS:
        return -a
    return _signed(types[0], flags, a, lambda bits, of: bits ^ of.dtype.type(of.sign))


# Integers.


def limits(type: str) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    info = np.iinfo(integer_dtype(type))
    return int(info.min), int(info.max)


def integer_dtype(type: str) -> np.dtype[Any]:
    """``s32`` as NumPy's int32."""
    return np.dtype(f"{'int' if type[0] == 's' else 'uint'}{type[1:]}")


def _integers(type: str, flags: Set[str], compute: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    if "sat" in flags:
        return np.clip(compute(a.astype(np.int64), b.astype(np.int64)), *limits(type)).astype(a.dtype)
    return compute(a, b)


@_function("mul_hi")
def _mul_hi(types: Types, rounding: str, flags: Set[str], a: Array, b: Array) -> Array:
    bits = 8 * a.itemsize
    high = np.frompyfunc(lambda x, y: (int(x) * int(y)) >> bits, 2, 1)(a, b)
    return np.asarray(high).astype(a.dtype)


@_function("mul_wide")
def _mul_wide(types: Types, rounding: str, flags: Set[str], a: Array, b: Array) -> Array:
    wide = integer_dtype(types[0])
    return np.asarray(a.astype(wide) * b.astype(wide))
