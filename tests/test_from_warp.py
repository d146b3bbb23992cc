"""Every row of docs/from_warp.md's tables, tested: a row without a test, or a test without a row, fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.from_warp import names, others, products, rows, silently_wrong

PAGE = Path(__file__).parent.parent / "docs" / "from_warp.md"
TABLES = (silently_wrong, others, products, names)  # importing them fills ROWS


def rows_of_page() -> list[str]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\) \| ", line[2:])[0].strip() for line in lines]
    return [cell for cell in cells if cell not in ("in Warp 1.19", "name") and set(cell) != {"-"}]


def test_rows_and_tests_are_the_same():
    assert sorted(rows_of_page()) == sorted(rows.ROWS)


@pytest.mark.parametrize("title", list(rows.ROWS))
def test_row(title):
    rows.ROWS[title]()
