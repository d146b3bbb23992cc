"""Branches and loops."""

from __future__ import annotations

from typing import Any

import tilekit as tk
from tests.conformance import Case, Conformance, scalar, tile
from tilekit.ir.builtin import REGISTRY


def branch(x: Any, y: Any, n: Any) -> Any:
    total = x
    if n > 3:
        total = x + y
        count = n
    else:
        count = n * 2
    return total, count


def counted(x: Any, y: Any, n: Any) -> Any:
    """Sums, swaps and a scalar carried; forwards and backwards."""
    total = x + 0
    last = -1
    for k in range(n):
        total += y
        last = k
    for k in range(n, -2, -3):
        total += x * y
        last = last * 2 + k
    return total, last


def swapped(x: Any, y: Any, n: Any) -> Any:
    a, b = x, y
    for _ in range(n):
        a, b = b, a
    return a, b


def nested(x: Any, n: Any) -> Any:
    total = x * 0
    for i in range(n):
        for j in range(i):
            if (i + j) % 2 == 0:
                total += x
            else:
                total = total - x * 2
    return total


def halving(x: Any, n: Any) -> Any:
    steps = 0
    while n > 0:
        n = n // 2
        steps += 1
        x = x + x
    return x, steps, n


def searching(x: Any, n: Any) -> Any:
    found = -1
    for k in range(20):
        if k * k == n:
            found = k
            break
        if k % 2 == 1:
            continue
        x += x
    return x, found


def operands(x: Any, y: Any, n: Any) -> Any:
    """``and`` and ``or`` return operands; those with loads are branches."""
    a, b = x[0, 0], y[2, 3]
    return n or 7, n and n - 2, a or b, a > 0.0 and n > 2 and b > a and y[1, 1] > 0.0, 0.0 < a < x[1, 1] < b, x


def lengths(n: Any) -> Any:
    count = REGISTRY["range_length"]
    return count(tk.int32(0), n, tk.int32(2)), count(n, tk.int32(-1), tk.int32(-3)), count(n, n + 1, tk.int32(0))


def two_tiles(dtype: str, n: int) -> dict[str, Any]:
    return {"x": tile(dtype, 3, 4), "y": tile(dtype, 3, 4), "n": scalar("int32", n)}


def one_tile(n: int) -> dict[str, Any]:
    return {"x": tile("int32", 5), "n": scalar("int32", n)}


class TestControl(Conformance):
    cases = [
        *(Case("if_else", f"branch-{n}", two_tiles("float32", n), call=branch) for n in (2, 5)),
        *(Case("where", f"operands-{n}", two_tiles("float32", n), call=operands) for n in (0, 2, 5)),
        *(Case("for_range", f"counted-{n}", two_tiles("float32", n), call=counted) for n in (0, 1, 7)),
        *(Case("for_range", f"swapped-{n}", two_tiles("float32", n), call=swapped) for n in (0, 3, 4)),
        *(Case("range_length", f"to-{n}", {"n": scalar("int32", n)}, call=lengths) for n in (0, 7, -4)),
        Case("for_range", "nested", {"x": tile("float32", 4), "n": scalar("int32", 5)}, call=nested),
        *(Case("while_loop", f"halving-{n}", one_tile(n), call=halving) for n in (0, 9)),
        *(Case("while_loop", f"searching-{n}", one_tile(n), call=searching) for n in (49, 50)),
    ]


def where_am_i(x: Any) -> Any:
    return x + tk.tile_full(2, tk.tid(), dtype=tk.int32), tk.block_dim()


def which_block(x: Any) -> Any:
    return x + tk.tile_full(2, REGISTRY["block_number"](), dtype=tk.int64)


class TestGrid(Conformance):
    cases = [
        Case("coordinate", "first-block", {"x": tile("int32", 2)}, call=where_am_i),
        Case("block_number", "first-block", {"x": tile("int64", 2)}, call=which_block),
        Case("block_dim", "of-one", {"x": tile("int32", 2)}, call=where_am_i),
    ]
