"""Binary floating-point numbers as integers of any size: what each format holds, exact arithmetic, one rounding."""

from __future__ import annotations

import math
from typing import NamedTuple


class Format(NamedTuple):
    """A binary floating-point format."""

    width: int
    digits: int
    exponents: int

    @property
    def low(self) -> int:
        """The exponent of the least subnormal."""
        return 3 - (1 << (self.exponents - 1)) - self.digits

    @property
    def infinity(self) -> int:
        return ((1 << self.exponents) - 1) << (self.digits - 1)

    @property
    def sign(self) -> int:
        return 1 << (self.exponents + self.digits - 1)

    @property
    def nan(self) -> int:
        return self.sign - 1

    @property
    def one(self) -> int:
        return ((1 << (self.exponents - 1)) - 1) << (self.digits - 1)


FORMATS = {
    "f16": Format(16, 11, 5),
    "bf16": Format(16, 8, 8),
    "f32": Format(32, 24, 8),
    "f64": Format(64, 53, 11),
    "tf32": Format(32, 11, 8),
}


class Number(NamedTuple):
    """A value: ``(-1)**sign * size * 2**exponent``, with ``kind`` empty, ``inf`` or ``nan``."""

    sign: int
    size: int
    exponent: int
    kind: str = ""


def decode(bits: int, of: Format) -> Number:
    sign, field = int(bits & of.sign != 0), (bits & (of.sign - 1)) >> (of.digits - 1)
    fraction = bits & ((1 << (of.digits - 1)) - 1)
    if field == (1 << of.exponents) - 1:
        return Number(sign, 0, 0, "nan" if fraction else "inf")
    if field == 0:
        return Number(sign, fraction, of.low)
    return Number(sign, fraction | 1 << (of.digits - 1), of.low + field - 1)


def rounds_up(mode: str, sign: int, odd: int, rest: int, half: int) -> bool:
    if mode in ("rn", "rni"):
        return rest > half or (rest == half and odd == 1)
    if mode == "rna":
        return rest >= half
    return rest > 0 and mode[:2] == ("rm" if sign else "rp")


def encode(x: Number, of: Format, mode: str) -> int:
    """The bits of a value rounded once."""
    high = of.sign if x.sign else 0
    if x.kind:
        return of.nan if x.kind == "nan" else high | of.infinity
    if x.size == 0:
        return high
    last = max(x.exponent + x.size.bit_length() - of.digits, of.low)
    drop = last - x.exponent
    if drop <= 0:
        kept = x.size << -drop
    else:
        kept, rest = x.size >> drop, x.size & ((1 << drop) - 1)
        kept += rounds_up(mode, x.sign, kept & 1, rest, 1 << (drop - 1))
    bits = kept + ((last - of.low) << (of.digits - 1))
    if bits >= of.infinity:
        away = mode in ("rn", "rna") or mode == ("rm" if x.sign else "rp")
        bits = of.infinity if away else of.infinity - 1
    return high | bits


def is_tiny(x: Number, of: Format) -> bool:
    """Whether it is below the least normal number before any rounding, and not zero."""
    return x.size > 0 and x.size.bit_length() + x.exponent <= of.low + of.digits - 1


def is_tiny_once_rounded(x: Number, of: Format, mode: str) -> bool:
    """Whether it is below the least normal number when it is rounded to as many digits with exponents of any size."""
    unbounded = Format(of.width, of.digits, of.exponents + 3)  # so wide that nothing here is subnormal
    return is_tiny(x, of) and is_tiny(decode(encode(x, unbounded, mode), unbounded), of)


def flushed(x: Number, of: Format) -> Number:
    return Number(x.sign, 0, 0) if is_tiny(x, of) else x


def add(x: Number, y: Number, mode: str) -> Number:
    if "nan" in (x.kind, y.kind) or (x.kind == y.kind == "inf" and x.sign != y.sign):
        return Number(0, 0, 0, "nan")
    if x.kind or y.kind:
        return x if x.kind else y
    low = min(x.exponent, y.exponent)
    total = sum((-1) ** n.sign * (n.size << (n.exponent - low)) for n in (x, y))
    if total == 0:
        same = x.sign == y.sign and x.size == y.size == 0
        return Number(x.sign if same else int(mode == "rm"), 0, 0)
    return Number(int(total < 0), abs(total), low)


def mul(x: Number, y: Number) -> Number:
    sign = x.sign ^ y.sign
    if "nan" in (x.kind, y.kind):
        return Number(0, 0, 0, "nan")
    if x.kind or y.kind:
        zero = (not x.kind and x.size == 0) or (not y.kind and y.size == 0)
        return Number(sign, 0, 0, "nan" if zero else "inf")
    return Number(sign, x.size * y.size, x.exponent + y.exponent)


WIDE = 160
"""Bits of a quotient or root that are more than any format keeps; the last one says whether there are others."""


def divide(x: Number, y: Number) -> Number:
    sign = x.sign ^ y.sign
    if "nan" in (x.kind, y.kind) or (x.kind and y.kind):
        return Number(0, 0, 0, "nan")
    if x.kind or y.kind:
        return Number(sign, 0, 0, "inf" if x.kind else "")
    if y.size == 0:
        return Number(sign, 0, 0, "nan" if x.size == 0 else "inf")
    quotient, rest = divmod(x.size << WIDE, y.size)
    return Number(sign, 2 * quotient + (rest > 0), x.exponent - y.exponent - WIDE - 1)


def root(x: Number) -> Number:
    if x.kind == "nan" or (x.sign and (x.kind or x.size)):
        return Number(0, 0, 0, "nan")
    if x.kind or x.size == 0:
        return x
    shift = WIDE + (x.exponent - WIDE) % 2
    whole = math.isqrt(x.size << shift)
    return Number(0, 2 * whole + (whole * whole != x.size << shift), (x.exponent - shift) // 2 - 1)
