from __future__ import annotations

import inspect

import pytest

import tilekit as tk
from tilekit import builtins
from tilekit.cli import main
from tilekit.public import documented


def test_every_public_name_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["builtins"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split("  ")[0] for line in lines[2:]} == set(builtins.public_names())


def test_every_entry_says_what_it_does() -> None:
    assert [entry.name for entry in documented() if not entry.summary.endswith((".", ":"))] == []


def test_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["builtins"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "Load a tile from an array." in printed


def test_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["builtins", "--group", "tile memory"]) == 0
    printed = capsys.readouterr().out
    assert "tile_load" in printed
    assert "tile_matmul" not in printed
    assert main(["builtins", "--group", "Tiles"]) == 1
    assert "no group 'Tiles'; the groups are " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["tile_matmul", "tk.tile_matmul"])
def test_the_page_of_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["builtins", name]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("tk.tile_matmul(a, b, out=None, alpha=1.0, beta=1.0, precision='default')\n")
    assert inspect.cleandoc(tk.tile_matmul.__doc__) in printed
    assert "\ngradient: yes\n" in printed


def test_the_page_of_one_says_why_it_has_no_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["builtins", "isnan"]) == 0
    assert "\ngradient: none: it gives no floats that depend on floats\n" in capsys.readouterr().out
    found = {entry.name: entry.gradient for entry in documented()}
    assert found["floor"] == found["tile_load"] == "yes"
    assert found["tile_zeros"] == ""


def test_a_name_like_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["builtins", "qqqqqq"]) == 1
    assert "`python -m tilekit builtins` lists them" in capsys.readouterr().err
