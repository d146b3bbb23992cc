"""The benchmark of atoms measures what it says, and notices wrong results."""

from __future__ import annotations

import pytest

from tilekit.bench import atoms_cpu


def test_as_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert atoms_cpu.main(["fma.rz.f32", "fma.rn.bf16x2", "cvt.rn.f16.f32", "--rounds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if line.startswith(("fma", "cvt"))]
    assert [(row[0], row[-2], row[-1]) for row in rows] == [
        ("fma.rz.f32", "0.3", "right"), ("fma.rn.bf16x2", "-", "right"), ("cvt.rn.f16.f32", "-", "right"),
    ]  # fmt: skip
    assert all(float(row[1]) > 0 for row in rows)


def test_every_default_is_an_atom_with_a_function() -> None:
    assert all(atoms_cpu._function(0, atoms_cpu.find_atom(spelling)) for spelling in atoms_cpu.DEFAULT)
