"""Tiles of as many axes and other extents, element by element; axes that stay in reductions, and new ones."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilekit as tk
from tests.conformance import Case, Conformance, scalar, tile
from tilekit.ir.types import DTYPES

SHAPES = (
    ((1,), (5,)), ((3, 1), (3, 4)), ((1, 4), (3, 4)), ((3, 1), (1, 4)), ((1, 1), (3, 4)), ((2, 1, 3), (1, 4, 1)),
    ((2, 3, 4), (2, 1, 1)), ((2, 1, 3, 1), (1, 4, 3, 2)), ((1, 1, 1, 2), (3, 2, 5, 1)),
)  # fmt: skip


def named(shapes: Any) -> str:
    return "-".join("x".join(map(str, shape)) for shape in shapes)


def arithmetic(x: Any, y: Any) -> Any:
    return x + y, y - x, x * y


def chosen(c: Any, x: Any, y: Any) -> Any:
    return tk.where(c > 0, x, y), tk.where(c > x, y, 0), x < y, tk.max(x, c), tk.clamp(y, x, c)


def smooth(x: Any, y: Any) -> Any:
    return tk.tile_map(lambda a, b: a * b + b, x, y), tk.tile_fma(x, y, x), x / (y * y + 1.0)


def with_number(x: Any, y: Any, s: Any) -> Any:
    return tk.tile_map(lambda a, b, c: (a - b) * c, x, y, s)


def clipped(x: Any, y: Any) -> Any:
    if x > y:
        return x * x
    return y - x


def branching(x: Any, y: Any) -> Any:
    return tk.tile_map(clipped, x, y)


def in_place(x: Any, y: Any) -> Any:
    x += y
    x *= y
    x -= x[:, 0:1]
    x += x[1:2]
    return x


def views(x: Any, y: Any) -> Any:
    """The operand that is repeated is itself a view: transposed, reversed, part of the other operand."""
    first = y.T[:, 1:2]
    return first + x, x[::-1, 2:3] * x, x[1][None, :] - x, x.T[1:2] + first.T[:, ::-1].T[0:1]


def through_new_axes(t: Any, i: Any) -> Any:
    return t[:, None], t[None], t[..., None], t[i, None, 1:3, None], t[None, ::-1, None, 2], t[:, None] - t[None, :]


def written(t: Any) -> Any:
    t[:, None, 1] = 7
    t[None, 2:] += 2
    t[:, None] -= t[None, 0:1]
    return t


def sums(t: Any) -> Any:
    axis = t.ndim - 1
    return tk.tile_sum(t, keepdims=True), tk.tile_sum(t, 0, True), tk.tile_sum(t, axis=axis, keepdims=True), t / t


def extremes(t: Any) -> Any:
    return tk.tile_max(t, axis=-1, keepdims=True) - t, tk.tile_min(t, axis=0, keepdims=True), tk.tile_max(t, None, True)


def larger(a: Any, b: Any) -> Any:
    return tk.where(a > b, a, b)


def by_function(t: Any) -> Any:
    return tk.tile_reduce(larger, t, 0, keepdims=True) + t, tk.tile_reduce(larger, t, keepdims=True)


def norm(t: Any, scale: Any) -> Any:
    centred = t - tk.tile_sum(t, axis=1, keepdims=True) / 4.0
    variance = tk.tile_sum(centred * centred, axis=1, keepdims=True) / 4.0
    return centred / tk.sqrt(variance + 1.0) * scale[None, :]


def two(dtype: Any, shapes: Any) -> dict[str, Any]:
    return {name: tile(dtype, *shape) for name, shape in zip("xy", shapes, strict=True)}


class TestBroadcasting(Conformance):
    cases = [
        *(
            Case("map_elements", f"{named(shapes)}-{dtype}", two(dtype, shapes), call=arithmetic,
                 expected=lambda x, y: x + y)
            for shapes in SHAPES
            for dtype in ("float32", "int32")
        ),
        *(
            Case("map_elements", d.short, two(d, ((3, 1), (1, 4))), call=arithmetic)
            for d in DTYPES.values()
            if d.kind != "b"
        ),
        *(Case("map_elements", f"smooth-{named(s)}", two("float32", s), call=smooth) for s in SHAPES),
        Case("map_elements", "where", {"c": tile("float32", 3, 1), **two("float32", ((1, 4), (3, 4)))}, call=chosen,
             smooth=False),
        Case("map_elements", "number", {**two("float32", ((3, 1), (3, 4))), "s": scalar("float32")}, call=with_number,
             expected=lambda x, y, s: (x - y) * s),
        Case("map_elements", "branches", two("float32", ((3, 1), (1, 4))), call=branching,
             expected=lambda x, y: np.where(x > y, x * x, y - x)),
        *(Case("map_elements", f"in-place-{d}", two(d, ((3, 4), (3, 1))), call=in_place)
          for d in ("float32", "int64")),
        *(Case("map_elements", f"views-{d}", two(d, ((3, 4), (2, 3))), call=views) for d in ("float32", "uint8")),
        Case("map_elements", "norm", {"t": tile("float32", 3, 4), "scale": tile("float32", 4)}, call=norm),
    ]  # fmt: skip


class TestNewAxes(Conformance):
    cases = [
        *(Case("view_of", f"axes-{d}", {"t": tile(d, 4, 4), "i": scalar("int32", 1)}, call=through_new_axes,
               expected=lambda t, i: t[:, None]) for d in ("float32", "int16")),
        *(Case("view_replace", f"axes-{d}", {"t": tile(d, 4, 4)}, call=written) for d in ("float32", "int16")),
    ]  # fmt: skip


SMALL = {"1d": (7,), "2d": (5, 6), "3d": (3, 4, 5), "4d": (2, 3, 2, 4)}


class TestKeptAxes(Conformance):
    cases = [
        *(Case("tile_sum", f"kept-{n}-{d}", {"t": tile(d, *s, data="positive")}, call=sums)
          for n, s in SMALL.items() for d in ("float32", "float16", "int32")),
        *(Case(name, f"kept-{n}", {"t": tile("float32", *s)}, call=extremes, smooth=False)
          for n, s in SMALL.items() for name in ("tile_max", "tile_min")),
        *(Case("reduce_elements", f"kept-{n}", {"t": tile("float32", *s)}, call=by_function) for n, s in SMALL.items()),
    ]  # fmt: skip
