"""A real GPU's answers where the PTX ISA is silent: the oracle and the interpreter give them, other rules do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.builtins import atom_bounds, atom_oracle, measured_atoms
from tests.builtins.atom_cases import wrong
from tests.builtins.atom_values_cases import computed
from tests.builtins.exact_numbers import FORMATS
from tests.native import ftz_triples
from tilekit.builtins.atoms import find_atom

KEPT = measured_atoms.kept()
FLUSHING = [text for text in KEPT if text.startswith("fma") and ".ftz." in text]


def mistaken(pattern: str, count: int = 40) -> list[str]:
    """Where the oracle differs from the GPU, on some of the rows of forms whose spelling begins so."""
    found = []
    for text, rows in KEPT.items():
        if text.startswith(pattern) and find_atom(text).exact:
            some = slice(None, None, max(1, len(rows[0]) // count))
            found += wrong(text, [column[some] for column in rows[1:]], rows[0][some])
    return found


def test_what_is_kept() -> None:
    assert len(KEPT) > 500 and measured_atoms.FILE.stat().st_size < 160_000
    assert len(FLUSHING) == 5 and all(len(KEPT[text][0]) == 2000 for text in FLUSHING)
    assert {text.partition(".")[0] for text in KEPT} == {
        "fma", "add", "sub", "mul", "min", "max", "abs", "neg", "div", "rcp", "sqrt", "cvt", "tanh"
    }  # fmt: skip


def test_the_interpreter_gives_the_gpus_bits() -> None:
    different = []
    for text, (got, *given) in KEPT.items():
        if find_atom(text).exact and not np.array_equal(computed(find_atom(text), given), got):
            different.append(text)
    assert not different


def test_the_oracle_gives_the_gpus_bits() -> None:
    assert not mistaken("")


def test_one_rule_of_ftz_is_the_gpus() -> None:
    wrongly = dict.fromkeys(ftz_triples.rules("f32", "rn", 0, 0, 0), 0)
    for text in FLUSHING:
        _, mode, _, type = text.split(".")
        sign = FORMATS[type].sign
        for got, *triple in list(zip(*(column.tolist() for column in KEPT[text]), strict=True))[::10]:
            for rule, flushes in ftz_triples.rules(type, mode, *triple).items():
                wrongly[rule] += flushes != (got & (sign - 1) == 0)
    assert wrongly[ftz_triples.GPUS_RULE] == 0
    assert all(count > 50 for rule, count in wrongly.items() if rule != ftz_triples.GPUS_RULE)


ORDERS = [*(("fma", order) for order in ((0, 1, 2), (1, 0, 2))), ("div", (1, 0))]
ORDERS += [(mnemonic, (0, 1)) for mnemonic in ("add", "sub", "mul", "min", "max")]


@pytest.mark.parametrize(("mnemonic", "order"), ORDERS)
def test_another_order_of_nans_is_seen(mnemonic: str, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(atom_oracle.NAN_FROM, mnemonic, order)
    assert mistaken(f"{mnemonic}.", 4096)


@pytest.mark.parametrize(("rules", "changed"), [(("cvt",), "fma."), (("fma",), "cvt.")])
def test_another_moment_of_flushing_is_seen(
    rules: tuple[str, ...], changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atom_oracle, "FLUSHED_ONCE_ROUNDED", rules)
    assert mistaken(changed)


def test_quotients_are_never_between_the_two_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a power of two the greatest quotient is that of 24 bits, which nothing rounds."""
    assert sum(text.startswith(("div.", "rcp.")) and ".ftz." in text for text in KEPT) == 8
    monkeypatch.setattr(atom_oracle, "FLUSHED_ONCE_ROUNDED", ("fma", "cvt", "div", "rcp"))
    assert not mistaken("div.") + mistaken("rcp.")


def test_an_approximation_that_is_less_exact_than_the_isa_says() -> None:
    """tanh.approx.bf16 misses the bound of 2^-8 on one operand of each sign, and by less than 1.00007 times."""
    text = measured_atoms.APPROXIMATED
    got, every = KEPT[text]
    finite = every & np.uint64(0x7FFF) < 0x7F80
    errors = atom_bounds.errors_of(text, [every[finite]], got[finite])
    assert tuple(every[finite][errors > 1].tolist()) == atom_bounds.BEYOND[text]
    assert 1.00006 < errors.max() < atom_bounds.BEYOND_BY
    assert atom_bounds.within_a_gpus_bound(text, [every[finite]], got[finite])
    for bits in (0x3F00, atom_bounds.BEYOND[text][0]):  # next to what is right, but beyond the bound
        worse = np.array([computed(find_atom(text), [np.array([bits], np.uint64)])[0] + 2], np.uint64)
        assert not atom_bounds.within_a_gpus_bound(text, [np.array([bits], np.uint64)], worse)
    ours = computed(find_atom(text), [every[finite]])
    assert atom_bounds.error_of(text, [every[finite]], ours) <= 1


def test_the_file_is_made_of_what_was_measured(tmp_path: Path) -> None:
    """From made-up files: by spelling, the families of triples one after the other, the results first."""
    for type in ("f32", "f16"):
        names = {name: np.full(3, place, np.uint16) for place, name in enumerate(("rn", *"abc"))}
        both = {f"{family}/{name}": bits for family in ("one", "two") for name, bits in names.items()}
        np.savez(tmp_path / f"ftz_{type}.npz", **both)
    np.savez(tmp_path / "nans.npz", **{"div.u16/0": np.arange(900), "div.u16/1": np.arange(900)})
    np.savez(tmp_path / "others.npz", **{"rcp.rn.f64/0": np.arange(900)})
    np.savez(tmp_path / "half_approx.npz", **{measured_atoms.APPROXIMATED: np.arange(1 << 16)})
    measured_atoms.keep(tmp_path)
    found = measured_atoms.read(tmp_path / measured_atoms.FILE.name)
    assert [column.tolist() for column in found["fma.rn.ftz.f16"]] == [[place] * 6 for place in range(4)]
    assert [len(column) for column in found["div.u16"]] == [measured_atoms.ROWS["nans"]] * 2
    assert len(found[measured_atoms.APPROXIMATED]) == 2
