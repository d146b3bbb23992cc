"""Gradients of one product: what they are computed with, and what a factor of zero cuts."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.passes.finite_differences import gradients, traced
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.passes.differentiate import differentiate

A2 = tk.array2d[tk.float64]


@pytest.mark.parametrize("precision", ["default", "tf32", "tf32x3"])
def test_both_gradients_have_the_precision_of_the_product(precision: str) -> None:
    @tk.kernel
    def product(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
        x, y = tk.tile_load(a, shape=(4, 3)), tk.tile_load(b, shape=(3, 5))
        acc = tk.tile_zeros(shape=(4, 5), dtype=float)
        tk.tile_matmul(x, y, acc, precision=precision)
        tk.tile_store(out, acc)

    (launch,) = differentiate(product.trace(product.default_types(), LaunchForm())).launches
    products = [op for op in walk(launch.function.body) if op.builtin.contraction]
    found = {op.results[0].type.shape: op.attrs["precision"] for op in products}
    assert found == {(4, 3): precision, (3, 5): precision}


def test_a_run_time_beta_of_zero_cuts_also_an_infinite_gradient() -> None:
    @tk.kernel
    def cut(a: A2, held: A2, s: tk.array1d[tk.float64], out: A2):
        d = tk.tile_load(held, shape=(2, 2))
        x = tk.tile_load(a, shape=(2, 2))
        tk.tile_matmul(x, x, d, beta=s[0])
        tk.tile_store(out, d)

    given = {"a": np.ones((2, 2)), "held": np.ones((2, 2)), "s": np.zeros(1), "out": np.zeros((2, 2))}
    seed = np.asarray([[np.inf, 1.0], [2.0, -3.0]])
    found = gradients(traced(cut, given), given, {"out": seed}, (1,))
    assert not found["held"].any()
