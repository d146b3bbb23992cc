"""What PTX atoms compute, in Python's integers, from the spelling alone: slow, exact, and no code of tilekit's."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
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
INTEGERS = re.compile(r"([us])(8|16|32|64)$")
ANY_NAN = -1
"""Expected where some NaN is, but not which: in f64, and where the PTX ISA says that it is not specified."""


ANY_VALUE = -2
"""Expected where the PTX ISA leaves the result open."""


class Number(NamedTuple):
    """A value: ``(-1)**sign * size * 2**exponent``, with ``kind`` empty, ``inf`` or ``nan``."""

    sign: int
    size: int
    exponent: int
    kind: str = ""


@dataclass(frozen=True)
class Spelled:
    """A spelling taken apart."""

    mnemonic: str
    rounding: str
    flags: frozenset[str]
    types: tuple[str, ...]


ROUNDINGS = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"}


@cache
def spelled(text: str) -> Spelled:
    mnemonic, *tokens = text.split(".")
    types = [t for t in tokens if re.fullmatch(r"(b?f|tf|[us])\d+(x2)?", t)]
    rest = [t for t in tokens if t not in types]
    rounding = next((t for t in rest if t in ROUNDINGS), "rn")
    return Spelled(mnemonic, rounding, frozenset(rest) - ROUNDINGS, tuple(types))


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


def finish(bits: int, of: Format, flags: frozenset[str]) -> int:
    """What the modifiers of the result make of its bits."""
    nan = bits & (of.sign - 1) > of.infinity
    if "sat" in flags:
        return 0 if nan or bits & of.sign else min(bits, of.one)
    if "relu" in flags and not nan and bits & of.sign:
        return 0
    if "satfinite" in flags and bits & (of.sign - 1) == of.infinity:
        bits -= 1
    return ANY_NAN if nan and of.width == 64 else bits


def result(x: Number, of: Format, how: Spelled) -> int:
    """Flush, round, and apply the modifiers."""
    ftz = "ftz" in how.flags and of.width != 64
    return finish(encode(flushed(x, of) if ftz else x, of, how.rounding), of, how.flags)


def lesser(x: int, y: int, of: Format, how: Spelled) -> int:
    """min and max of two floats."""
    numbers = [decode(bits, of) for bits in (x, y)]
    if "ftz" in how.flags:
        x, y = (bits & of.sign if is_tiny(n, of) else bits for bits, n in zip((x, y), numbers, strict=True))
    sign = (x ^ y) & of.sign
    nans = [n.kind == "nan" for n in numbers]
    if all(nans) or (any(nans) and "NaN" in how.flags):
        return ANY_NAN if of.width == 64 else of.nan
    if "abs" in how.flags:
        x, y = x & (of.sign - 1), y & (of.sign - 1)
    order = sorted((v for v, nan in zip((x, y), nans, strict=True) if not nan), key=lambda v: _order(v, of))
    best = order[0 if how.mnemonic == "min" else -1]
    return best & (of.sign - 1) | sign if "xorsign" in how.flags else best


def _order(bits: int, of: Format) -> int:
    return -(bits & (of.sign - 1)) - 1 if bits & of.sign else bits


def float_atom(how: Spelled, operands: tuple[int, ...], types: tuple[str, ...]) -> int:
    """An atom whose result is a float, on single values; ``types`` are those of all operands."""
    of = FORMATS[types[0]]
    formats = [FORMATS[t] for t in types[1:]]
    if how.mnemonic in ("min", "max"):
        best = lesser(operands[0], operands[1], of, how)
        return best if len(operands) == 2 else lesser(best if best != ANY_NAN else of.nan, operands[2], of, how)
    given = [decode(bits, form) for bits, form in zip(operands, formats, strict=True)]
    if "ftz" in how.flags:
        given = [flushed(n, form) for n, form in zip(given, formats, strict=True)]
    if how.mnemonic in ("abs", "neg"):
        n = given[0]
        x = n._replace(sign=0 if how.mnemonic == "abs" else 1 - n.sign)
        return result(x, of, how)
    if how.mnemonic == "fma" and "oob" in how.flags and 0x7FF7 in (operands[0] & 0x7FFF, operands[1] & 0x7FFF):
        return 0
    return result(exact(how, given), of, how)


def exact(how: Spelled, given: list[Number]) -> Number:
    """The value before it is rounded."""
    one = Number(0, 1, 0)
    match how.mnemonic:
        case "fma":
            return add(mul(given[0], given[1]), given[2], how.rounding)
        case "add":
            return add(given[0], given[1], how.rounding)
        case "sub":
            return add(given[0], given[1]._replace(sign=1 - given[1].sign), how.rounding)
        case "mul":
            return mul(given[0], given[1])
        case "div":
            return divide(given[0], given[1])
        case "rcp":
            return divide(one, given[0])
        case "sqrt":
            return root(given[0])
    raise NotImplementedError(how.mnemonic)


def expected(text: str, *operands: int) -> int:
    """The bits of an exact atom's result, or ANY_NAN.

    Operands are bits. Of packed types each value is computed apart; a mixed form's operands have the types spelled.
    """
    how = spelled(text)
    types = how.types
    if how.mnemonic == "cvt":
        return convert(how, operands)
    if len(types) == 1:
        types = types * (len(operands) + 1)
    elif len(types) == 2:  # f32.f16: the last operand and the result are wide
        types = (types[0], *[types[1]] * (len(operands) - 1), types[0])
    if types[0].endswith("x2"):
        singles = tuple(t.removesuffix("x2") for t in types)
        parts = [[bits >> shift * width_of(t) & ((1 << width_of(t)) - 1) for bits, t in
                  zip(operands, singles[1:], strict=True)] for shift in (0, 1)]  # fmt: skip
        low, high = (single(how, tuple(part), singles) for part in parts)
        return low | high << width_of(singles[0])
    return single(how, operands, types)


def width_of(type: str) -> int:
    return FORMATS[type].width if type in FORMATS else int(re.sub(r"\D", "", type))


def single(how: Spelled, operands: tuple[int, ...], types: tuple[str, ...]) -> int:
    return (float_atom if types[0] in FORMATS else integer_atom)(how, operands, types)


def signed(bits: int, type: str) -> int:
    width = width_of(type)
    return bits - (1 << width) if type[0] == "s" and bits >> (width - 1) else bits


def limits(type: str) -> tuple[int, int]:
    width = width_of(type)
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if type[0] == "s" else (0, (1 << width) - 1)


def integer_atom(how: Spelled, operands: tuple[int, ...], types: tuple[str, ...]) -> int:
    type = types[0]
    given = [signed(bits, type) for bits in operands]
    width, (low, high) = width_of(type), limits(type)
    match how.mnemonic:
        case "add" | "sub":
            value = given[0] + given[1] * (1 if how.mnemonic == "add" else -1)
        case "mul":
            value = given[0] * given[1]
            if "wide" in how.flags:
                return value & ((1 << 2 * width) - 1)
            value = value >> width if "hi" in how.flags else value
        case "div":
            if given[1] == 0:
                return ANY_VALUE
            value = abs(given[0]) // abs(given[1]) * (1 if (given[0] < 0) == (given[1] < 0) else -1)
        case "min" | "max":
            value = (min if how.mnemonic == "min" else max)(given)
            value = max(value, 0) if "relu" in how.flags else value
        case "abs":
            value = abs(given[0])
        case "neg":
            value = -given[0]
        case _:
            raise NotImplementedError(how.mnemonic)
    if "sat" in how.flags:
        value = max(low, min(high, value))
    return value & ((1 << width) - 1)


def convert(how: Spelled, operands: tuple[int, ...]) -> int:
    to, source = how.types[0], how.types[1]
    if to.endswith("x2"):
        high, low = (_convert_one(how, bits, to.removesuffix("x2"), source) for bits in operands)
        return low | high << width_of(to.removesuffix("x2"))
    return _convert_one(how, operands[0], to, source)


def _convert_one(how: Spelled, bits: int, to: str, source: str) -> int:
    if source not in FORMATS:
        value = signed(bits, source)
        if to not in FORMATS:
            low, high = limits(to)
            value = max(low, min(high, value)) if "sat" in how.flags else value
            return value & ((1 << width_of(to)) - 1)
        return result(Number(int(value < 0), abs(value), 0), FORMATS[to], how)
    x = decode(bits >> 13 if source == "tf32" else bits, FORMATS[source])
    if "ftz" in how.flags and source == "f32":
        x = flushed(x, FORMATS["f32"])
    if to not in FORMATS:
        return _to_integer(x, how, to, source)
    if how.rounding.endswith("i"):
        x = _integral(x, how.rounding)
    if to == "tf32":
        found = result(x, FORMATS[to], how)
        return FORMATS["f32"].nan if found == FORMATS[to].nan else found << 13
    if to == "f32" and source == "bf16" and x.kind == "nan" and "sat" not in how.flags:
        return ANY_NAN
    ftz = how.flags if to == "f32" else how.flags - {"ftz"}
    return result(x, FORMATS[to], Spelled("cvt", how.rounding, ftz, how.types))


def _integral(x: Number, mode: str) -> Number:
    if x.kind or x.exponent >= 0 or x.size == 0:
        return x
    drop = -x.exponent
    kept, rest = x.size >> drop, x.size & ((1 << drop) - 1)
    return Number(x.sign, kept + rounds_up(mode, x.sign, kept & 1, rest, 1 << (drop - 1)), 0)


def _to_integer(x: Number, how: Spelled, to: str, source: str) -> int:
    width, (low, high) = width_of(to), limits(to)
    if x.kind == "nan":
        return 1 << (width - 1) if source == "f64" or width == 64 else 0
    if x.kind:
        value = low if x.sign else high
    else:
        whole = _integral(x, how.rounding)
        value = (-1) ** x.sign * (whole.size << whole.exponent if whole.exponent >= 0 else 0)
    return max(low, min(high, value)) & ((1 << width) - 1)
