"""Launches through the IR interpreter."""

import numpy as np
import pytest

import tilekit as tk
from tilekit.ir.context import LaunchForm
from tilekit.runtime.reference import run_reference


@tk.kernel
def scaled(a: tk.array2d[float], out: tk.array2d[float], factor: float):
    i, j = tk.tid()
    t = tk.tile_load(a, shape=(2, 3), offset=(i * 2, j * 3))
    tk.tile_store(out, t * factor, offset=(i * 2, j * 3))


def test_runs_every_block():
    a = np.arange(35, dtype=np.float32).reshape(5, 7)
    out = np.zeros_like(a)
    run_reference(scaled, (3, 3), [a, out, 0.5])
    assert np.array_equal(out, a * np.float32(0.5))


def test_takes_arguments_by_name_and_traced_functions():
    a = np.ones((2, 3), np.float32)
    out = np.zeros_like(a)
    function = scaled.trace(scaled.default_types(), LaunchForm(True, 2, 1))
    run_reference(function, (1, 1), {"out": out, "factor": 3, "a": a})
    assert (out == 3.0).all()


def test_wrong_rank():
    with pytest.raises(TypeError, match="'a' expects"):
        run_reference(scaled, (1, 1), [np.zeros(3, np.float32), np.zeros((1, 1), np.float32), 1.0])
