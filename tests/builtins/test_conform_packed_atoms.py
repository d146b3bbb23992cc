"""The operations behind atoms of float16 and pairs of it: GPUs before sm_53 have no arithmetic on them."""

from __future__ import annotations

import tilekit as tk
from tests.builtins.atom_calls import alike, applied
from tests.conformance import Case, Conformance, scalar

F16X2 = alike("abc", "uint32", 3, 2, data="index")


class TestPackedAtoms(Conformance):
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
