"""The page of PTX atoms: its table is written from the data, and what it says of errors is what they say."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

import tilekit as tk
from tilekit.builtins.atom_forms import families
from tilekit.builtins.atom_listing import rows
from tilekit.errors import TilekitError

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "ptx_atoms.md").read_text(encoding="utf-8")


def test_errors_are_those_of_the_page() -> None:
    table = PAGE.partition("| spelling | error |")[2].partition("\n\n")[0]
    shown = re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE)
    assert len(shown) > 5
    for spelling, message in shown:
        with pytest.raises(TilekitError, match=re.escape(message)):
            tk.ptx[spelling]


def test_the_table_has_every_form() -> None:
    pytest.importorskip("sphinx.application", reason="the docs extra is not installed")
    sys.path.insert(0, str(DOCS / "_ext"))
    text = importlib.import_module("atoms_reference").page()
    shown = [f"`{row.spelling}`".replace("|", r"\|") for row in (*rows(), *rows(refused=True))]
    assert [cell for cell in shown if f"| {cell} |" not in text] == []
    assert [about for about in families().values() if about[1:] not in text] == []
