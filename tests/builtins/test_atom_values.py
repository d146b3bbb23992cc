"""What atoms mean in the interpreter: the oracle's bits for every exact one, in whatever state the thread is."""

from __future__ import annotations

import ctypes
import json
import platform
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.builtins import atom_bounds, atom_oracle
from tests.builtins.atom_cases import operands_of, wrong
from tests.builtins.atom_values_cases import computed
from tests.builtins.exact_numbers import FORMATS
from tilekit.builtins.atom_values import evaluate
from tilekit.builtins.atoms import Atom, atoms, find_atom
from tilekit.builtins.exact import fused
from tilekit.errors import KernelValueError
from tilekit.ir.float_state import ieee_state

VECTORS = json.loads((Path(__file__).parent / "fma_vectors.json").read_text())
EXACT = [
    atom
    for atom in atoms()
    if atom.exact and atom.cpu not in ("", "mov") and all(slot.lanes == 1 for slot in atom.slots)
]
UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}
"""C's FE_UPWARD, where it is known."""


def differing(chosen: list[Atom], count: int) -> list[str]:
    found = []
    for atom in chosen:
        given = operands_of([slot.ptx_type for slot in atom.slots[1:]], count)
        found += wrong(atom.spelling, given, computed(atom, given))[:3]
    return found


def test_exact_atoms() -> None:
    """All under the marker ``deep``; here the others than in the native tests."""
    conversions = [atom for atom in EXACT if atom.mnemonic == "cvt"]
    others = [atom for atom in EXACT if atom.mnemonic != "cvt"]
    assert len(others) > 300
    assert not differing([*others[1::2], *conversions[4::9]], 40)


@pytest.mark.deep
def test_every_exact_atom_on_many_operands() -> None:
    assert not differing(EXACT, 20_000)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("type", ["f32", "f64", "f16", "bf16"])
def test_vectors(type: str, mode: str) -> None:
    """Computed elsewhere, in several ways."""
    if type in ("f16", "bf16") and mode != "rn":
        with pytest.raises(KernelValueError):
            find_atom(f"fma.{mode}.{type}")
        return
    rows = [row for row in VECTORS if row["type"] == type]
    given = [np.array([int(row[name], 16) for row in rows], np.uint64) for name in "abc"]
    got = computed(find_atom(f"fma.{mode}.{type}"), given)
    nan = FORMATS[type]
    for row, have in zip(rows, got.tolist(), strict=True):
        want = int(row[mode], 16)
        if type == "f64" and want & (nan.sign - 1) > nan.infinity:
            assert have & (nan.sign - 1) > nan.infinity
        else:
            assert f"{have:x}" == f"{want:x}", row["name"]


def test_the_oracle_agrees_with_the_vectors() -> None:
    """Also where no atom is: 16-bit floats in directed modes. Which NaN an f64 result is stands in no vector."""
    keys = {mode: f"fma.{mode}" for mode in ("rn", "rz", "rm", "rp")}
    keys |= {"sat_rn": "fma.rn.sat", "relu_rn": "fma.rn.relu", "ftz_rn_tiny_after": "fma.rn.ftz"}
    for row in VECTORS:
        operands = [int(row[name], 16) for name in "abc"]
        for key, spelling in keys.items():
            if key in row:
                found, of = atom_oracle.expected(f"{spelling}.{row['type']}", *operands), FORMATS[row["type"]]
                nan = row["type"] == "f64" and found & (of.sign - 1) > of.infinity
                assert found == int(row[key], 16) or nan, (row["name"], key)


class State:
    """The thread's state as C's library sets it."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None)

    def __enter__(self) -> State:
        assert self.library.fesetround(UPWARD[platform.machine()]) == 0
        return self

    def __exit__(self, *_: object) -> None:
        self.library.fesetround(0)

    @property
    def rounding(self) -> int:
        return int(self.library.fegetround())


@pytest.mark.parametrize(
    "spelling", ["fma.rn.f32", "fma.rz.f64", "add.rm.f32", "mul.rn.f64", "div.rp.f32", "sqrt.rn.f64"]
)
def test_a_thread_that_rounds_upwards(spelling: str) -> None:
    if platform.machine() not in UPWARD or spelling not in {atom.spelling for atom in EXACT}:
        return
    atom = find_atom(spelling)
    given = operands_of([slot.ptx_type for slot in atom.slots[1:]], 200)
    with State() as state:
        assert np.float32(1) + np.float32(2.0**-30) > 1
        got = computed(atom, given)
        assert state.rounding == UPWARD[platform.machine()]
    assert not wrong(spelling, given, got)


def test_the_state_is_restored_after_an_error() -> None:
    if platform.machine() not in UPWARD:
        return
    with State() as state:
        with pytest.raises(ZeroDivisionError), ieee_state():
            assert state.rounding == 0
            1 / 0
        assert state.rounding == UPWARD[platform.machine()]


def test_a_product_beyond_the_range_plus_infinity() -> None:
    """Used to be a NaN: the product alone overflows, the sum of it and an infinity does not."""
    assert fused(np.float64(2.0**1000), np.float64(2.0**1000), np.float64(-np.inf)) == -np.inf
    assert np.isnan(fused(np.float64(np.inf), np.float64(2.0), np.float64(-np.inf)))


@pytest.mark.parametrize("atom", atom_bounds.bounded(), ids=str)
def test_approximations_are_within_the_isas_bound(atom: Atom) -> None:
    given = atom_bounds.operands_of(atom)
    assert 0 < atom_bounds.error_of(atom.spelling, given, computed(atom, given)) <= 1


@pytest.mark.parametrize("spelling", sorted(atom_bounds.FIXED))
def test_what_the_isa_fixes_of_approximations(spelling: str) -> None:
    for operands, want in atom_bounds.FIXED[spelling].items():
        got = computed(find_atom(spelling), [np.array([bits], np.uint64) for bits in operands])
        assert f"{int(got[0]):x}" == f"{want:x}", operands


def test_a_directed_sum_brackets_the_exact_one() -> None:
    a, b = np.float32(0.1), np.float32(0.2)
    low, high = (evaluate(find_atom(f"add.{mode}.f32"), [a, b]) for mode in ("rm", "rp"))
    assert Fraction(float(low)) < Fraction(float(a)) + Fraction(float(b)) < Fraction(float(high))
