"""Gradients through views, elements and sums, against central differences."""

import numpy as np

import tilekit as tk
from tests.passes.finite_differences import check_gradient

rng = np.random.default_rng(9)


@tk.kernel
def through(a: tk.array2d[tk.float64], b: tk.array1d[tk.float64], i: int, out: tk.array2d[tk.float64]):
    t = tk.tile_load(a, shape=(4, 6))
    bias = tk.tile_load(b, shape=6)
    u = t * 2.0 + tk.tile_broadcast(bias, (4, 6)) * t
    u[i] = t[0] * t[-1]
    u[1, i] = t[2, i] * bias[i]
    u[2:, ::-2] += t[:2, 1::2]
    u[3, 1:3] = bias[0] * t[i, 4]
    v = tk.tile_reshape(u, (2, 12))
    w = tk.tile_squeeze(tk.tile_view(u.T, offset=(i, 0), shape=(1, 4)))
    tk.tile_store(out, u)
    tk.tile_store(out, tk.tile_reshape(tk.tile_sum(v * v, axis=1), (1, 2)), offset=(4, 0))
    tk.tile_store(out, tk.tile_reshape(tk.tile_sum(w) * tk.tile_sum(bias), (1, 1)), offset=(5, 0))


def test_gradients_through_views_elements_broadcasts_and_sums():
    for i in (0, 3):
        arguments = {"a": rng.standard_normal((4, 6)), "b": rng.standard_normal(6), "i": i, "out": np.zeros((6, 6))}
        check_gradient(through, arguments, ("out",))
