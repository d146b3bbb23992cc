"""Elements of arrays and tiles, atomics and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilekit as tk
from tests.conformance import Case, Conformance, array, scalar, tile
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.types import DTYPES


def reads(a: Any, i: Any) -> Any:
    row = a[i + 1]
    return a[i, 2], row[0], a[0][i] + row[1], tk.tile_load(row, shape=2, offset=i), a.shape[0], row.shape[0]


def ends(a: Any, i: Any) -> Any:
    until = REGISTRY["array_until"]
    return tk.tile_load(until(a, (i,), 0), shape=(3, 4)), tk.tile_load(until(a, (-1,), 1), shape=(3, 4))


def writes(a: Any, i: Any, x: Any) -> None:
    a[i, 0] = x
    a[0][1] = x
    row = a[2]
    row[i] = row[0]


def stores(a: Any, i: Any, x: Any) -> None:
    a[i, 0] = x * x
    a[0][1] = x
    a[i, 0] = x + 1.0


def sums_up(a: Any, i: Any, x: Any) -> None:
    a[i, 1] += x
    a[2, i] -= x * x
    tk.atomic_add(a, i, 1, x)


def updates(a: Any, i: Any, x: Any) -> Any:
    a[i, 1] += x
    a[2, i] -= x
    return tk.atomic_add(a, i, 0, x), tk.atomic_max(a, 0, 0, x), tk.atomic_min(a, 1, 1, x), tk.atomic_exch(a, 2, 2, x)


def swaps(a: Any, i: Any, x: Any, y: Any) -> Any:
    return tk.atomic_cas(a, i, 0, x, y), tk.atomic_cas(a, i, 0, x, y)


def tile_updates(a: Any, t: Any, i: Any) -> Any:
    return tk.tile_atomic_add(a, t, offset=(i, -1)), tk.tile_atomic_add(a, t, offset=(-2, i))


def tile_adds(a: Any, t: Any, i: Any) -> None:
    tk.tile_atomic_add(a, t, offset=(i, -1))
    tk.tile_atomic_add(a, t * t, offset=(-2, i))


def tile_adds_alone(a: Any, t: Any, i: Any) -> None:
    add = REGISTRY["tile_add_to"]
    add(a, t, (i, -1))
    add(a, t * t, (-2, i))


def tile_elements(t: Any, i: Any) -> Any:
    return t[i, 2], t[0, i], t[i], t[:, i], t[1, 1] + t[i, i], t[::-1, 1:3]


def element_writes(t: Any, i: Any, x: Any) -> Any:
    t[i, 2] = x
    t[0, i] = x * x
    t[i] = t[0]
    return t


def element_sums(t: Any, i: Any, x: Any) -> Any:
    t[i, 2] += x
    t[0, i] += x
    return t


def sums(t: Any) -> Any:
    return tk.tile_sum(t), tk.tile_sum(t, axis=0), tk.tile_sum(t, axis=-1), tk.tile_sum(tk.tile_transpose(t), axis=1)


def extremes(t: Any) -> Any:
    return tk.tile_max(t), tk.tile_max(t, axis=0), tk.tile_min(t), tk.tile_min(t, axis=1)


def largest_magnitude(a: Any, b: Any) -> Any:
    return tk.where(a * a > b * b, a, b)


def by_function(t: Any) -> Any:
    return tk.tile_reduce(largest_magnitude, t), tk.tile_reduce(largest_magnitude, t, axis=0)


def indexed(dtype: Any) -> dict[str, Any]:
    return {"a": array(dtype, 3, 4), "i": scalar("int32", 1)}


SUMMED = [DTYPES[name] for name in ("int32", "int64", "uint32", "float16", "float32", "float64")]


class TestArrayElements(Conformance):
    cases = [
        *(Case("element_load", d.short, indexed(d), call=reads) for d in DTYPES.values() if d.kind != "b"),
        Case("subarray", "rows", indexed("float32"), call=reads),
        Case("array_until", "rows", indexed("float32"), call=ends),
        Case("array_extent", "shape", indexed("int64"), call=reads),
        *(
            Case("element_store", d.short, {**indexed(d), "x": scalar(d)}, call=writes, outputs=("a",), smooth=False)
            for d in DTYPES.values()
        ),
        *(
            Case("atomic_update", d.short, {**indexed(d), "x": scalar(d)}, call=updates, outputs=("a",), smooth=False)
            for d in SUMMED
        ),
        *(
            Case("atomic_compare", d, {"a": array(d, 3, 4, data=7), "i": scalar("int32", 1), "x": scalar(d, 7),
                 "y": scalar(d, 9)}, call=swaps, outputs=("a",), smooth=False)
            for d in ("int32", "float32")
        ),
        *(
            Case(name, "gradient", {**indexed("float64"), "x": scalar("float64")}, call=call, outputs=("a",))
            for name, call in (("element_store", stores), ("atomic_update", sums_up))
        ),
    ]  # fmt: skip


class TestTileAtomics(Conformance):
    cases = [
        *(
            Case("tile_atomic_add", d.short, {"a": array(d, 4, 5), "t": tile(d, 3, 3), "i": scalar("int32", 2)},
                 call=tile_updates, outputs=("a",), smooth=False)
            for d in SUMMED
        ),
        Case("tile_atomic_add", "sums", {"a": array("float32", 4, 5), "t": tile("float32", 3, 3),
             "i": scalar("int32", 2)}, call=tile_adds, outputs=("a",)),
        *(
            Case("tile_add_to", d, {"a": array(d, 4, 5), "t": tile(d, 3, 3), "i": scalar("int32", 2)},
                 call=tile_adds_alone, outputs=("a",))
            for d in ("float32", "float16", "int32")
        ),
    ]  # fmt: skip


class TestTileElements(Conformance):
    cases = [
        *(
            Case(name, dtype, {"t": tile(dtype, 3, 4), "i": scalar("int32", 2)}, call=tile_elements)
            for name in ("element", "axis_index")
            for dtype in ("float32", "int16")
        ),
        Case("element_write", "float32", {"t": tile("float32", 3, 4), "i": scalar("int32", 1), "x": scalar("float32")},
             call=element_writes),
        Case("element_update", "float32", {"t": tile("float32", 3, 4), "i": scalar("int32", 1), "x": scalar("float32")},
             call=element_sums),
    ]  # fmt: skip


class TestReductions(Conformance):
    cases = [
        *(Case("tile_sum", d.short, {"t": tile(d, 7, 9)}, call=sums) for d in SUMMED),
        *(
            Case(name, d.short, {"t": tile(d, 5, 6, data="special")}, call=extremes, smooth=False)
            for name in ("tile_max", "tile_min")
            for d in SUMMED
        ),
        *(Case(name, "smooth", {"t": tile("float64", 5, 6)}, call=extremes) for name in ("tile_max", "tile_min")),
        Case("tile_sum", "long", {"t": tile("float32", 70, 11)}, call=sums),
        Case("tile_sum", "wraps", {"a": tile("int32", 3, data=[2**31 - 1, 1, 5])}, expected=lambda a: -(2**31) + 5),
        Case("tile_max", "skips-nan", {"a": tile("float32", 3, data=[np.nan, 1.0, np.nan])}, expected=lambda a: 1.0),
        *(Case("reduce_elements", d, {"t": tile(d, 7, 9)}, call=by_function) for d in ("float32", "int32")),
    ]
