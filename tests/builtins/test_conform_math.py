"""Functions of numbers: elementary and special functions, rounding, selection and bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.conformance import Case, Conformance, scalar, tile
from tilekit.ir.builtin import REGISTRY, Builtin
from tilekit.ir.types import DTYPES

FLOATS = [DTYPES[name] for name in ("float16", "bfloat16", "float32", "float64")]
INTEGERS = [dtype for dtype in DTYPES.values() if dtype.is_integer]
ROUNDED = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-50}
"""How far a function may be from the float64 value rounded once: one unit for 16-bit results, four for wide ones."""
EXACT = ("floor", "ceil", "trunc", "round", "rint", "frac", "min", "max", "clamp", "abs", "sign", "step", "nonzero",
         "copysign", "isnan", "isinf", "isfinite", "sqrt", "rsqrt")  # fmt: skip
IN_ALL_FLOATS = ("exp", "log", "sqrt", "rsqrt", "tanh", "sin", "cos", "pow")
BITS = ("bit_and", "bit_or", "bit_xor", "invert", "lshift", "rshift", "bit_count")
SMOOTH_AT = {"acosh": 1.0}
"""What is added to data in (0, 1) so that a function is defined there."""


def functions(chapter: str) -> list[Builtin]:
    """The elementwise builtins that a family file declares."""
    return [b for b in REGISTRY.values() if b.elementwise and b.__module__.endswith(f".{chapter}")]


def relative(dtype: Any, reference: Builtin, data: dict[str, Any]) -> Any:
    """The bound at each element: relative to the value, absolute where that is below one."""
    with np.errstate(all="ignore"):
        exact = np.asarray(reference.apply("reference", {n: np.asarray(v, np.float64) for n, v in data.items()}, {}))
    return ROUNDED[dtype.name] * np.maximum(np.abs(np.nan_to_num(exact)), 1.0)


def on_both(declared: Builtin) -> Any:
    def one(x, s):
        return declared(x), declared(s)

    def two(x, y, s):
        return declared(x, y), declared(s, s)

    def three(x, y, z, s):
        return declared(x, y, z), declared(s, s, s)

    return (one, two, three)[len(declared.operand_names) - 1]


def smooth(declared: Builtin, dtype: Any) -> Case:
    """At well-behaved arguments; a bound for functions that are not exact."""
    rng = np.random.default_rng(5)
    names = declared.operand_names
    data = {n: rng.uniform(0.1, 0.9, 40) + SMOOTH_AT.get(declared.name, 0.0) for n in names}
    bound = None
    if declared.name not in EXACT:

        def bound(found: Any) -> Any:
            return relative(dtype, declared, {n: found[n] for n in names})

    return Case(declared.name, dtype.short, {n: tile(dtype, 40, data=v) for n, v in data.items()}, bound=bound)


def special(declared: Builtin, dtype: Any) -> Iterator[Case]:
    """At zeros, infinities, NaN and extremes, where a function is exact there."""
    if declared.name in EXACT:
        letters = dict(zip(declared.operand_names, "xyz", strict=False))
        operands = {letter: tile(dtype, 96, data="special") for letter in letters.values()}
        case = Case(declared.name, f"special-{dtype.short}", {**operands, "s": scalar(dtype)}, smooth=False)
        yield Case(**{**vars(case), "call": on_both(declared)})


def shifted(declared: Builtin, dtype: Any) -> Case:
    second = tile(dtype, 32, data=np.arange(32) % dtype.bits if "shift" in declared.name else "special")
    first = tile(dtype, 32, data="special")
    names = declared.operand_names
    return Case(declared.name, dtype.short, dict(zip(names, (first, second), strict=False)))


class TestElementary(Conformance):
    cases = [
        smooth(declared, dtype)
        for chapter in ("exponential", "trigonometry", "special")
        for declared in functions(chapter)
        if declared.name not in EXACT or chapter == "exponential"
        for dtype in (
            FLOATS if declared.name in ("exp", "log", "sqrt", "rsqrt", "tanh", "sin", "cos", "pow") else FLOATS[2:3]
        )
    ]


def at_the_limits(name: str, dtype: Any) -> Case:
    """With the smallest and the greatest number of an integer dtype as constants."""
    (low, high), declared = dtype.limits, REGISTRY[name]

    def call(x, s):
        if name == "clamp":
            return declared(x, low, high), declared(s, low, high), declared(high, low, s)
        return declared(x, low), declared(low, s), declared(s, high)

    operands = {"x": tile(dtype, 3, 5, data="special"), "s": scalar(dtype, 3)}
    return Case(name, f"limits-{dtype}", operands, call=call)


class TestSelection(Conformance):
    cases = [
        case
        for chapter in ("rounding", "selection", "special")
        for declared in functions(chapter)
        if declared.name in EXACT
        for dtype in FLOATS[1:3]
        for case in (*([] if chapter == "special" else [smooth(declared, dtype)]), *special(declared, dtype))
    ] + [
        case
        for declared in functions("selection")
        if declared.name in ("min", "max", "clamp", "abs", "sign")
        for dtype in (DTYPES["int8"], DTYPES["uint32"])
        for case in special(declared, dtype)
    ]
    cases += [at_the_limits(name, dtype) for name in ("clamp", "min", "max") for dtype in INTEGERS]


class TestBits(Conformance):
    cases = [
        shifted(REGISTRY[name], dtype)
        for name in BITS
        for dtype in (INTEGERS if name in ("lshift", "rshift") else INTEGERS[:4])
    ]
