"""What PTX atoms compute, in Python's integers, from the spelling alone: slow, exact, and no code of tilekit's.

Where the PTX ISA is silent, an H200 says what is right: ``h200_atoms.npz`` holds its answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tests.builtins.exact_numbers import (
    FORMATS,
    Format,
    Number,
    add,
    decode,
    divide,
    encode,
    flushed,
    is_tiny,
    is_tiny_once_rounded,
    mul,
    root,
    rounds_up,
)


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


def finish(bits: int, of: Format, flags: frozenset[str]) -> int:
    """What the modifiers of the result make of its bits."""
    nan = bits & (of.sign - 1) > of.infinity
    if "sat" in flags:
        return 0 if nan or bits & of.sign else min(bits, of.one)
    if "relu" in flags and not nan and bits & of.sign:
        return 0
    if "satfinite" in flags and bits & (of.sign - 1) == of.infinity:
        bits -= 1
    return bits


FLUSHED_ONCE_ROUNDED = ("fma", "cvt")
"""What decides .ftz after rounding; the others do before."""


def result(x: Number, of: Format, how: Spelled) -> int:
    """Flush, round, and apply the modifiers."""
    if "ftz" in how.flags and of.width != 64:
        after = how.mnemonic in FLUSHED_ONCE_ROUNDED
        tiny = is_tiny_once_rounded(x, of, how.rounding) if after else is_tiny(x, of)
        x = Number(x.sign, 0, 0) if tiny else x
    return finish(encode(x, of, how.rounding), of, how.flags)


NAN_FROM = {"fma": (1, 2, 0), "div": (0, 1)}
"""Which operand's NaN an f64 result is, the first of these that is one; of the others the last operand's."""


def quiet(bits: int, of: Format) -> int:
    return bits | 1 << (of.digits - 2)


def wide_nan(how: Spelled, operands: tuple[int, ...]) -> int:
    """The NaN that an f64 result is: f64 alone keeps payloads. The sign is the operand's also of neg, abs and sub."""
    of = FORMATS["f64"]
    for place in NAN_FROM.get(how.mnemonic, range(len(operands))[::-1]):
        if operands[place] & (of.sign - 1) > of.infinity:
            return quiet(operands[place], of)
    return quiet(of.sign | of.infinity, of)


def lesser(x: int, y: int, of: Format, how: Spelled) -> int:
    """min and max of two floats."""
    numbers = [decode(bits, of) for bits in (x, y)]
    if "ftz" in how.flags:
        x, y = (bits & of.sign if is_tiny(n, of) else bits for bits, n in zip((x, y), numbers, strict=True))
    sign = (x ^ y) & of.sign
    nans = [n.kind == "nan" for n in numbers]
    if all(nans) or (any(nans) and "NaN" in how.flags):
        return wide_nan(how, (x, y)) if of.width == 64 else of.nan
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
        return best if len(operands) == 2 else lesser(best, operands[2], of, how)
    given = [decode(bits, form) for bits, form in zip(operands, formats, strict=True)]
    if "ftz" in how.flags:
        given = [flushed(n, form) for n, form in zip(given, formats, strict=True)]
    if how.mnemonic in ("abs", "neg"):
        n = given[0]
        x = n._replace(sign=0 if how.mnemonic == "abs" else 1 - n.sign)
    elif how.mnemonic == "fma" and "oob" in how.flags and 0x7FF7 in (operands[0] & 0x7FFF, operands[1] & 0x7FFF):
        return 0
    else:
        x = exact(how, given)
    return wide_nan(how, operands) if of.width == 64 and x.kind == "nan" else result(x, of, how)


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
    """The bits of an exact atom's result.

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
                return (1 << width) - 1
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
    x = decode(bits, FORMATS[source])
    if x.kind == "nan" and to in FORMATS:
        return 0 if "sat" in how.flags else _nan_converted(how, bits, to, source)
    if "ftz" in how.flags and source == "f32" and to != "f16":
        x = flushed(x, FORMATS["f32"])
    if to not in FORMATS:
        return _to_integer(x, how, to, source)
    if how.rounding.endswith("i"):
        x = _integral(x, how.rounding)
    ftz = how.flags if to == "f32" else how.flags - {"ftz"}
    found = result(x, FORMATS[to], Spelled("cvt", how.rounding, ftz, how.types))
    return found << 13 if to == "tf32" else found


def _nan_converted(how: Spelled, bits: int, to: str, source: str) -> int:
    """What a NaN becomes, as an H200 has it: where either type is f64 the payload's upper bits stay."""
    narrow, wide = FORMATS[source], FORMATS[to]
    if "ftz" in how.flags and source == "f32" and to == "f64":
        bits = narrow.nan
    if to == "tf32":
        kept = bits & ~0x1FFF if how.rounding == "rna" else 0x7FFFE000
        return kept - 0x2000 if how.rounding == "rna" and "satfinite" in how.flags else kept
    if to == source and to in ("f32", "f64") and not how.rounding.endswith("i") and "ftz" not in how.flags:
        return bits
    if (source, to) == ("bf16", "f32") and "ftz" not in how.flags:
        return bits << 16
    if "f64" not in (source, to):
        return wide.nan
    more = wide.digits - narrow.digits
    payload = bits & ((1 << (narrow.digits - 1)) - 1)
    payload = payload << more if more > 0 else payload >> -more
    return quiet(payload | wide.infinity | (wide.sign if bits & narrow.sign else 0), wide)


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
