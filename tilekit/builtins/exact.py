"""Fused multiply-add in NumPy: one rounding, the same bits as the machine's instruction."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SPLIT = np.float64(2**27 + 1)


def fused(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` rounded once, in float32 where all three are, else in float64.

    Example:
        >>> tiny = np.float64(2.0**-60)
        >>> fused(np.float64(1 + 2.0**-30), np.float64(1 - 2.0**-30), np.float64(-1.0)) == -tiny
        np.True_
    """
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    with np.errstate(all="ignore"):
        if a.dtype == b.dtype == c.dtype == np.float32:
            return _fused_float32(a.astype(np.float64) * b, c.astype(np.float64))
        return _fused_float64(*np.broadcast_arrays(a.astype(np.float64), b.astype(np.float64), c.astype(np.float64)))


def _fused_float32(product: Array, c: Array) -> Array:
    """The sum of an exact product and a float32, both in float64, rounded once to float32."""
    total = np.asarray(product + c)
    halfway = total.view(np.int64) & ((1 << 29) - 1) == 1 << 28
    # Between the midpoints of float32 rounding twice is rounding once; on them what the sum lost decides.
    small = (np.abs(total) < np.finfo(np.float32).smallest_normal) & (total != 0)
    if not halfway.any() and not small.any():
        return total.astype(np.float32)
    return np.asarray(add_to_odd(product, c).astype(np.float32))


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and what rounding lost."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add_to_odd(a: Array, b: Array) -> Array:
    """``a + b`` rounded to odd: truncated, and the last bit set where that lost something."""
    total, lost = two_sum(a, b)
    bits = total.view(np.int64) if total.ndim else total[None].view(np.int64)[0]
    inexact = np.isfinite(lost) & (lost != 0) & (bits & 1 == 0)
    odd = np.asarray(np.where((lost > 0) == (total > 0), bits + 1, bits - 1)).view(np.float64)
    return np.where(inexact, odd, total)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def _fused_float64(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond's algorithm; numbers near the ends of the range go through rationals."""
    product, low = _two_product(a, b)
    middle, last = two_sum(c, low)
    high, rest = two_sum(product, middle)
    result = high + add_to_odd(rest, last)
    plain = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, product + c)  # the product may overflow
    known = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    size = np.maximum(np.abs(a), np.abs(b))
    extreme = known & ((size > 1e290) | (np.abs(product) > 1e290) | (np.abs(product) < 1e-250) | (np.abs(c) > 1e290))
    result = np.where(known & (result != 0), result, plain)
    for index in zip(*np.nonzero(extreme), strict=True) if result.ndim else [()] if extreme else []:
        result[index] = _by_rationals(float(a[index]), float(b[index]), float(c[index]))
    return result


def _by_rationals(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
