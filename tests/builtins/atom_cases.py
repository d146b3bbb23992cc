"""Operands that tell roundings, widths and modifiers of atoms apart, as bits, and registers made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.builtins import atom_oracle
from tests.builtins.exact_numbers import FORMATS, Format

Array = np.ndarray[Any, Any]
U64 = np.uint64


def specials(of: Format) -> list[int]:
    """Both signs of zeros, the ends of the ranges, one and its neighbours, infinity and NaNs."""
    digits = of.digits - 1
    least, one, nan = 1 << digits, of.one, of.infinity
    found = [0, 1, 2, least - 1, least, least + 1, one - 1, one, one + 1, one + least, nan - 1, nan]
    found += [nan | 1, nan | 1 << (digits - 1), nan | 1 << (digits - 1) | 5]
    if of.width == 16:
        found.append(0x7FF7)
    return [bits | sign for bits in found for sign in (0, of.sign)]


def _number(rng: Any, count: int, of: Format, low: Any, high: Any) -> Array:
    """Numbers with exponent fields in ``low <= e < high`` and few bits set, or many in a row, or any."""
    digits = of.digits - 1
    field = rng.integers(np.clip(low, 0, None), np.clip(high, 1, (1 << of.exponents) - 1), count).astype(U64)
    sparse = np.zeros(count, U64)
    for _ in range(3):
        sparse |= U64(1) << rng.integers(0, digits, count).astype(U64)
    run = ((U64(1) << rng.integers(0, digits + 1, count).astype(U64)) - U64(1)) << U64(0)
    anything = rng.integers(0, 1 << digits, count).astype(U64)
    fraction = np.choose(rng.integers(0, 3, count), [sparse, run, anything]) & U64((1 << digits) - 1)
    sign = rng.integers(0, 2, count).astype(U64) << U64(of.exponents + digits)
    return np.asarray(sign | field << U64(digits) | fraction)


def _field(bits: Array, of: Format) -> Array:
    return np.asarray((bits & U64(of.sign - 1)) >> U64(of.digits - 1)).astype(np.int64)


def _cancelling(rng: Any, a: Array, b: Array, type: str) -> Array:
    """-a*b rounded, or a neighbour of that."""
    of = FORMATS[type]
    with np.errstate(all="ignore"):
        product = -(values(a, type) * values(b, type))
        if type == "bf16":
            near = product.astype(np.float32).view(np.uint32).astype(U64) >> U64(16)
        else:
            near = product.astype({"f16": "f2", "f32": "f4", "f64": "f8"}[type]).view(f"u{of.width // 8}").astype(U64)
    return np.asarray(near + rng.integers(-1, 2, len(a)).astype(U64)) & U64((1 << of.width) - 1)


def values(bits: Array, type: str) -> Array:
    """Bits as float64 numbers."""
    if type == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return bits.astype(f"u{FORMATS[type].width // 8}").view(f"f{FORMATS[type].width // 8}").astype(np.float64)


def triples(type: str, count: int, seed: int = 1) -> tuple[Array, Array, Array]:
    """About ``count`` triples: specials with each other, any bits, near cancellation, and where results are subnormal
    or overflow."""
    of, rng = FORMATS[type], np.random.default_rng(seed)
    top, middle, n = (1 << of.exponents) - 1, (1 << (of.exponents - 1)) - 1, max(count // 6, 1)
    cube = np.array(np.meshgrid(*[np.array(specials(of), U64)] * 3)).reshape(3, -1)
    parts = [cube[:, rng.permutation(cube.shape[1])[:n]]]
    parts.append(rng.integers(0, 1 << of.width, (3, n), dtype=U64, endpoint=False) if of.width < 64
                 else rng.integers(0, (1 << 64) - 1, (3, n), dtype=U64, endpoint=True))  # fmt: skip
    for low, high in ((0, top), (middle - of.digits, middle + of.digits)):  # the addend near the product
        a, b = _number(rng, n, of, low, high), _number(rng, n, of, low, high)
        about = _field(a, of) + _field(b, of) - middle + rng.integers(-2 * of.digits - 4, 2 * of.digits + 5, n)
        c = _number(rng, n, of, np.clip(about, 0, top - 1), np.clip(about, 0, top - 1) + 1)
        parts.append(np.stack([a, b, np.where(rng.integers(0, 2, n) == 1, _cancelling(rng, a, b, type), c)]))
    for edge in (0, top - 1):  # the product near the least or the greatest numbers
        a = _number(rng, n, of, 0, top)
        about = edge + middle - _field(a, of) + rng.integers(-of.digits - 1, of.digits + 2, n)
        b = _number(rng, n, of, np.clip(about, 0, top - 1), np.clip(about, 0, top - 1) + 1)
        c = _number(rng, n, of, *((0, of.digits) if edge == 0 else (top - 4, top)))
        parts.append(np.stack([a, b, np.where(rng.integers(0, 3, n) == 0, U64(0), c)]))
    a, b, c = np.concatenate(parts, axis=1)
    return a, b, c


def integers(type: str, count: int, seed: int = 1) -> Array:
    """Integers of every size, as bits, and the ends of the range."""
    width, rng = int(type[1:]), np.random.default_rng(seed)
    anything = rng.integers(0, (1 << 64) - 1, count, dtype=U64) >> rng.integers(0, 64, count).astype(U64)
    ends = [0, 1, 2, (1 << (width - 1)) - 1, 1 << (width - 1), (1 << (width - 1)) + 1, (1 << width) - 1]
    found = np.concatenate([np.array(ends, U64), anything])
    return np.asarray(np.where(rng.integers(0, 2, found.size) == 1, found, U64(0) - found)) & U64((1 << width) - 1)


def near_integers(type: str, count: int, seed: int = 1) -> Array:
    """Floats between integers, on halves, and around the limits of integer types, as bits."""
    of, rng = FORMATS[type], np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        whole = np.concatenate([
            rng.integers(-9, 10, count) / 4.0,
            *(2.0**bits + rng.integers(-4, 5, count) / 2.0 for bits in (7, 8, 15, 16, 31, 32, 63, 64)),
        ])  # fmt: skip
        whole = np.concatenate([whole, -whole])
        if type == "bf16":
            return whole.astype(np.float32).view(np.uint32).astype(U64) >> U64(16)
        return whole.astype({"f16": "f2", "f32": "f4", "f64": "f8"}[type]).view(f"u{of.width // 8}").astype(U64)


def operands_of(types: Sequence[str], count: int, seed: int = 1) -> list[Array]:
    """Bits for each operand of an atom, given the operands' types."""
    found = []
    for place, type in enumerate(types):
        single = type.removesuffix("x2")
        if single in FORMATS and single != "tf32":
            bits = triples(single, count, seed)[place]
            if len(types) == 1:
                bits = np.concatenate([*triples(single, count, seed), near_integers(single, 50)])
        elif single == "tf32":
            bits = triples("f32", count, seed)[place]
        else:
            bits = integers(single, count, seed + place)
        if type.endswith("x2"):
            width = U64(atom_oracle.width_of(single))
            bits = bits | np.random.default_rng(seed).permutation(bits) << width
        found.append(bits)
    length = min(map(len, found))
    return [bits[:length] for bits in found]


