"""Loads and stores at any offset, and matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import tilekit as tk
from tests.conformance import Case, Conformance, array, scalar, tile
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.types import DTYPES

SHAPES = {1: (5,), 2: (5, 6), 3: (4, 3, 5), 4: (3, 2, 4, 3)}
TILES = {1: (4,), 2: (3, 4), 3: (2, 3, 4), 4: (2, 2, 3, 2)}


def loads(a: Any, at: Any) -> Any:
    """Inside, over each edge, and outside; with constant and run-time offsets."""
    shape = TILES[a.ndim]
    rest = (0,) * (a.ndim - 1)
    return (
        tk.tile_load(a, shape=shape),
        tk.tile_load(a, shape=shape, offset=(at, *rest)),
        tk.tile_load(a, shape=shape, offset=(*rest, at + 2)),
        tk.tile_load(a, shape=shape, offset=(-2, *rest)),
        tk.tile_load(a, shape=shape, offset=(*rest, -1)),
        tk.tile_load(a, shape=shape, offset=(100, *rest)),
        tk.tile_load(a, shape=shape, offset=(-100, *rest), storage="shared"),
    )


def stores(a: Any, t: Any, at: Any) -> None:
    rest = (0,) * (a.ndim - 1)
    tk.tile_store(a, t)
    tk.tile_store(a, t, offset=(at + 2, *rest))
    tk.tile_store(a, t, offset=(*rest, -1))
    tk.tile_store(a, t, offset=(100, *rest))
    tk.tile_store(a, t, offset=(-100, *rest))


def store_views(a: Any, t: Any) -> None:
    tk.tile_store(a, tk.tile_transpose(t), offset=(1, 0))


class TestMemory(Conformance):
    cases = [
        *(
            Case("tile_load", f"{n}d-{d.short}", {"a": array(d, *SHAPES[n]), "at": scalar("int32", 1)}, call=loads)
            for n in SHAPES
            for d in (DTYPES.values() if n == 2 else (DTYPES["float32"],))
        ),
        *(
            Case(
                "tile_store",
                f"{n}d-{d.short}",
                {"a": array(d, *SHAPES[n]), "t": tile(d, *TILES[n]), "at": scalar("int64", 1)},
                call=stores,
                outputs=("a",),
            )
            for n in SHAPES
            for d in (DTYPES.values() if n == 2 else (DTYPES["float32"],))
        ),
        Case("tile_store", "view", {"a": array("float32", 5, 3), "t": tile("float32", 3, 4)}, call=store_views,
             outputs=("a",)),
    ]  # fmt: skip


# Products.


DIGITS = np.arange(72).reshape(9, 8) % 8


def multiplied(a: Any, at: Any) -> Any:
    """Loads that only a product reads, inside the array and over its edges; the other factor takes them apart."""
    load, one = REGISTRY["load_factor"], tk.tile_ones(shape=(1, 3), dtype=a.dtype)
    other = tk.tile_reshape(tk.tile_astype(tk.tile_arange(1, 5), a.dtype), (4, 1))
    offsets = ((0, 0), (at, 2), (-1, at), (at, at + 2), (100, 0))
    return tuple(
        tk.tile_matmul(one, load(a, shape=(3, 4), offset=offset, step=step))
        + tk.tile_transpose(tk.tile_matmul(load(a, shape=(4, 4), offset=offset, step=step), other))
        for offset in offsets
        for step in ((0, 0), (1, 0), (0, 2))
    )


UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}


def product_bound(out: str, alpha: float = 1.0, beta: float = 0.0) -> Any:
    """``(K + 4) u (|alpha| |A||B| + |beta| |C|)`` plus one rounding to the output's dtype, for both sides."""

    def bound(data: Mapping[str, Any]) -> Any:
        a, b = (np.abs(np.asarray(data[name], np.float64)) for name in ("a", "b"))
        wide = "float64" if out == "float64" or data["a"].dtype == np.float64 else "float32"
        size = abs(alpha) * (a @ b) + abs(beta) * np.abs(np.asarray(data.get("out", 0.0), np.float64))
        return 2 * ((a.shape[1] + 4) * UNIT[wide] + UNIT[out]) * size

    return bound


def transposed_product(a: Any, b: Any) -> Any:
    return tk.tile_matmul(tk.tile_transpose(tk.tile_transpose(a)), b)


