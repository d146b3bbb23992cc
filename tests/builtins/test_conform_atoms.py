"""``tile_apply``, ``fma``, pairs and views of bits."""

from __future__ import annotations

import tilekit as tk
from tests.builtins.atom_calls import alike, applied, bits, loaded, pairs, stored
from tests.conformance import Case, Conformance, array, scalar, tile

F32 = alike("abc", "float32", 4, 6)
AT = {"at": scalar("int32", 1)}
SOME = {"pred": tile("bool", 6, data=[1, 0, 1, 1, 0, 0])}
OLD = {"pred": tile("bool", 4, 6), "old": tile("float32", 4, 6)}
GUARD = {"a": tile("float32", 9), "pred": scalar("bool", True), "old": tile("float32", 9)}

STORED = {"outputs": ("a",), "smooth": False}


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
            **STORED,
        ),
        Case(
            "store_atom",
            "wide",
            {"a": array("float16", 5, 8), "t": tile("float16", 4, 8), **AT},
            call=stored("st.global.v2"),
            **STORED,
        ),
        Case(
            "store_atom",
            "pred",
            {"a": array("float32", 5), "t": tile("float32", 6), **AT, **SOME},
            call=stored("st.global"),
            **STORED,
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
