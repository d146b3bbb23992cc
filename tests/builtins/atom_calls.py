"""How conformance cases call atoms."""

from __future__ import annotations

from typing import Any

import tilekit as tk
from tests.conformance import tile

PTX = {tk.float16: "f16", tk.bfloat16: "bf16", tk.float32: "f32", tk.float64: "f64"}
"""The types that atoms are spelled with, so that a case may be tested with other floats as well."""


def applied(form: str, shape: tuple[int, ...], dtype: Any = None, **options: Any) -> Any:
    """A function that applies an atom to its operands and returns the destination, of ``dtype`` or theirs."""
    preserve, scope = options.get("preserve_dst", False), options.get("scope", "block")

    def call(a: Any, b: Any = None, c: Any = None, pred: Any = None, old: Any = None) -> Any:
        atom = tk.ptx[form if dtype is not None else f"{form}.{PTX[a.dtype]}"]
        out = tk.tile_empty(shape=shape, dtype=dtype or a.dtype) if old is None else old
        tk.tile_apply(atom, out, *(a, b, c)[: len(atom.slots) - 1], pred=pred, preserve_dst=preserve, scope=scope)
        return out

    return call


def loaded(form: str, shape: tuple[int, ...]) -> Any:
    def call(a: Any, at: Any, pred: Any = None) -> Any:
        out = tk.tile_full(shape, 1, a.dtype)
        keep = pred is not None
        offset = (at, *(0,) * (a.ndim - 1))
        tk.tile_apply(f"{form}.b{a.dtype.bits}", out, a, offset=offset, pred=pred, preserve_dst=keep)
        return out

    return call


def stored(form: str) -> Any:
    def call(a: Any, t: Any, at: Any, pred: Any = None) -> None:
        tk.tile_apply(f"{form}.b{a.dtype.bits}", a, t, offset=(at, *(0,) * (a.ndim - 1)), pred=pred)

    return call


def bits(t: Any, dtype: Any) -> tuple[Any, Any]:
    """A part of a view, and the tile after a write through the view."""
    copy = tk.tile_astype(t, t.dtype)
    view = tk.tile_bitcast(copy, dtype)
    view[0, 0] = view[-1, -1]
    return tk.tile_astype(tk.tile_bitcast(t, dtype)[1:], dtype), copy


def pairs(dtype: Any) -> Any:
    def call(low: Any, high: Any) -> Any:
        return tk.pack2(tk.cast(low, dtype), tk.cast(high, dtype), dtype)

    return call


def alike(names: str, dtype: str, *shape: int, data: Any = "normal") -> dict[str, Any]:
    return {name: tile(dtype, *shape, data=data) for name in names}
