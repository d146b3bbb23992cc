"""Which values are computed alike."""

import numpy as np

import tilekit as tk
from tests.passes.finite_differences import traced
from tilekit.ir.affine import definitions
from tilekit.ir.core import walk
from tilekit.passes.fingerprints import Fingerprints


@tk.kernel
def twice(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    x, y = a[i], a[i]
    out[0] = x + 0.0
    out[1] = y + 0.0
    out[2] = y + -0.0
    out[3] = x + 1.0
    out[4] = y + tk.float32(1.0)


def test_numbers_are_alike_if_their_bits_are() -> None:
    a = np.zeros(1, np.float32)
    fn = traced(twice, {"a": a, "out": a})
    prints = Fingerprints(definitions(fn.body), {})
    stored = [prints.of(op.operands["value"]) for op in walk(fn.body) if op.builtin.writes]
    assert [stored.index(each) for each in stored] == [0, 0, 2, 3, 3]


def test_what_is_unlike_others_is_like_itself() -> None:
    a = np.zeros(1, np.float32)
    fn = traced(twice, {"a": a, "out": a})
    prints = Fingerprints(definitions(fn.body), {}, lambda op: bool(op.builtin.reads))
    stored = [prints.of(op.operands["value"]) for op in walk(fn.body) if op.builtin.writes]
    assert [stored.index(each) for each in stored] == [0, 1, 2, 3, 4]
