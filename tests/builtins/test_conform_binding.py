"""Names that are bound to tiles have values of their own: copies, swaps, choices, and what becomes of them in code."""

from __future__ import annotations

from typing import Any

import tilekit as tk
from tests.conformance import Case, Conformance, scalar, tile


def copied(x: Any, y: Any, n: Any) -> Any:
    """Nothing is copied until one of two changes while the other is still used."""
    a = b = x
    start = a
    a += y
    b[0, 1] = 3.0
    read = start
    return a, b, start + read


def swapped(x: Any, y: Any, n: Any) -> Any:
    a, b = x, y
    for _ in range(n):
        a, b = b, a
        a += 1.0
    return a, b


def rotated(x: Any, y: Any, n: Any) -> Any:
    """What a product reads lies in shared memory on a GPU."""
    a, b, c = x, y, x + y
    for _ in range(n):
        a, b, c = b, c, a
        b += tk.tile_transpose(a)
    return a, b, c


def best(x: Any, y: Any, n: Any) -> Any:
    found = x
    now = y
    for i in range(5):
        now += x
        if i == n:
            found = now
    found += 100.0
    return found, now


def previous(x: Any, y: Any, n: Any) -> Any:
    now, before = x, y
    for _ in range(n):
        before = now
        now += y
    return now, before


def parts(x: Any, y: Any, n: Any) -> Any:
    top = x[0:2]
    kept = top
    top += 1.0
    if n > 2:
        top = y[1:3]
    top += kept
    x[0:2], x[1:3] = x[1:3], x[0:2]
    return x, y, top


def own_sum(t: Any, u: Any) -> Any:
    t += u
    t = t * 2.0
    t += 1.0
    return t


def given(x: Any, y: Any, n: Any) -> Any:
    a = x + 0.0
    first = own_sum(a[0:2], y[0:2])
    second = own_sum(a if n > 2 else y, x)
    return a, first, second


def tiles(n: int) -> dict[str, Any]:
    return {"x": tile("float32", 4, 4), "y": tile("float32", 4, 4), "n": scalar("int32", n)}


class TestBinding(Conformance):
    cases = [
        Case("element_write", "copied", tiles(0), call=copied),
        *(Case("for_range", f"swapped-{n}", tiles(n), call=swapped) for n in (0, 1, 4)),
        *(Case("for_range", f"rotated-{n}", tiles(n), call=rotated) for n in (0, 2, 4)),
        *(Case("for_range", f"previous-{n}", tiles(n), call=previous) for n in (0, 1, 3)),
        *(Case("if_else", f"best-{n}", tiles(n), call=best) for n in (0, 2, 9)),
        *(Case("view_of", f"parts-{n}", tiles(n), call=parts) for n in (0, 3)),
        *(Case("if_else", f"given-{n}", tiles(n), call=given) for n in (0, 3)),
    ]
