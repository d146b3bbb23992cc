"""Gradients of atoms and of ``tk.fma``: their rules, and where none flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.passes.finite_differences import gradients, traced
from tilekit.builtins.atom_gradients import RULES
from tilekit.builtins.atoms import atoms
from tilekit.errors import KernelNotImplementedError
from tilekit.passes.differentiate import differentiate

SIZE = 6
A = np.array([-1.5, -0.25, 0.5, 2.0, 3.0, 0.75])
B = np.array([0.5, -0.25, 2.0, 2.0, -1.0, 4.0])
C = np.array([1.0, -3.0, 0.5, 8.0, 2.0, 0.25])
POSITIVE = np.abs(A)
LN2 = np.log(2.0)


def test_every_rule_of_the_table_is_written() -> None:
    assert {atom.adjoint for atom in atoms()} - {None} == set(RULES)


def applied(spelling: str, *given: np.ndarray, pred: bool = False) -> dict[str, np.ndarray]:
    """The gradients of the operands, where that of each result is 1, 2, 3 ..."""
    atom = next(a for a in (tk.ptx[spelling], *tk.ptx[spelling].variants) if len(a.slots) == len(given) + 1)
    count, dtype = len(given), atom.slots[0].carriers[0]

    @tk.kernel
    def apply(A: tk.array1d[Any], B: tk.array1d[Any], C: tk.array1d[Any], Out: tk.array1d[Any]):
        tiles = (tk.tile_load(A, SIZE), tk.tile_load(B, SIZE), tk.tile_load(C, SIZE))
        r = tk.tile_zeros(SIZE, dtype=dtype)
        if pred:
            tk.tile_apply(atom, r, *tiles[:count], pred=tiles[0] > 0.0, preserve_dst=True)
        else:
            tk.tile_apply(atom, r, *tiles[:count])
        tk.tile_store(Out, r)

    types = [slot.carriers[0].numpy for slot in atom.slots[1:]]
    arrays = {name: x.astype(t) for name, x, t in zip("ABC", (given * 3)[:3], (types * 3)[:3], strict=True)}
    arrays["Out"] = np.zeros(SIZE, dtype.numpy)
    seed = np.arange(1, SIZE + 1).astype(np.float64 if dtype is tk.float64 else np.float32)
    return gradients(traced(apply, arrays), arrays, {"Out": seed}, (1,))


SLOPES: list[tuple[str, tuple[np.ndarray, ...], Callable[..., tuple[Any, ...]]]] = [
    ("fma.rz.f64", (A, B, C), lambda a, b, c: (b, a, 1)),
    ("fma.rn.f16", (A, B, C), lambda a, b, c: (b, a, 1)),
    ("add.rn.f32", (A, B), lambda a, b: (1, 1)),
    ("sub.rm.f64", (A, B), lambda a, b: (1, -1)),
    ("mul.rn.f32", (A, B), lambda a, b: (b, a)),
    ("div.rn.f64", (A, B), lambda a, b: (1 / b, -a / b**2)),
    ("div.full.f32", (A, B), lambda a, b: (1 / b, -a / b**2)),
    ("mov.f32", (A,), lambda a: (1,)),
    ("cvt.rn.f32.f64", (A,), lambda a: (1,)),
    ("cvt.f32.f16", (A,), lambda a: (1,)),
    ("cvt.sat.f64.f64", (A,), lambda a: ((a > 0) & (a < 1),)),
    ("neg.f32", (A,), lambda a: (-1,)),
    ("abs.f64", (A,), lambda a: (np.sign(a),)),
    ("min.f32", (A, B), lambda a, b: (a <= b, a > b)),
    ("max.NaN.f16", (A, B), lambda a, b: (a >= b, a < b)),
    ("max.f32", (A, B, C), lambda a, b, c: ((a >= b) & (a >= c), (b > a) & (b >= c), (c > a) & (c > b))),
    ("rcp.rn.f64", (A,), lambda a: (-1 / a**2,)),
    ("sqrt.rn.f64", (POSITIVE,), lambda a: (0.5 / np.sqrt(a),)),
    ("rsqrt.approx.f32", (POSITIVE,), lambda a: (-0.5 * a**-1.5,)),
    ("ex2.approx.f32", (A,), lambda a: (LN2 * 2**a,)),
    ("lg2.approx.f32", (POSITIVE,), lambda a: (1 / (a * LN2),)),
    ("tanh.approx.f32", (A,), lambda a: (1 - np.tanh(a) ** 2,)),
    ("sin.approx.f32", (A,), lambda a: (np.cos(a),)),
    ("cos.approx.f32", (A,), lambda a: (-np.sin(a),)),
]


@pytest.mark.parametrize(("spelling", "given", "slopes"), SLOPES, ids=[spelling for spelling, *_ in SLOPES])
def test_gradients_are_the_slopes(spelling: str, given: tuple[np.ndarray, ...], slopes: Any) -> None:
    found = applied(spelling, *given)
    for name, slope in zip("ABC", slopes(*given), strict=False):
        wanted = np.arange(1, SIZE + 1) * slope
        np.testing.assert_allclose(found[name], wanted, rtol=1e-3 if found[name].dtype == np.float16 else 1e-5)


def test_every_rule_is_tested() -> None:
    assert {tk.ptx[spelling].adjoint for spelling, *_ in SLOPES} == set(RULES)


@pytest.mark.parametrize("spelling", ["mul.rn.f32", "div.rn.f32", "fma.rn.f64"])
def test_what_is_left_out_cannot_spoil_a_gradient(spelling: str) -> None:
    """Where the predicate is false, operands may be anything."""
    anything = np.array([np.inf, np.nan, 2.0, 4.0, 0.5, 1.0])
    count = len(tk.ptx[spelling].slots) - 1
    found = applied(spelling, A, *(anything,) * (count - 1), pred=True)
    for name in "ABC"[:count]:
        assert np.isfinite(found[name]).all(), name
        assert found[name][:2].tolist() == [0, 0]
        assert (found[name][2:] != 0).all()


def test_what_was_clamped_cannot_spoil_a_gradient() -> None:
    @tk.kernel
    def clamped(A: tk.array1d[tk.float32], B: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
        a, b = tk.tile_load(A, 4), tk.tile_load(B, 4)
        tk.tile_store(Out, tk.tile_fma(a, b, tk.fma(a[3], b[3], 0.0, sat=True), sat=True))

    a = np.array([1, -1, 0.5, 0.5], np.float32)
    b = np.array([np.inf, np.inf, 0.25, 0.5], np.float32)
    arrays = {"A": a, "B": b, "Out": np.zeros(4, np.float32)}
    found = gradients(traced(clamped, arrays), arrays, {"Out": np.ones(4, np.float32)}, (1,))
    np.testing.assert_array_equal(found["A"], [0, 0, 0.25, 0.5 + 2 * 0.5])


@pytest.mark.parametrize("spelling", ["min.xorsign.abs.f32", "fma.rn.oob.f16", "cvt.rzi.f32.f32", "add.s32"])
def test_what_no_rule_is_right_for_has_none(spelling: str) -> None:
    assert tk.ptx[spelling].adjoint is None


def test_bits_do_not_swallow_a_gradient() -> None:
    @tk.kernel
    def swallowed(A: tk.array1d[tk.float16], Out: tk.array1d[tk.float16]):
        bits, r = tk.tile_empty(4, dtype=tk.uint16), tk.tile_empty(4, dtype=tk.float16)
        tk.tile_apply("mov.b16", bits, tk.tile_load(A, 4))
        tk.tile_apply("fma.rn.f16", r, bits, 2.0, 1.0)
        tk.tile_store(Out, r)

    @tk.kernel
    def constants(A: tk.array1d[tk.float16], Out: tk.array1d[tk.float16]):
        r = tk.tile_load(A, 4)
        tk.tile_apply("fma.rn.f16", r, r, tk.uint16(0x4000), 1.0)
        tk.tile_store(Out, r)

    arrays = {"A": np.ones(4, np.float16), "Out": np.zeros(4, np.float16)}
    with pytest.raises(
        KernelNotImplementedError, match=r"operand a of fma.rn.f16 is a tile<4xu16>, bits through which"
    ):
        differentiate(traced(swallowed, arrays))
    found = gradients(traced(constants, arrays), arrays, {"Out": np.ones(4, np.float32)}, (1,))
    assert found["A"].tolist() == [2, 2, 2, 2]  # 0x4000 is the number 2 there