def registers(bits: Array, type: str) -> Array:
    """Bits as the CPU's code takes them: f32 and f64 as floats, integers as theirs, others unsigned."""
    single, pair = type.removesuffix("x2"), type.endswith("x2")
    width = atom_oracle.width_of(single) * (2 if pair else 1)
    kind = "f" if type in ("f32", "f64") else "i" if single[0] == "s" and not pair else "u"
    return np.ascontiguousarray(bits.astype(f"u{width // 8}")).view(f"{kind}{width // 8}")


def bits_of(values: Array) -> Array:
    """Registers as 64-bit integers."""
    return np.ascontiguousarray(values).view(f"u{values.itemsize}").astype(U64)


def wrong(spelling: str, given: Sequence[Array], got: Array, by_gpu: bool = False) -> list[str]:
    """What differs from the oracle, as text; ``given`` and ``got`` are bits.

    A GPU's results may be any of those that are ``atom_oracle.possible``.
    """
    wanted = atom_oracle.possible if by_gpu else lambda *given: {atom_oracle.expected(*given)}
    found = []
    for index, (operands, have) in enumerate(
        zip(zip(*(v.tolist() for v in given), strict=True), got.tolist(), strict=True)
    ):
        want = wanted(spelling, *operands)
        if have not in want:
            shown = ", ".join(f"{v:x}" for v in operands)
            found.append(f"{spelling}({shown}) = {have:x}, not {' or '.join(f'{v:x}' for v in want)} [{index}]")
    return found
