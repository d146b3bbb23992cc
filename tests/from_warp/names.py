"""Rows about names and errors that differ, and Warp's names: each is here, or a row of the page says where it is."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.from_warp.rows import row, run

wp = pytest.importorskip("warp")


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
