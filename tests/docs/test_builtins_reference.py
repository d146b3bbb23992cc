"""The page that lists the builtins is written from their declarations."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import pytest

from tilekit.public import Documented, documented

pytest.importorskip("sphinx.application", reason="the docs extra is not installed")
sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))
reference = importlib.import_module("builtins_reference")

DOC = """Do something.

Args:
    a: Tile of shape ``(m, n)``.

Returns:
    A new tile."""


def entry(name: str, group: str) -> Documented:
    return Documented(name, group, inspect.signature(lambda a: None), DOC)


def test_page_has_sections_by_group() -> None:
    text = reference.page([entry("tile_one", "Maths"), entry("tile_two", "Maths"), entry("tile_three", "Views")])
    assert text.startswith("Maths\n-----\n\n.. py:function:: tile_one(a)\n   :module: tilekit\n")
    assert [line for line in text.splitlines() if line in ("Maths", "Views")] == ["Maths", "Views"]
    assert text.count("   :param a: Tile of shape ``(m, n)``.") == 3


def test_page_has_every_public_name() -> None:
    text = reference.page(documented())
    assert [found.name for found in documented() if text.count(f":: {found.signature}\n") != 1] == []


def test_a_section_says_whether_there_is_a_gradient() -> None:
    text = reference.page([Documented("one", "Maths", inspect.signature(lambda a: None), DOC, "yes")])
    assert text.endswith("\n\n   Gradient: yes.\n")


def test_constants_are_data() -> None:
    text = reference.page([Documented("PI", "Constants", None, "The constant 3.14.")])
    assert ".. py:data:: PI\n   :module: tilekit\n\n   The constant 3.14.\n" in text
