"""What the tests of the rows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilekit as tk

ROWS: dict[str, Callable[[], None]] = {}


def row(title: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The test of the row whose first cell is ``title``."""

    def add(test: Callable[[], None]) -> Callable[[], None]:
        assert title not in ROWS
        ROWS[title] = test
        return test

    return add


def run(kernel: Any, *inputs: Any, dim: Any = 1, size: Any = 4, dtype: Any = np.float32, block_dim: int = 32) -> Any:
    """The output array, the kernel's last parameter, after a launch."""
    out = np.zeros(size, dtype)
    tk.launch_tiled(kernel, dim=dim, inputs=list(inputs), outputs=[out], block_dim=block_dim)
    return out


A = np.arange(16, dtype=np.float32).reshape(4, 4)
