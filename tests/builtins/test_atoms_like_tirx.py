"""The register families of TIRx: a spelling is legal there if and only if it is legal here, but for what is named."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import tilekit as tk
from tests.builtins.tirx import spelling_in_tirx, spellings_of_tirx
from tilekit.builtins.atom_forms import forms
from tilekit.builtins.atoms import atoms
from tilekit.errors import TilekitError

MNEMONICS = {form.mnemonic for form in forms()} - {"ld", "st"}
PATTERNS = {*"mov add sub mul div max min fma cvt sqrt ex2 lg2 rcp abs neg".split()}
"""The instructions that TIRx applies to tiles of registers."""

NARROW = "floats of 8 and fewer bits are no dtypes of tilekit"
TWICE = "the ISA does not say whether the narrow result is rounded once, so its bits could not be promised"
ONLY_THERE = {
    "mov.pred": "predicates are no values of tilekit: tile_apply's pred takes them",
    "mov.b128": "tilekit has no dtype of 128 bits; two b64 do the same",
    "add.rz.ftz.f16x2.f32x2.f32x2": TWICE,
    "add.rz.bf16x2.f32x2.f32x2": TWICE,
    "sub.rz.ftz.f16x2.f32x2.f32x2": TWICE,
    "sub.rz.bf16x2.f32x2.f32x2": TWICE,
    "mul.ftz.rz.f16x2.f32x2.f32x2": TWICE,
    "mul.rz.bf16x2.f32x2.f32x2": TWICE,
    "mul.bf16x2.bf16x2.f16x2": TWICE,
    "mul.f16x2.f16x2.bf16x2": TWICE,
    "cvt.*.e4m3x2*": NARROW,
    "cvt.*.e5m2x2*": NARROW,
    "cvt.*.e2m1x2*": NARROW,
    "cvt.*.e2m3x2*": NARROW,
    "cvt.*.e3m2x2*": NARROW,
    "cvt.*.ue5m3x2*": NARROW,
    "cvt.*.ue8m0x2*": NARROW,
    "cvt.*.s2f6x2*": NARROW,
    "cvt.rs*.e4m3x4.f32": NARROW,
    "cvt.rs*.e5m2x4.f32": NARROW,
    "cvt.rs*.e2m1x4.f32": NARROW,
    "cvt.rs*.e2m3x4.f32": NARROW,
    "cvt.rs*.e3m2x4.f32": NARROW,
    "cvt.rs*.f16x2.f32": "stochastic rounding takes random bits as an operand, which no operand list here has",
    "cvt.rs*.bf16x2.f32": "as for f16x2",
    "cvt.*.pzo.f16.f32": "what .pzo does to a zero is not in the ISA's text, and no GPU that has it was measured",
    "cvt.*.pzo.bf16.f32": "as for f16",
    "cvt.*.pzo.f16x2.f32": "as for f16",
    "cvt.*.pzo.bf16x2.f32": "as for f16",
    "cvt.*.pzo.tf32.f32": "as for f16",
}
"""What TIRx takes and tilekit does not, with the reason; ``*`` stands for any characters."""
AMBIGUOUS_THERE = ("add.rz.f32x2.bf16x2.f32x2", "sub.rz.f32x2.bf16x2.f32x2")
"""In TIRx's table, but its lookup takes types in any order too, and finds the form that narrows as well."""


def exception(spelling: str) -> str | None:
    """The pattern of ONLY_THERE that the spelling matches."""
    for pattern in ONLY_THERE:
        if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), spelling):
            return pattern
    return None


def is_legal(spelling: str) -> bool:
    try:
        tk.ptx[spelling]
    except TilekitError:
        return False
    return True


THEIRS = spellings_of_tirx(MNEMONICS)


def test_every_instruction_of_its_register_tiles_is_here() -> None:
    assert PATTERNS <= MNEMONICS
    assert {spelling.split(".")[0] for spelling in THEIRS} == MNEMONICS


def test_what_is_legal_there_is_legal_here() -> None:
    refused = {spelling for spelling in THEIRS if not is_legal(spelling)}
    assert sorted(spelling for spelling in refused if exception(spelling) is None) == []


def test_no_exception_is_needless_or_hides_a_legal_spelling() -> None:
    used = Counter(exception(spelling) for spelling in THEIRS)
    assert [pattern for pattern in ONLY_THERE if not used[pattern]] == []
    assert [spelling for spelling in THEIRS if exception(spelling) and is_legal(spelling)] == []


@pytest.mark.parametrize("mnemonic", sorted(MNEMONICS))
def test_what_is_legal_here_is_legal_there(mnemonic: str) -> None:
    for atom in atoms(mnemonic):
        if atom.spelling not in AMBIGUOUS_THERE:
            assert spelling_in_tirx(atom.spelling) == atom.spelling


def test_what_is_ambiguous_there_is_in_its_table() -> None:
    for spelling in AMBIGUOUS_THERE:
        assert spelling_in_tirx(spelling) is None
        assert spelling in THEIRS
        assert is_legal(spelling)


def test_both_refuse_what_ptxas_assembles_wrongly() -> None:
    for spelling in ("fma.rz.bf16", "fma.rm.relu.bf16x2", "fma.rn.oob.sat.f16"):
        assert spelling_in_tirx(spelling) is None
        assert not is_legal(spelling)


def test_both_put_modifiers_in_the_same_order() -> None:
    for spelling in ("fma.f32.sat.ftz.rn", "cvt.relu.satfinite.rn.f16.f32", "max.abs.xorsign.NaN.ftz.f32"):
        assert spelling_in_tirx(spelling) == tk.ptx[spelling].spelling
