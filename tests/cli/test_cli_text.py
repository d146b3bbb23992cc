from __future__ import annotations

import pytest

from tilekit.cli.text import seconds, size, table, width, wrap


def test_columns_align_and_the_last_one_wraps() -> None:
    text = table(["a", "bb"], [["1", "x"], ["333", "one two three four five six"]], columns=25)
    assert text.splitlines() == ["a    bb", "---  --", "1    x", "333  one two three four", "     five six"]


def test_without_a_width_nothing_wraps() -> None:
    long = "word " * 60
    assert table(["a"], [[long.strip()]]).splitlines()[2] == long.strip()


def test_a_narrow_terminal_still_leaves_room() -> None:
    lines = table(["a", "b"], [["x" * 30, "one two three four five"]], columns=10).splitlines()
    assert lines[2] == "x" * 30 + "  one two three four"


def test_words_longer_than_the_line_stay_whole() -> None:
    assert wrap("a /a/very/long/path b", 8) == ["a", "/a/very/long/path", "b"]


def test_cells_keep_their_own_lines() -> None:
    assert table([], [["a", "one\ntwo"]], columns=40) == "a  one\n   two"
    assert table([], []) == table(["head"], []) == ""


def test_width_is_that_of_the_variable(monkeypatch: pytest.MonkeyPatch, capsys: object) -> None:
    monkeypatch.setenv("COLUMNS", "93")
    assert width() == 93
    monkeypatch.setenv("COLUMNS", "0")
    assert width() is None
    monkeypatch.delenv("COLUMNS")
    assert width() is None


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5120.0 GiB")])
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("time", "text"), [(0.0, "0.0 us"), (0.00099, "990.0 us"), (0.25, "250.0 ms"), (61.0, "61.00 s")]
)
def test_times(time: float, text: str) -> None:
    assert seconds(time) == text
