"""The same on a GPU: its arrays are the CPU's, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS, there
from tests.runtime import test_ragged_launches as ragged
from tests.runtime.test_ragged_launches import BLOCK, LESS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]


def check(kernel: Any, dim: Any, *arguments: Any) -> None:
    host = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    tk.launch(kernel, dim=dim, inputs=host, block_dim=BLOCK)
    held = [there(value) for value in arguments]
    tk.launch(kernel, dim=dim, inputs=held, block_dim=BLOCK)
    for here, copy in zip(host, held, strict=True):
        if isinstance(here, np.ndarray):
            assert copy.numpy().tobytes() == here.tobytes()


@pytest.mark.parametrize("n", LESS)
def test_missing_lanes(n: int) -> None:
    a, out = np.linspace(0.1, 2, n).astype(np.float32), np.zeros(n, np.float32)
    check(ragged.sums, n, a, out)
    check(ragged.stored, n, a, out)
    check(ragged.extremes, n, np.arange(n, dtype=np.int32), *np.zeros((2, n), np.int32))
    check(ragged.combined, n, 1 + a, np.zeros((3, n), np.float32))
    check(ragged.counted, n, np.zeros(2, np.int32))
    check(ragged.loaded, n, np.arange(16, dtype=np.float32).reshape(4, 4), out)
    check(ragged.uniform_in_lanes, n, 10, np.arange(40, dtype=np.float32), out)
    for offset in (0, 2, -2, 6):
        check(ragged.moved, min(n, 8), np.full(10, -1, np.int32), np.full(10, 100, np.int32), offset)


@pytest.mark.parametrize("cols", [8, 16])
def test_coordinates_that_a_block_shares(cols: int) -> None:
    check(ragged.rows, (3, cols), np.arange(24, dtype=np.float32).reshape(3, 8), np.zeros((3, cols), np.float32))


def test_one_form_serves_all() -> None:
    ragged.sums.cache.clear()
    for n in LESS * 2:
        tk.launch(ragged.sums, dim=n, inputs=[there(np.ones(n, np.float32)) for _ in range(2)], block_dim=BLOCK)
    found = [form for forms in ragged.sums.cache.values() if isinstance(forms, dict) for form in forms]
    assert sorted(found) == [(8, False, 0), (8, True, 0)]
