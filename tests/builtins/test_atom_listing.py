"""The rows of the table of atoms say of every atom what is so."""

from __future__ import annotations

import pytest

from tilekit.builtins.atom_forms import forms
from tilekit.builtins.atom_listing import Row, legend, rows


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.spelling)
def test_a_row_is_true_of_each_of_its_mnemonics(row: Row) -> None:
    for mnemonic in row.mnemonics:
        same = [form for form in forms(mnemonic) if row.spelling.endswith(form.ending(short=True)) and not form.refused]
        plain = [
            form.atom(min(form.every_modifiers(), key=len), types) for form in same for types in form.every_types()
        ]
        said = {(atom.needs, atom.error) for atom in plain}
        assert any(row.needs.partition(";")[0] == needs and error in row.notes for needs, error in said)


def test_rows_differ_where_mnemonics_do() -> None:
    needs = {row.spelling: row.needs for row in rows()}
    assert needs["abs[.ftz].<f16|f16x2>"] == "sm_53, PTX 6.5"
    assert needs["neg[.ftz].<f16|f16x2>"] == "sm_53, PTX 6.0"
    notes = {row.spelling: row.notes for row in rows()}
    assert notes["rcp.approx[.ftz].f32"] == "error: 1 ulp; differentiable"
    assert notes["sqrt.approx[.ftz].f32"] == "error: 2^-23 relative; differentiable"
    assert notes["fma.<rn|rz|rm|rp>[.ftz].f32x2"] == ""
    assert notes["<add|sub|mul>[.rn|.rz|.rm|.rp].f64"] == "differentiable"


def test_modifiers_that_need_newer_gpus_are_noted() -> None:
    needs = {row.spelling: row.needs for row in rows()}
    assert needs["fma.rn[.ftz][.sat|.relu].<f16|f16x2>"] == "sm_53, PTX 4.2; .relu: sm_80, PTX 7.0"
    assert needs["<min|max>[.ftz][.NaN][.xorsign.abs].f32"] == (
        "sm_20, PTX 2.0; .NaN: sm_80, PTX 7.0; .xorsign.abs: sm_86, PTX 7.2"
    )
    assert needs["ld.global.nc.<EVICT>[.L2::64B|.L2::128B|.L2::256B].v8.<b32|u32|s32|f32>"] == "sm_100, PTX 8.8"


def test_what_a_name_stands_for_has_one_minimum() -> None:
    for form in forms():
        for name, listed in legend():
            tokens = listed.split("|")
            if any(set(tokens) <= part.tokens for part in form.modifiers):
                assert len({form.minimum({token}) for token in tokens}) == 1, (form.text(), name)
