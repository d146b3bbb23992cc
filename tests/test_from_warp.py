"""Every row of docs/from_warp.md's tables, tested: a row without a test, or a test without a row, fails."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tests.from_warp
from tests.from_warp import names, rows

PAGE = Path(__file__).parent.parent / "docs" / "from_warp.md"
for module in pkgutil.iter_modules(tests.from_warp.__path__):  # importing them fills ROWS
    importlib.import_module(f"tests.from_warp.{module.name}")


def rows_of_page() -> list[str]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\) \| ", line[2:])[0].strip() for line in lines]
    return [cell for cell in cells if cell not in ("in Warp 1.19", "name") and set(cell) != {"-"}]


def test_rows_and_tests_are_the_same():
    assert sorted(rows_of_page()) == sorted(rows.ROWS)


@pytest.mark.parametrize("title", list(rows.ROWS))
def test_row(title):
    rows.ROWS[title]()


def test_every_function_of_warp_is_there_or_in_a_row():
    assert len(names.LISTED) >= 355
    assert names.nowhere() == []
