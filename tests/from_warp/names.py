"""Rows about names and errors that differ, and Warp's names: each is here, or a row of the page says where it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

import tilekit as tk
from tests.from_warp.rows import row, run

wp = pytest.importorskip("warp")

PAGE = (Path(__file__).parents[2] / "docs" / "from_warp.md").read_text(encoding="utf-8")
LISTED = list(pytest.importorskip("warp._src.context").builtin_functions)
"""Warp's functions."""


def table() -> dict[str, str]:
    """The table of Warp's functions: by the first cell of a row, the second."""
    lines = [line for line in PAGE.partition("## Every function of Warp")[2].splitlines() if line.startswith("| ")]
    return dict(line[2:-2].split(" | ") for line in lines[2:])


def named(title: str) -> list[str]:
    return re.findall(r"`([\w*?]+)`", title)


def warps_names_of(title: str, here: str) -> Callable[[], None]:
    """The test of a row: its names are Warp's, and what a later release brings is not there yet."""

    def test() -> None:
        for pattern in named(title):
            found = [name for name in LISTED if fnmatchcase(name, pattern)]
            assert found, f"{pattern} is no function of Warp's"
            assert here != "a later release" or not [name for name in found if hasattr(tk, name)]

    return test


for _title, _here in table().items():
    row(_title)(warps_names_of(_title, _here))


def nowhere() -> list[str]:
    """The functions of Warp that tilekit lacks and no row names."""
    patterns = [pattern for title in table() for pattern in named(title)]
    missing = [name for name in LISTED if not hasattr(tk, name)]
    return [name for name in missing if not any(fnmatchcase(name, pattern) for pattern in patterns)]


@row("`tk.rsqrt(x)`")
def _() -> None:
    assert not hasattr(wp, "rsqrt")

    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, tk.rsqrt(tk.tile_load(x, shape=2)))

    x = np.array([0.3, 7.0], np.float32)
    assert run(k, x, size=2).tolist() == (np.float32(1) / np.sqrt(x)).tolist()


@row("an axis or an offset outside a tile (`tile_squeeze`, `tile_view`, `t[9, 0]`) is a `ValueError`")
def _() -> None:
    for wrong in (
        lambda t: tk.tile_squeeze(t, axis=5),
        lambda t: tk.tile_view(t, offset=(5, 0), shape=(1, 1)),
        lambda t: t[9, 0],
    ):

        @tk.kernel
        def k(out: tk.array2d[float]):
            wrong(tk.tile_ones(shape=(4, 1), dtype=float))

        with pytest.raises(IndexError, match="axis") as error:
            run(k, size=(4, 1))
        assert not isinstance(error.value, ValueError)
