"""``python -m tilekit atoms``."""

from __future__ import annotations

import pytest

from tilekit.builtins.atom_forms import forms
from tilekit.builtins.atoms import atoms
from tilekit.cli import main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["atoms", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_form_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(printed(capsys))
    assert "fma.<rn|rz|rm|rp>[.ftz][.sat].f32" in text
    assert "<add|sub|mul>[.rn|.rz|.rm|.rp].f64" in text
    shown = [f.ending(short=True) for f in forms()]
    assert [form for form in shown if form not in text] == []
    assert "COP    ca|cg|cs|lu|cv" in text
    assert "refused: ptxas accepts it and computes something else" in text


def test_a_pattern_lists_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "fma.rn*.f16")
    assert [line.split()[0] for line in lines[2:]] == [atom.spelling for atom in atoms("fma.rn*.f16")]
    assert len(printed(capsys, "mov")) == 2 + 11 + 6


def test_one_spelling_is_told_whole(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "add.f16")
    assert [line.split()[0] for line in lines] == [
        "spelling",
        "operands",
        "dtypes",
        "needs",
        "result",
        "gradient",
    ]
    assert lines[0].split() == ["spelling", "add.rn.f16"]
    assert lines[2].split(maxsplit=1)[1] == "f16: float16 or uint16"
    assert printed(capsys, "ex2.approx.f32")[4].endswith("not exact; the error by the ISA: 2 ulp")


def test_what_is_no_atom_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["atoms", "fma.f32"]) == 1
    assert "fma.f32 lacks its rounding; write fma.rn.f32" in capsys.readouterr().err
    assert main(["atoms", "fma.*.f8"]) == 1
    assert "no atom matches 'fma.*.f8'" in capsys.readouterr().err
