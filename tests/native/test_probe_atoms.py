"""The program that asks a GPU about atoms, here asking the interpreter: its rules hold, its file is the one kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.builtins import atom_values_cases, measured_atoms
from tests.native import probe_atoms
from tilekit.builtins.atoms import find_atom


def test_what_it_asks_is_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(probe_atoms, "architecture", lambda: "90")
    monkeypatch.setattr(
        probe_atoms, "results", lambda of, given: list(map(atom_values_cases.computed, of, map(list, given)))
    )
    monkeypatch.setattr("sys.argv", ["probe_atoms", str(tmp_path), "--count", "150"])
    assert probe_atoms.main() == 0
    printed = capsys.readouterr().out.splitlines()
    flushing = [line for line in printed if line.startswith(("f32", "f16"))]
    assert len(flushing) == 20 and all("after rounding: 0," in line for line in flushing)
    others = [line for line in printed if line not in flushing]
    assert len(others) > 100 and all(": 0 of " in line for line in others)
    made, kept = measured_atoms.read(tmp_path / measured_atoms.FILE.name), measured_atoms.kept()
    assert set(made) == set(kept)
    the_same = [text for text in kept if find_atom(text).exact and np.array_equal(made[text], kept[text])]
    assert {"fma.rp.f64", "min.f64", "abs.f16", "div.rn.ftz.f32", "rcp.rm.ftz.f32"} <= {*the_same}
