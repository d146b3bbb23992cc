"""Floating-point formats in NumPy: values and bits, and rounding once in any of PTX's directions."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_F64_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True)
class Format:
    """A format: its bits in all and in the significand, and how many of the lowest ones are always zero."""

    width: int
    digits: int
    exponents: int
    unused: int = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The unsigned integers that hold its bits."""
        return np.dtype(f"uint{self.width}")

    @property
    def least(self) -> int:
        """The exponent of the least normal number."""
        return 2 - (1 << (self.exponents - 1))

    @property
    def infinity(self) -> int:
        return ((1 << self.exponents) - 1) << (self.digits - 1 + self.unused)

    @property
    def largest(self) -> int:
        return self.infinity - (1 << self.unused)

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def nan(self) -> int:
        """The NaN that results are; of f64, the one that no operand brought."""
        return 0xFFF8 << 48 if self.width == 64 else self.sign - 1

    @property
    def one(self) -> int:
        return ((1 << (self.exponents - 1)) - 1) << (self.digits - 1 + self.unused)


FORMATS = {
    "f16": Format(16, 11, 5),
    "bf16": Format(16, 8, 8),
    "f32": Format(32, 24, 8),
    "f64": Format(64, 53, 11),
    "tf32": Format(32, 11, 8, 13),
}


def bits_of(values: Any, of: Format) -> Array:
    """The bits of numbers, of which some are given by their bits."""
    return np.ascontiguousarray(values).view(of.dtype).reshape(np.shape(values))


def is_nan(bits: Array, of: Format) -> Array:
    """Where bits are a NaN's."""
    return np.asarray((bits & of.dtype.type(of.sign - 1)) > of.infinity)


def passed_on(nans: Array, of: Format) -> Array:
    """What NaNs are where they are passed on: in f64 the same made quiet, else the only one that results are."""
    return nans | of.dtype.type(1 << 51) if of.width == 64 else np.full_like(nans, of.nan)


def to_float64(bits: Array, of: Format) -> Array:
    """The numbers that bits are, exactly."""
    if of.width == 64:
        return bits.view(np.float64)
    if of == FORMATS["f16"]:
        return bits.view(np.float16).astype(np.float64)
    wide = bits.astype(np.uint32) << np.uint32(32 - of.width)
    return (wide & np.uint32(0x100000000 - (1 << of.unused))).view(np.float32).astype(np.float64)


def flushed(bits: Array, of: Format) -> Array:
    """Subnormal numbers made zeros of their sign."""
    size = bits & of.dtype.type(of.sign - 1)
    return np.where(size < 1 << (of.digits - 1), bits & of.dtype.type(of.sign), bits).astype(of.dtype)


def rounded(x: Array, of: Format, mode: str, tiny: Array | None = None) -> Array:
    """The bits of float64 numbers, or of what they are rounded to odd from, rounded once; what is ``tiny`` is zero."""
    bits = np.ascontiguousarray(x, np.float64).view(np.uint64).reshape(np.shape(x))
    size, negative = bits & ~_F64_SIGN, bits >= _F64_SIGN
    if of.width == 64:
        return bits
    exponent = (size >> np.uint64(52)).astype(np.int64) - 1023
    normal = np.maximum(exponent, of.least)
    shift = np.minimum(53 - of.digits + normal - exponent, 63).astype(np.uint64)
    significand = size & np.uint64((1 << 52) - 1) | ((exponent > -1023).astype(np.uint64) << np.uint64(52))
    kept = significand >> shift
    rest, half = significand - (kept << shift), np.uint64(1) << (shift - np.uint64(1))
    kept = kept + _rounds_up(mode, kept, rest, half, negative)
    out = ((normal - of.least).astype(np.uint64) << np.uint64(of.digits - 1)) + kept
    top = of.infinity >> of.unused
    beyond = np.where((size == np.uint64(0x7FF << 52)) | _overflows(mode, negative), top, top - 1)
    out = np.where(out >= top, beyond, out).astype(np.uint64)
    if tiny is not None:
        out = np.where(tiny, np.uint64(0), out)
    out = out << np.uint64(of.unused) | np.where(negative, np.uint64(of.sign), np.uint64(0))
    return out.astype(of.dtype)


def is_tiny(x: Array, of: Format) -> Array:
    """Where numbers are below the least normal one before they are rounded."""
    return np.asarray(np.abs(x) < 2.0**of.least)


def is_tiny_once_rounded(x: Array, of: Format, mode: str) -> Array:
    """Where they are still below it when they are rounded to as many digits with exponents of any size.

    Example:
        >>> import numpy as np
        >>> nearly = np.array([1 - 2.0**-25, 1 - 2.0**-24]) * 2.0**-126  # the first is rounded up
        >>> is_tiny(nearly, FORMATS["f32"]), is_tiny_once_rounded(nearly, FORMATS["f32"], "rn")
        (array([ True,  True]), array([False,  True]))
    """
    size, least = np.abs(x), 2.0**of.least
    if mode == "rn":
        return np.asarray(size < least * (1 - 2.0 ** -(of.digits + 1)))  # the midpoint is rounded to even, which is up
    away = x > 0 if mode == "rp" else x < 0 if mode == "rm" else False
    return np.asarray(np.where(away, size <= least * (1 - 2.0**-of.digits), size < least))


def _rounds_up(mode: str, kept: Array, rest: Array, half: Array, negative: Array) -> Array:
    if mode == "rn":
        up = (rest > half) | ((rest == half) & (kept & np.uint64(1) == 1))
    elif mode == "rna":
        up = rest >= half
    else:
        up = (rest > 0) & (negative if mode == "rm" else ~negative) & (mode != "rz")
    return np.asarray(up).astype(np.uint64)


def _overflows(mode: str, negative: Array) -> Array:
    if mode in ("rm", "rp"):
        return negative if mode == "rm" else ~negative
    return np.full(negative.shape, mode != "rz")


def finished(bits: Array, nan: Array, of: Format, flags: Set[str]) -> Array:
    """Results after their modifiers, NaNs made the only one that the format has."""
    out = np.where(nan, of.nan, bits).astype(of.dtype)
    if "satfinite" in flags:
        infinite = out & of.dtype.type(of.sign - 1) == of.infinity
        out = np.where(infinite, out - of.dtype.type(of.infinity - of.largest), out)
    if "sat" in flags:
        out = np.where(out > of.infinity, 0, np.minimum(out, of.dtype.type(of.one))).astype(of.dtype)
    if "relu" in flags:
        out = np.where((out >= of.sign) & ~nan, 0, out).astype(of.dtype)
    return out
