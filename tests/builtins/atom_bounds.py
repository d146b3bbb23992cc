"""How far inexact atoms may be off, by the PTX ISA's notes on each instruction."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tests.builtins import atom_cases, atom_oracle
from tests.builtins.exact_numbers import FORMATS
from tilekit.builtins.atoms import Atom, atoms, find_atom

Array = np.ndarray[Any, Any]


def bounded() -> list[Atom]:
    """The inexact atoms of single values for which the ISA says a bound; f64 has none."""
    return [atom for atom in atoms() if not atom.exact and atom.slots[0].ptx_type in ("f32", "f16", "bf16")]


def bound(spelling: str) -> tuple[str, float]:
    """The error that the table states for operands in ``RANGES``: relative, absolute, or in last places."""
    match = re.match(r"(2\^)?([\d.-]+) (ulp|relative|absolute)", find_atom(spelling).error)
    assert match, spelling
    return match[3], 2.0 ** float(match[2]) if match[1] else float(match[2])


def errors_of(spelling: str, given: list[Array], got: Array) -> Array:
    """The errors as fractions of the bound, of single values and finite operands."""
    how, of = atom_oracle.spelled(spelling), FORMATS[atom_oracle.spelled(spelling).types[0]]
    operands = [atom_cases.values(bits, how.types[0]).astype(np.longdouble) for bits in given]
    exact = MEANING[how.mnemonic](*operands)
    error = np.abs(atom_cases.values(got, how.types[0]) - exact)
    kind, allowed = bound(spelling)
    size = {"absolute": 1.0, "relative": np.abs(exact)}.get(kind)
    if size is None:
        exponent = np.maximum(np.floor(np.log2(np.abs(exact))), of.low + of.digits - 1)
        size = 2.0 ** (exponent - of.digits + 1)
    if how.mnemonic == "lg2":  # absolute from 1/2 to 2
        size = np.where((operands[0] > 0.5) & (operands[0] < 2), 1.0, np.abs(exact))
    return np.asarray(error / (size * allowed))


def error_of(spelling: str, given: list[Array], got: Array) -> float:
    """The largest error as a fraction of the bound."""
    return float(np.max(errors_of(spelling, given, got)))


BEYOND: dict[str, tuple[int, ...]] = {"tanh.approx.bf16": (0x3F3F, 0xBF3F)}
"""Operands on which an H200 is off by more than the ISA says: the only ones among all."""
BEYOND_BY = 1.00007
"""How much of the bound they are off; 1.0000652 was measured."""


def within_a_gpus_bound(spelling: str, given: list[Array], got: Array) -> bool:
    """Whether results are as exact as a GPU's are: within the bound, but on operands that are known not to be."""
    known = np.isin(given[0], np.array(BEYOND.get(spelling, ()), np.uint64))
    errors = errors_of(spelling, given, got)
    return bool(np.all(errors[~known] <= 1) and np.all(errors[known] <= BEYOND_BY))


MEANING: dict[str, Any] = {
    "ex2": np.exp2,
    "tanh": np.tanh,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "rcp": lambda x: 1 / x,
    "div": lambda x, y: x / y,
}
RANGES = {"ex2": (-14, 15), "tanh": (-8, 8), "lg2": (2.0**-100, 2.0**100), "sin": (-6.28, 6.28), "cos": (-6.28, 6.28)}


def operands_of(atom: Atom) -> list[Array]:
    """Operands of an inexact atom in the range that its bound is for, as bits."""
    rng = np.random.default_rng(4)
    low, high = RANGES.get(atom.mnemonic, (2.0**-60, 2.0**60))
    found = []
    for slot in atom.slots[1:]:
        x = 2.0 ** rng.uniform(np.log2(low), np.log2(high), 3000) if low > 0 else rng.uniform(low, high, 3000)
        if slot.ptx_type == "bf16":
            found.append((x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint64))
        else:
            kind = {"f16": "f2", "f32": "f4"}[slot.ptx_type]
            found.append(x.astype(kind).view(kind.replace("f", "u")).astype(np.uint64))
    if atom.spelling in BEYOND:
        found = [np.concatenate([found[0], np.array(BEYOND[atom.spelling], np.uint64)])]
    return found


_INF, _NAN, _MINUS = 0x7F800000, 0x7FFFFFFF, 0x80000000
_ODD_ROOT = {(_INF | _MINUS,): _NAN, (0xBF800000,): _NAN}
FIXED: dict[str, dict[tuple[int, ...], int]] = {
    "ex2.approx.f32": {
        (_INF | _MINUS,): 0,
        (_MINUS,): 0x3F800000,
        (0,): 0x3F800000,
        (_INF,): _INF,
        (0x7F800001,): _NAN,
    },
    "lg2.approx.f32": {**_ODD_ROOT, (_MINUS,): _INF | _MINUS, (0,): _INF | _MINUS, (_INF,): _INF, (0xFFC00000,): _NAN},
    "sin.approx.f32": {(_INF,): _NAN, (_INF | _MINUS,): _NAN, (_MINUS,): _MINUS, (0,): 0},
    "cos.approx.f32": {(_INF,): _NAN, (_INF | _MINUS,): _NAN, (_MINUS,): 0x3F800000, (0,): 0x3F800000},
    "tanh.approx.f32": {
        (_INF,): 0x3F800000,
        (_INF | _MINUS,): 0xBF800000,
        (_MINUS,): _MINUS,
        (1,): 1,
        (0x7FC00000,): _NAN,
    },
    "sqrt.approx.f32": {**_ODD_ROOT, (_MINUS,): _MINUS, (0,): 0, (_INF,): _INF},
    "rsqrt.approx.f32": {**_ODD_ROOT, (_MINUS,): _INF | _MINUS, (0,): _INF, (_INF,): 0},
    "rcp.approx.f32": {(_INF,): 0, (_INF | _MINUS,): _MINUS, (_MINUS,): _INF | _MINUS, (0,): _INF, (0x7F800001,): _NAN},
    "rcp.approx.ftz.f32": {(1,): _INF, (_MINUS | 1,): _INF | _MINUS},
    "div.approx.f32": {(_INF, 0x7F000000): _NAN, (0x3F800000, 0x7F000000): 0, (0xBF800000, 0x7F000000): _MINUS},
    "rcp.approx.ftz.f64": {(1,): 0x7FF << 52, (0x7FF << 52 | 1,): 0, (0x7FF8 << 48,): 0x7FFFFFFF << 32},
    "rsqrt.approx.ftz.f64": {(1 << 63,): 0xFFF << 52, (0xBFF << 52,): 0x7FFFFFFF << 32},
}
"""Results that the ISA's tables of special operands fix."""
