"""``tile_apply``, ``fma``, pairs and views of bits."""

from __future__ import annotations

from typing import Any

import tilekit as tk
from tests.conformance import Case, Conformance, array, scalar, tile

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


F32 = alike("abc", "float32", 4, 6)
F16X2 = alike("abc", "uint32", 3, 2, data="index")
AT = {"at": scalar("int32", 1)}
SOME = {"pred": tile("bool", 6, data=[1, 0, 1, 1, 0, 0])}
OLD = {"pred": tile("bool", 4, 6), "old": tile("float32", 4, 6)}
GUARD = {"a": tile("float32", 9), "pred": scalar("bool", True), "old": tile("float32", 9)}


class TestAtoms(Conformance):
    cases = [
        Case("apply_atom", "fma", F32, call=applied("fma.rn", (4, 6))),
        Case("apply_atom", "scalar", {**F32, "b": scalar("float32")}, call=applied("fma.rz", (4, 6))),
        Case("apply_atom", "double", alike("abc", "float64", 5), call=applied("fma.rp", (5,))),
        Case("apply_atom", "sub", alike("ab", "float32", 7), call=applied("sub.rn", (7,))),
        Case("apply_atom", "pred", {**F32, **OLD}, call=applied("fma.rn", (4, 6), preserve_dst=True)),
        Case("apply_atom", "guard", GUARD, call=applied("mov", (9,), preserve_dst=True)),
        Case("apply_atom_apart", "thread", F32, call=applied("fma.rn", (4, 6), scope="thread")),
        Case("load_atom", "2d", {"a": array("float32", 5, 6), **AT}, call=loaded("ld.global", (4, 6))),
        Case("load_atom", "bits", {"a": array("bfloat16", 9), **AT}, call=loaded("ld.global", (6,))),
        Case("load_atom", "wide", {"a": array("float32", 5, 8), **AT}, call=loaded("ld.global.v2", (4, 8))),
        Case("load_atom", "pred", {"a": array("float32", 5), **AT, **SOME}, call=loaded("ld.global", (6,))),
        Case(
            "store_atom",
            "2d",
            {"a": array("float32", 5, 6), "t": tile("float32", 4, 6), **AT},
            call=stored("st.global"),
            outputs=("a",),
            smooth=False,
        ),
        Case(
            "store_atom",
            "wide",
            {"a": array("float16", 5, 8), "t": tile("float16", 4, 8), **AT},
            call=stored("st.global.v2"),
            outputs=("a",),
            smooth=False,
        ),
        Case(
            "store_atom",
            "pred",
            {"a": array("float32", 5), "t": tile("float32", 6), **AT, **SOME},
            call=stored("st.global"),
            outputs=("a",),
            smooth=False,
        ),
        *(
            Case("fma", f"{mode}-{dtype}", {n: scalar(dtype) for n in "abc"}, {"rounding": mode})
            for dtype in ("float32", "float64")
            for mode in ("rn", "rz", "rm", "rp")
        ),
        Case("pack_pair", "half", {n: scalar("float16") for n in ("low", "high")}, call=pairs(tk.float16)),
        Case("pack_pair", "bf16", {n: scalar("bfloat16") for n in ("low", "high")}, call=pairs(tk.bfloat16)),
        Case("pack_pair", "float", {n: tile("float32", 3) for n in ("low", "high")}, call=pairs(tk.float32)),
        *(
            Case("bits_of", f"{a}-{b.name}", {"t": tile(a, 3, 4, data="positive")}, {"dtype": b}, bits)
            for a, b in (("float16", tk.uint32), ("float32", tk.uint64), ("uint32", tk.int8), ("bfloat16", tk.uint16))
        ),
    ]


class TestPackedAtoms(Conformance):
    """Of float16 and pairs of it: GPUs before sm_53 have no arithmetic on them."""

    cases = [
        Case("apply_atom", "half", alike("abc", "float16", 5), call=applied("fma.rn", (5,))),
        Case("apply_atom", "packed", F16X2, call=applied("fma.rn.f16x2", (3, 2), tk.uint32)),
        Case(
            "apply_atom_apart",
            "mov",
            alike("a", "uint32", 3, 4, data="index"),
            call=applied("mov.b64", (3, 2), tk.uint64),
        ),
        Case("fma", "half", {n: scalar("float16") for n in "abc"}),
        Case("fma", "tile", {**alike("ac", "float32", 5), "b": scalar("float32")}, {"rounding": "rm"}),
    ]
