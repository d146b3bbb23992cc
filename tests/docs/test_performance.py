"""The picture of docs/performance.md is of its first table, whose numbers are those of the tables below it."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
drawing = importlib.import_module("ratios_picture")
PAGE = drawing.PAGE.read_text(encoding="utf-8")
ROWS = drawing.rows(PAGE)
TIMES = ("ms", "us", "ms of CPU time")


def test_picture_is_of_the_table() -> None:
    kept = drawing.PICTURE.read_text(encoding="utf-8")
    assert kept == drawing.picture(PAGE), "python docs/_ext/ratios_picture.py"
    ElementTree.fromstring(kept)


def test_picture_has_every_ratio() -> None:
    drawn = drawing.picture(PAGE)
    assert sum(
        drawn.count(f'class="{column}" cx') + drawn.count(f'class="{column}" x') for column in drawing.PEERS
    ) == (len(drawing.PEERS) + sum(len(row.peers) for row in ROWS))
    ratios = [peer.ratio for row in ROWS for peer in row.peers.values()]
    assert drawing.LOWEST <= min(ratios) < 1 < max(ratios) <= drawing.HIGHEST


def test_ratios_are_of_the_speeds_beside_them() -> None:
    """Within 3 %, or half of what two decimals show: some are medians of the rounds' own ratios."""
    wrong = []
    for row in ROWS:
        for peer in row.peers.values():
            found = float(row.value) / float(peer.value)
            found = 1 / found if row.unit in TIMES else found
            if abs(found - peer.ratio) > max(0.03 * found, 0.005):
                wrong.append((row.title, peer, found))
    assert wrong == []
    assert {row.unit for row in ROWS} - set(TIMES) == {"TFLOP/s", "fraction of a copy's speed"}


def test_what_the_first_table_has_was_measured_below() -> None:
    below = set(re.findall(r"[\d.]*\d", PAGE.partition("## How it was measured")[2]))
    shown = {value for row in ROWS for value in (row.value, *(p.value for p in row.peers.values() if p.name != "copy"))}
    assert shown - {""} - below == set()


def test_figures_of_the_landing_page_are_of_the_table() -> None:
    section = (DOCS / "index.md").read_text(encoding="utf-8").partition("## Three figures")[2].partition("\n## ")[0]
    figures = [float(number) for number in re.findall(r"^\| \*\*([\d.]+)[^*]*\*\*", section, re.MULTILINE)]
    assert len(figures) == 3
    assert set(figures) <= {peer.ratio for row in ROWS for peer in row.peers.values()}
