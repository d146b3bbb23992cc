"""Rows about elements, shapes and views of tiles and arrays."""

from __future__ import annotations

import numpy as np

import tilekit as tk
from tests.from_warp.rows import row


@row("`a[i] += 1` and its kin are not atomic in arrays of 8 and 16-bit integers")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[tk.uint8]):
        out[1] += tk.uint8(1)

    for _ in range(5):
        out = np.zeros(3, np.uint8)
        tk.launch(k, dim=100_000, outputs=[out])
        assert out.tolist() == [0, 100_000 % 256, 0]
