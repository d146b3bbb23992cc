"""Every legal spelling assembles for its minimum sm and PTX, none does one step below, and each is one instruction."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

import pytest

import tilekit as tk
from tests.builtins.assembler import instruction, knows, machine_code, refused
from tilekit.builtins.atom_forms import forms
from tilekit.builtins.atoms import Atom, atoms
from tilekit.runtime.cuda import disassemble

SMS = ("70", "75", "80", "86", "89", "90", "100", "103", "107a")
"""Where instructions were added; 107a stands for the family that has some of its own."""
VERSIONS = tuple(
    (major, minor) for major, minors in ((6, range(6)), (7, range(9)), (8, range(9)), (9, range(5))) for minor in minors
)
Minimum = tuple[str, tuple[int, int]]
pytestmark = pytest.mark.skipif(not knows(SMS[-1], VERSIONS[-1]), reason="needs an nvJitLink that knows all atoms")


def number(sm: str) -> int:
    return int(sm.rstrip("a"))


def first_ptx(sm: str) -> tuple[int, int] | None:
    return next((ptx for ptx in VERSIONS if knows(sm, ptx)), None)


def last_ptx(sm: str) -> tuple[int, int]:
    return next(ptx for ptx in reversed(VERSIONS) if knows(sm, ptx))


@cache
def oldest() -> str:
    """The oldest GPU that the assembler knows: an older minimum is not seen by it."""
    return next(sm for sm in SMS if first_ptx(sm))


@cache
def by_minimum() -> dict[Minimum, list[Atom]]:
    """All operand lists of all atoms by the least that the assembler can be asked for."""
    found: dict[Minimum, list[Atom]] = defaultdict(list)
    for atom in atoms():
        for one in (atom, *atom.variants):
            sm = max(one.min_sm, oldest(), key=number)
            found[sm, max(one.min_ptx, first_ptx(sm) or one.min_ptx)].append(one)
    return found


def test_the_assembler_knows_what_atoms_need() -> None:
    assert {sm for sm, _ in by_minimum()} <= set(SMS)
    assert {ptx for _, ptx in by_minimum()} <= set(VERSIONS)
    assert [group for group in by_minimum() if not knows(*group)] == []


def test_legal_spellings_assemble_at_their_minimum() -> None:
    assert sum(map(len, by_minimum().values())) >= len(atoms())
    for group, members in by_minimum().items():
        assert refused([instruction(atom) for atom in members], *group) == {}, group


def test_legal_spellings_fail_on_the_gpu_before() -> None:
    checked = 0
    for (sm, _), members in by_minimum().items():
        if sm != oldest():
            before = SMS[SMS.index(sm) - 1]
            texts = [instruction(atom) for atom in members]
            assert set(texts) - set(refused(texts, before, last_ptx(before))) == set(), (sm, before)
            checked += len(texts)
    assert checked > 500


def test_legal_spellings_fail_with_the_ptx_before() -> None:
    checked = 0
    for (sm, ptx), members in by_minimum().items():
        if ptx != first_ptx(oldest()):
            before = VERSIONS[VERSIONS.index(ptx) - 1]
            texts = [instruction(atom) for atom in members]
            assert set(texts) - set(refused(texts, sm, before)) == set(), (sm, ptx)
            checked += len(texts)
    assert checked > 500


def test_what_one_family_has_other_targets_lack() -> None:
    own = [instruction(atom) for atom in atoms() if atom.min_sm == "107a"]
    assert refused(own, "107f", (9, 4)) == {}
    for other in ("107", "110a"):
        assert knows(other, (9, 4))
        assert set(refused(own, other, (9, 4))) == set(own)


def test_the_assembler_takes_what_is_refused() -> None:
    # Else there would be no reason to refuse it by name.
    for form in forms():
        for types in form.every_types() if form.refused else ():
            for modifiers in form.every_modifiers():
                assert refused([instruction(form.atom(modifiers, types))], "90", (8, 1)) == {}


NATIVE = {
    "fma.rn.f32": "FFMA",
    "fma.rz.f32": "FFMA RZ",
    "fma.rm.ftz.sat.f32": "FFMA FTZ RM SAT",
    "fma.rp.f64": "DFMA RP",
    "fma.rn.f16": "HFMA2",
    "fma.rn.relu.f16x2": "HFMA2 RELU",
    "fma.rn.bf16x2": "HFMA2 BF16_V2",
    "fma.rn.oob.bf16": "HFMA2 BF16_V2 OOB",
    "fma.rm.f32x2": "FFMA2 RM",
    "fma.rz.f32.f16": "FHFMA RZ",
    "add.rp.f32": "FADD RP",
    "mul.rz.f32": "FMUL RZ",
    "sub.rn.f64": "DADD",
    "mul.rn.f64": "DMUL",
    "max.NaN.f32": "FMNMX NAN",
    "ex2.approx.ftz.f32": "MUFU EX2",
    "tanh.approx.f32": "MUFU TANH",
}
"""The instruction of the machine that an atom is, alone, with what must follow it."""
ARITHMETIC = re.compile(r"/ +((?:F|D|H|FH)(?:FMA|MUL|ADD|MNMX)2?[.\w]*|MUFU[.\w]*)")


@cache
def machine_instructions(sm: str) -> dict[str, list[str]]:
    """What the atoms of NATIVE that have this minimum, sm_90 at least, are on the machine."""
    names = {f"k{n}": text for n, text in enumerate(NATIVE) if max(tk.ptx[text].min_sm, "90", key=number) == sm}
    code = disassemble.disassemble(machine_code({k: tk.ptx[text] for k, text in names.items()}, sm, last_ptx(sm)))
    sections = re.split(r"^\.text\.(k\d+):$", code, flags=re.MULTILINE)[1:]
    return {names[k]: ARITHMETIC.findall(text) for k, text in zip(sections[::2], sections[1::2], strict=True)}


@pytest.mark.skipif(disassemble.find_disassembler() is None, reason="needs nvdisasm or cuobjdump")
@pytest.mark.parametrize("spelling", NATIVE)
def test_an_atom_is_one_instruction_of_the_machine(spelling: str) -> None:
    (found,) = machine_instructions(max(tk.ptx[spelling].min_sm, "90", key=number))[spelling]
    name, *suffixes = found.split(".")
    # Which of two units of a half-precision instruction runs it is the assembler's choice.
    assert [name, *sorted(set(suffixes) - {"MMA"})] == NATIVE[spelling].split()
