"""Arithmetic and comparisons, on scalars and tiles of every dtype they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.builtins.test_conform_math import INTEGERS, at_the_limits
from tests.conformance import Case, Conformance, scalar, tile
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.types import DTYPES

NUMBERS = [dtype for dtype in DTYPES.values() if dtype.kind != "b"]
SOME = [DTYPES[name] for name in ("int8", "int64", "uint32", "bfloat16", "float32", "float64")]
"""Enough where the native code has no special case for a dtype."""
COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def on_both(name: str) -> Any:
    """The builtin on tiles and on scalars, so that one function tests both."""
    declared = REGISTRY[name]

    def two(a, b, s, t):
        return declared(a, b), declared(s, t)

    def one(a, s):
        return declared(a), declared(s)

    return two if len(declared.operand_names) == 2 else one


def two(builtin: str, expected: Any = None, smooth: bool = True, dtypes: Any = NUMBERS) -> Iterator[Case]:
    yield Case(
        builtin, "tile", {"a": tile("float32", 3, 4), "b": tile("float32", 3, 4, data="positive")}, smooth=smooth
    )
    for dtype in dtypes:
        data = {"a": tile(dtype, 96, data="special"), "b": tile(dtype, 96, data="special")}
        ones = {"s": scalar(dtype), "t": scalar(dtype, "positive")}
        wanted = None if expected is None else lambda a, b, s, t: expected(a, b)
        yield Case(builtin, dtype.short, {**data, **ones}, call=on_both(builtin), expected=wanted, smooth=False)


def one(builtin: str) -> Iterator[Case]:
    yield Case(builtin, "tile", {"x": tile("float32", 3, 4)})
    for dtype in SOME:
        operands = {"a": tile(dtype, 96, data="special"), "s": scalar(dtype)}
        yield Case(builtin, dtype.short, operands, call=on_both(builtin), smooth=False)


def mixed(a: Any, b: Any) -> Any:
    """Tiles with literals on either side, and with a scalar of their dtype."""
    return a + 2, 3 - a, a * b, b - a, a + b * 2


class TestArithmetic(Conformance):
    cases = [
        *two("add"),
        *two("sub", dtypes=SOME),
        *two("mul"),
        *two("div"),
        *two("floordiv"),
        *two("mod"),
        *(
            case
            for name, expected in COMPARISONS.items()
            for case in two(name, lambda a, b, e=expected: e(a, b), dtypes=SOME)
        ),
        *one("neg"),
        *one("pos"),
        *(Case("add", f"mixed-{d.short}", {"a": tile(d, 5, 3), "b": scalar(d)}, call=mixed) for d in SOME),
        *(at_the_limits(name, dtype) for name in ("add", "gt", "eq") for dtype in INTEGERS),
    ]
