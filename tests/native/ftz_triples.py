"""Triples whose fma is next to the least normal number, for finding out which results a GPU's ``.ftz`` flushes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.builtins import exact_numbers
from tests.builtins.exact_numbers import FORMATS, Format

Array = np.ndarray[Any, Any]
U64 = np.uint64


def inverse(odd: Array) -> Array:
    """The inverses of odd numbers modulo 2**64."""
    found = odd.copy()
    for _ in range(6):
        found *= U64(2) - odd * found
    return found


def bits(sign: Array, size: Array, exponent: Array, of: Format) -> Array:
    """Bits of (-1)**sign * size * 2**exponent, where size has all digits, or is zero."""
    field = np.where(size == 0, 0, exponent - of.low + 1).astype(U64)
    fraction = size & U64((1 << (of.digits - 1)) - 1)
    return np.asarray(sign.astype(U64) * U64(of.sign) | field << U64(of.digits - 1) | fraction)


def offsets(rng: Any, count: int, step: Array) -> Array:
    """How far from the least normal number, in units of ``2**-step`` of the least subnormal: from -2 to 1 of them.

    Besides any, those next to -1, -1/2, -1/4 and 0, which tell rounding rules apart.
    """
    scale = 2.0**step
    anything = np.floor(rng.uniform(-2, 1, count) * scale)
    near = np.round(rng.choice([-1.5, -1.0, -0.75, -0.5, -0.375, -0.25, -0.125, 0.0, 0.5], count) * scale)
    near += rng.integers(-1, 2, count) * (rng.integers(0, 2, count))
    return np.where(rng.integers(0, 3, count) == 0, anything, near).astype(np.int64)


def _exponents(rng: Any, total: Array, of: Format) -> tuple[Array, Array]:
    """Two exponents of normal numbers that add up to ``total``."""
    high = of.low + (1 << of.exponents) - 3
    least, most = np.maximum(of.low, total - high), np.minimum(high, total - of.low)
    first = rng.integers(least, np.maximum(most, least) + 1)
    return first, total - first


def cancelling(rng: Any, count: int, of: Format, larger: str) -> tuple[Array, Array, Array]:
    """Product and addend of about one size and other signs, whose sum is the least normal number and an offset.

    The product's lower half is the offset: its factors are chosen by the inverse of one. The addend takes away the
    upper half. ``larger`` says which of the two is: ``product`` or ``addend``.
    """
    p = of.digits
    x = rng.integers(-p, 0, count)
    low = offsets(rng, count, -x)
    b = (rng.integers(1 << (p - 1), 1 << p, count) | 1).astype(U64)
    target = low.astype(np.int64).view(U64) if larger == "product" else (-low).astype(np.int64).view(U64)
    a = (target * inverse(b)) & U64((1 << p) - 1)
    whole = (a * b - target).astype(np.int64) >> p  # in units of 2**(p + x) least subnormals
    normal = np.int64(1) << (-1 - x)  # the least normal number in these
    c = whole - normal if larger == "product" else whole + normal
    keep = (a >= 1 << (p - 1)) & (c >= 1 << (p - 1)) & (c < 1 << p) & (low.astype(float) >= -(2.0**p))
    a, b, c, x = (v[keep] for v in (a, b, c.astype(U64), x))
    ea, eb = _exponents(rng, x + of.low, of)
    sign = rng.integers(0, 2, len(a))
    other = rng.integers(0, 2, len(a))
    return bits(sign ^ other, a, ea, of), bits(other, b, eb, of), bits(1 - sign, c, x + p + of.low, of)


def added(rng: Any, count: int, of: Format) -> tuple[Array, Array, Array]:
    """An addend a few units above the least normal number, and a product that is as much and an offset, or tiny."""
    p = of.digits
    above = np.minimum(np.floor(2.0 ** rng.uniform(-1, p - 2, count)), (1 << (p - 1)) - 1).astype(np.int64)
    away = rng.choice([1.5, 1.0, 0.75, 0.5, 0.25, 0.125], count) * (
        1 + rng.choice([0, 1, -1], count) * 2.0 ** -rng.integers(1, 2 * p, count)
    )
    size = np.where(rng.integers(0, 4, count) == 0, 2.0 ** -rng.uniform(1, 3 * p, count), above + away)
    b = rng.integers(1 << (p - 1), 1 << p, count)
    exponent = np.floor(np.log2(size)).astype(np.int64) - 2 * p + 1  # of the product of two significands, about
    a = np.round(size / (b * 2.0**exponent)).astype(np.int64)
    shift = (a < 1 << (p - 1)).astype(np.int64)
    a, exponent = a << shift, exponent - shift
    keep = (a >= 1 << (p - 1)) & (a < 1 << p) & (exponent + of.low >= 2 * of.low)
    a, b, above, exponent = (v[keep] for v in (a, b, above, exponent))
    ea, eb = _exponents(rng, exponent + of.low, of)
    sign, other = rng.integers(0, 2, len(a)), rng.integers(0, 2, len(a))
    c = bits(1 - sign, (above + (1 << (p - 1))).astype(U64), np.full(len(a), of.low), of)
    return bits(sign ^ other, a.astype(U64), ea, of), bits(other, b.astype(U64), eb, of), c


def alone(rng: Any, count: int, of: Format) -> tuple[Array, Array, Array]:
    """A product about the least normal number, and nothing added to it."""
    p = of.digits
    b = rng.integers(1 << (p - 1), 1 << p, count)
    size = 2.0 ** (p - 1) + offsets(rng, count, np.full(count, 12)) / 4096
    a = np.round(size * 2.0**p / b).astype(np.int64) + rng.integers(0, 2, count)
    keep = (a >= 1 << (p - 1)) & (a < 1 << p)
    a, b = a[keep].astype(U64), b[keep].astype(U64)
    ea, eb = _exponents(rng, np.full(len(a), of.low - p), of)
    sign, other = rng.integers(0, 2, len(a)), rng.integers(0, 2, len(a))
    zero = rng.integers(0, 2, len(a)).astype(U64) * U64(of.sign)
    return bits(sign, a, ea, of), bits(other, b, eb, of), zero


def families(type: str, count: int, seed: int = 3) -> dict[str, tuple[Array, Array, Array]]:
    """Triples of a type by how their results come about."""
    of, rng = FORMATS[type], np.random.default_rng(seed)
    return {
        "product alone": alone(rng, count, of),
        "addend and less": added(rng, count, of),
        "larger product": cancelling(rng, 4 * count, of, "product"),
        "larger addend": cancelling(rng, 4 * count, of, "addend"),
    }


GPUS_RULE = "after rounding"
"""Which of the rules an H200 follows, on all triples that it was asked about: 300,000 of f32 and 80,000 of f16."""


def rules(type: str, mode: str, a: int, b: int, c: int) -> dict[str, bool]:
    """Whether the result is flushed, by the GPU's rule and by others."""
    of = FORMATS[type]
    product = exact_numbers.mul(exact_numbers.decode(a, of), exact_numbers.decode(b, of))
    exact = exact_numbers.add(product, exact_numbers.decode(c, of), mode)
    before = exact_numbers.is_tiny(exact, of)
    return {
        "before rounding": before,
        GPUS_RULE: exact_numbers.is_tiny_once_rounded(exact, of, mode),
        "subnormal result": before and exact_numbers.encode(exact, of, mode) & (of.sign - 1) < 1 << (of.digits - 1),
    }
