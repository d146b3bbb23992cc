"""Rows of gradients of single functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.from_warp.rows import row

wp: Any = pytest.importorskip("warp")


def gradients(kernel: Any, *inputs: list[float], size: int = 1) -> list[list[float]]:
    """Those of the sum of what a kernel of one block writes."""
    given = [np.float32(values) for values in inputs]
    found = [np.zeros_like(values) for values in given]
    out = np.zeros(size, np.float32)
    tk.launch_tiled(
        kernel, 1, given, [out], adj_inputs=found, adj_outputs=[np.ones(size, np.float32)], adjoint=True, device="cpu"
    )
    return [values.tolist() for values in found]


@row("no gradient flows through `tile_max`, `tile_min`, `tile_reduce` and `frac(x)`, nor to `y` in `x % y`")
def _() -> None:
    @tk.kernel
    def greatest(x: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_max(tk.tile_load(x, shape=3)) + tk.tile_reduce(tk.add, tk.tile_load(x, shape=3)))

    @tk.kernel
    def rest(x: tk.array1d[float], y: tk.array1d[float], out: tk.array1d[float]):
        out[0] = x[0] % y[0] + tk.frac(x[0])

    assert gradients(greatest, [1, 3, 3]) == [[1, 2, 1]]
    assert gradients(rest, [7.5], [2]) == [[2], [-3]]


@row("the gradient of `where(x > 0.0, log(x), 0.0)` at 0 is NaN")
def _() -> None:
    @tk.kernel
    def masked(x: tk.array1d[float], out: tk.array1d[float]):
        t = tk.tile_load(x, shape=2)
        tk.tile_store(out, tk.where(t > 0.0, tk.log(t), tk.tile_zeros(shape=2)))

    assert gradients(masked, [0, 2], size=2) == [[0, 0.5]]


@row("the gradient of `atomic_max` and `atomic_min` goes to every number that is the result")
def _() -> None:
    @tk.kernel
    def greatest(x: tk.array1d[float], out: tk.array1d[float]):
        tk.atomic_max(out, 0, x[0])

    with pytest.raises(tk.errors.KernelNotImplementedError, match=r"which number tk\.atomic_max leaves"):
        gradients(greatest, [1])


@row(
    "`grad(f)` works in kernels alone, whose gradient takes what it gives for a constant; `func_grad` takes no "
    "function with `Any` parameters"
)
def _() -> None:
    @tk.func
    def cubed(x: Any):
        return x * x * x

    @tk.func_grad(cubed)
    def adj_cubed(x: Any, adj: Any):
        tk.adjoint[x] += 3.0 * x * x * adj

    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array1d[float]):
        out[0] = tk.grad(cubed)(x[0])

    x, g, out = np.float32([2]), np.zeros(1, np.float32), np.zeros(1, np.float32)
    tk.launch(k, 1, [x], [out], adj_inputs=[g], adj_outputs=[np.ones(1, np.float32)], adjoint=True)
    assert g == 12.0 and float(tk.grad(cubed)(2.0)) == 12.0

    @wp.func
    def generic(x: Any):
        return x

    with pytest.raises(RuntimeError, match="generic input arguments"):
        wp.func_grad(generic)(lambda x, adj: None)
    with pytest.raises(RuntimeError, match="only be called inside"):
        wp.grad(generic)(2.0)
