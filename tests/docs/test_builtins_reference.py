"""The page that lists the builtins is written from their declarations."""

from __future__ import annotations

import enum
import importlib
import inspect
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sphinx", reason="the docs extra is not installed")
sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))
reference = importlib.import_module("builtins_reference")


class Mode(enum.Enum):
    NEAR = "rn"


def tile_example(a: int, *, dtype: Any = float, mode: Mode = Mode.NEAR, alpha: float = 1.0) -> None:
    """Do something.

    Args:
        a: Tile of shape ``(m, n)``.

    Returns:
        A new tile.
    """


def declared(group: str) -> SimpleNamespace:
    return SimpleNamespace(
        name="tile_example", group=group, signature=inspect.signature(tile_example), __doc__=tile_example.__doc__
    )


def test_defaults_are_written_as_a_user_would() -> None:
    assert reference.signature(declared("Maths")) == "tile_example(a, *, dtype=float, mode=Mode.NEAR, alpha=1.0)"


def test_page_has_public_builtins_by_group() -> None:
    text = reference.page({"tile_example": declared("Maths"), "hidden": declared("internal")})
    assert text.startswith("Maths\n-----\n")
    assert text.count(".. py:function:: tile_example(") == 1
    assert "   :param a: Tile of shape ``(m, n)``." in text


def test_page_without_builtins_says_so() -> None:
    assert reference.page({}) == "No builtin is declared."
