"""Construction of tiles, their views, and what is mapped over them."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilekit as tk
from tests.conformance import Case, Conformance, scalar, tile
from tilekit.ir.types import DTYPES
from tilekit.ir.views import ViewMap

IDENTITY = ViewMap.identity((3, 4))
TRANSPOSE = ViewMap((4, 3), (1, 4))
REVERSED_ROWS = ViewMap((3, 2), (-4, 2), 9)
BROADCAST = ViewMap((5, 3), (0, 4), 1)
MIDDLE = ViewMap((2, 2), (4, 1), 5)


def filled(x: Any) -> Any:
    return tk.tile_full(shape=(2, 3), value=x), tk.tile_full(shape=4, value=x, dtype=x.dtype)


def constants() -> Any:
    return tk.tile_zeros(shape=(2, 2)), tk.tile_ones(shape=3, dtype=tk.uint8), tk.tile_full(2, -0.0), tk.tile_full(1, 7)


def aranges() -> Any:
    return tk.tile_arange(5), tk.tile_arange(2, 9, dtype=tk.int16), tk.tile_arange(1.0, -1.0, -0.25, dtype=tk.float64)


def polynomial(x: Any, y: Any) -> Any:
    return (x * y + 2) * x - y


def clipped(x: Any, y: Any) -> Any:
    if x > y:
        return x * x
    return y - x


def mapped(x: Any, y: Any, s: Any) -> Any:
    return tk.tile_map(polynomial, x, y), tk.tile_map(polynomial, x, s), tk.tile_map(polynomial, s, x)


def mapped_branches(x: Any, y: Any) -> Any:
    return tk.tile_map(clipped, x, y)


def written_through(x: Any, y: Any) -> Any:
    """A write through a view of a view, and what the base holds then."""
    t = tk.tile_transpose(x)
    tk.tile_assign(t, tk.tile_transpose(x) + tk.tile_transpose(y))
    return x, t, y


class TestConstruction(Conformance):
    cases = [
        *(Case("tile_full", d.short, {"x": scalar(d)}, call=filled) for d in DTYPES.values()),
        Case("tile_full", "constants", {}, call=constants),
        Case("arange_tile", "ranges", {}, call=aranges),
    ]


class TestViews(Conformance):
    cases = [
        *(
            Case("view_of", name, {"base": tile("float32", 3, 4)}, {"offset": None, "map": map})
            for name, map in {
                "transpose": TRANSPOSE, "same": IDENTITY, "reversed": REVERSED_ROWS, "middle": MIDDLE,
            }.items()
        ),
        Case("view_of", "at-run-time", {"base": tile("float32", 3, 4), "offset": scalar("int32", 2)},
             {"map": ViewMap((2, 2), (4, 1))}, expected=lambda base, offset, map: base[:2, 2:]),
        *(
            Case("view_replace", f"{name}-{dtype}", {"base": tile(dtype, 3, 4), "value": tile(dtype, *map.shape)},
                 {"offset": None, "map": map})
            for dtype in ("float32", "int8")
            for name, map in {"transpose": TRANSPOSE, "reversed": REVERSED_ROWS, "middle": MIDDLE}.items()
        ),
        Case("view_replace", "at-run-time",
             {"base": tile("float32", 3, 4), "value": tile("float32", 2, 2), "offset": scalar("int32", 1)},
             {"map": ViewMap((2, 2), (4, 1))}),
        Case("view_replace", "through-views", {"x": tile("float32", 3, 4), "y": tile("float32", 3, 4)},
             call=written_through),
        Case("view_fill", "middle", {"base": tile("float32", 3, 4), "value": scalar("float32")},
             {"offset": None, "map": MIDDLE}),
    ]  # fmt: skip


class TestMap(Conformance):
    cases = [
        *(
            Case("map_elements", d.short, {"x": tile(d, 3, 7), "y": tile(d, 3, 7), "s": scalar(d)}, call=mapped)
            for d in DTYPES.values()
            if d.kind != "b"
        ),
        Case("map_elements", "branches", {"x": tile("float32", 5), "y": tile("float32", 5)}, call=mapped_branches,
             expected=lambda x, y: np.where(x > y, x * x, y - x)),
    ]  # fmt: skip
