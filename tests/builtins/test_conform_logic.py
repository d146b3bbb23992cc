"""Conditions, selection and conversion."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilekit as tk
from tests.conformance import Case, Conformance, scalar, tile
from tilekit.ir.types import DTYPES, to_numpy_scalar


def both_logical(a: Any, b: Any, s: Any, t: Any) -> Any:
    return tk.logical_and(a, b), tk.logical_and(s, t), tk.logical_or(a, b), tk.logical_or(s, t)


def negated(x: Any, s: Any) -> Any:
    return tk.logical_not(x), tk.logical_not(s)


def chosen(c: Any, a: Any, b: Any, s: Any) -> Any:
    return tk.where(c, a, b), tk.where(s > 0, s, 7), tk.where(c, s, a)


def to_all(x: Any, s: Any) -> Any:
    """To every dtype, tile and scalar."""
    return tuple(f(v) for v in (x, s) for f in DTYPES.values())


def through_bool(x: Any) -> Any:
    return tk.cast(x, bool)


NUMBERS = [dtype for dtype in DTYPES.values() if dtype.kind != "b"]
SOURCES = {
    "b": [True, False, True, True],
    "i": [-100, 100, 0, 3],
    "u": [0, 255, 200, 3],
    "f": [2.75, -3.5, 0.0, 117.0],
}


class TestLogic(Conformance):
    cases = [
        *(
            Case(
                name,
                dtype.short,
                {"a": tile(dtype, 8), "b": tile(dtype, 8), "s": scalar(dtype), "t": scalar(dtype)},
                call=both_logical,
            )
            for name in ("logical_and", "logical_or")
            for dtype in (DTYPES["bool"], DTYPES["int16"], DTYPES["float64"])
        ),
        *(
            Case("logical_not", dtype.short, {"x": tile(dtype, 9, data="special"), "s": scalar(dtype)}, call=negated)
            for dtype in DTYPES.values()
        ),
        *(
            Case(
                "where",
                dtype.short,
                {"c": tile("bool", 3, 5), "a": tile(dtype, 3, 5), "b": tile(dtype, 3, 5), "s": scalar(dtype)},
                call=chosen,
            )
            for dtype in NUMBERS
        ),
    ]


class TestCast(Conformance):
    cases = [
        *(
            Case("cast", f"{dtype.short}-to-all", {"x": tile(dtype, 4, data=SOURCES[dtype.kind]), "s": scalar(dtype)},
                 call=to_all, smooth=False)
            for dtype in DTYPES.values()
        ),
        Case("cast", "nan-is-true", {"x": tile("float32", 4, data=[np.nan, 0.0, -0.0, 1.0])}, call=through_bool,
             expected=lambda x: [True, False, False, True]),
        Case("cast", "wraps", {"a": tile("int64", 4, data=[2**31, -(2**40) - 1, 2**62, -1])}, {"dtype": tk.int32},
             expected=lambda a, dtype: [to_numpy_scalar(int(v), dtype) for v in a]),
        Case("cast", "smooth", {"a": tile("float32", 2, 3)}, {"dtype": tk.float64}),
    ]  # fmt: skip
