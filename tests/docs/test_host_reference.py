"""The page of what programs use outside of kernels is written from declarations and has every public name."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

import tilekit
from tilekit import public
from tilekit.options import OPTIONS

pytest.importorskip("sphinx.application", reason="the docs extra is not installed")
DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
reference = importlib.import_module("host_reference")
builtins_reference = importlib.import_module("builtins_reference")


def test_every_public_name_is_on_a_page() -> None:
    pages = [path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")]
    generated = [reference.page(), builtins_reference.page(public.documented())]
    words = set(re.findall(r"\w+", "\n".join([*pages, *generated])))
    held = {name for name, value in vars(tilekit).items() if isinstance(value, (tilekit.DType, type))}
    assert sorted({*public.listed(), *held} - words) == []


def test_options_are_explained() -> None:
    text = reference.page()
    assert [option.name for option in OPTIONS if text.count(f"\n``{option.name}``") != 1] == []
    assert "``max_unroll``\n   Loops over constants of at most this length are unrolled. Values: an integer" in text
    assert "``gemm`` (``TILEKIT_GEMM``)\n" in text


def test_directives_stand_on_pages() -> None:
    for name in ("host", "builtins"):
        assert f".. tilekit-{name}::" in (DOCS / "reference" / f"{name}.rst").read_text(encoding="utf-8")