def scaled(a: Any, b: Any, out: Any, s: Any, t: Any) -> None:
    tk.tile_matmul(a, b, out, alpha=s, beta=t)


def operands(a: str, b: str, m: int, n: int, k: int, out: str | None = None, data: str = "normal") -> dict[str, Any]:
    found = {"a": tile(a, m, k, data=data), "b": tile(b, k, n, data=data)}
    return found if out is None else {**found, "out": tile(out, m, n, data=data)}


def summed_in_int32(a: Any, b: Any, out: Any = 0, alpha: int = 1, beta: int = 1) -> Any:
    """The exact product, modulo 2**32."""
    exact = alpha * (a.astype(object) @ b.astype(object)) + beta * np.asarray(out).astype(object)
    return ((exact + 2**31) % 2**32 - 2**31).astype(np.int64)


class TestProducts(Conformance):
    cases = [
        *(
            Case("tile_matmul", f"accumulate-{a}-{b}-{out}", operands(a, b, 5, 7, 9, out), outputs=("out",),
                 bound=product_bound(out, beta=1.0))
            for a, b, out in (
                ("float32", "float32", "float32"), ("float64", "float64", "float64"), ("float16", "float16", "float32"),
                ("float16", "float16", "float16"), ("bfloat16", "bfloat16", "float32"),
                ("float16", "float32", "float64"), ("float64", "float32", "float32"),
            )
        ),
        *(
            Case("tile_matmul", f"new-{m}x{n}x{k}-{dtype}", operands(dtype, dtype, m, n, k), bound=product_bound(dtype))
            for m, n, k in ((1, 1, 1), (16, 16, 16), (1, 33, 8), (33, 1, 8), (4, 8, 65))
            for dtype in ("float32", "bfloat16")
        ),
        *(
            Case("load_factor", d, {"a": array(d, 9, 8, data=DIGITS), "at": scalar("int32", 1)}, call=multiplied)
            for d in ("float16", "bfloat16", "float32", "float64", "int8", "int32")
        ),
        *(
            Case("tile_matmul", f"{a}-{b}-{m}x{n}x{k}", operands(a, b, m, n, k, out, "special"), outputs=outputs,
                 expected=summed_in_int32)
            for a, b in (("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8"), ("int32", "int32"), ("int16", "int8"),
                         ("uint16", "int32"))
            for m, n, k, out, outputs in ((5, 7, 9, "int32", ("out",)), (33, 17, 20, None, ()), (1, 64, 3, None, ()))
        ),
        Case("tile_matmul", "integer-alpha-beta", operands("int8", "int8", 4, 6, 5, "int32", "special"),
             {"alpha": -3, "beta": 2.0}, outputs=("out",), expected=summed_in_int32),
        Case("tile_matmul", "run-time-integer-alpha-beta",
             {**operands("int32", "uint8", 4, 6, 5, "int32", "special"), "s": scalar("int64", 2**33 + 3),
              "t": scalar("int8", -1)}, call=scaled, outputs=("out",)),
        Case("tile_matmul", "transposed", operands("float32", "float32", 4, 6, 5), call=transposed_product,
             bound=product_bound("float32")),
        Case("tile_matmul", "alpha-beta", operands("float32", "float32", 4, 6, 5, "float32"),
             {"alpha": 2, "beta": -0.5}, outputs=("out",), bound=product_bound("float32", 2.0, 0.5)),
        Case("tile_matmul", "beta-zero", operands("float32", "float32", 4, 6, 5, "float32"), {"beta": 0.0},
             outputs=("out",), bound=product_bound("float32")),
        Case("tile_matmul", "run-time-alpha-beta",
             {**operands("float32", "float32", 4, 6, 5, "float32"), "s": scalar("float32", 1.5),
              "t": scalar("float32", -2.0)},
             call=scaled, outputs=("out",), bound=product_bound("float32", 1.5, 2.0)),
        Case("tile_matmul", "run-time-beta-zero-over-nan",
             {**operands("float32", "float32", 4, 6, 5), "out": tile("float32", 4, 6, data=np.nan),
              "s": scalar("float32", 1.5), "t": scalar("float32", 0.0)},
             call=scaled, outputs=("out",), smooth=False,
             bound=lambda data: product_bound("float32", 1.5)({"a": data["a"], "b": data["b"]})),
    ]  # fmt: skip
