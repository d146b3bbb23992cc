"""``stop_gradient``: exactly no gradient, also around what has none, and nothing left in code."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelNotImplementedError, KernelTypeError


@tk.kernel
def stopped(a: tk.array1d[float], out: tk.array1d[float]):
    x = tk.tile_load(a, 8)
    y = tk.stop_gradient(x)
    s = tk.stop_gradient(tk.tile_sum(x)[0])
    before = tk.abs(tk.stop_gradient(x))
    after = tk.stop_gradient(tk.tile_bitcast(tk.tile_bitcast(x, tk.int32), tk.float32))
    y += 1.0
    tk.tile_store(out, x * y * s + (before + after) * x)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_no_gradient_flows_and_nothing_around_it_is_asked_for_one(device: str) -> None:
    a = np.arange(1, 9, dtype=np.float32)
    out, seed, gradient = np.zeros_like(a), np.ones_like(a), np.zeros_like(a)
    tk.launch_tiled(stopped, dim=1, inputs=[a], outputs=[out], device=device)
    factor = (a + 1) * 36 + 2 * a
    assert (out == a * factor).all()
    how = {"adj_inputs": [gradient], "adj_outputs": [seed], "adjoint": True, "device": device}
    tk.launch_tiled(stopped, dim=1, inputs=[a], outputs=[out], **how)
    assert (gradient == factor).all()


@tk.kernel
def refused(a: tk.array1d[float], out: tk.array1d[float]):
    x = tk.tile_load(a, 8)
    tk.tile_store(out, tk.tile_bitcast(tk.tile_bitcast(x, tk.int32), tk.float32))


@tk.kernel
def of_an_array(a: tk.array1d[float], out: tk.array1d[float]):
    out[0] = tk.stop_gradient(a)


def test_without_it_the_gradient_is_refused_and_an_array_is_no_value() -> None:
    a, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    how = {"adj_inputs": [a.copy()], "adj_outputs": [out.copy()], "adjoint": True, "device": "cpu"}
    with pytest.raises(KernelNotImplementedError, match=r"through 'tk\.tile_store\(out, .*': it reads the bits of"):
        tk.launch_tiled(refused, dim=1, inputs=[a], outputs=[out], **how)
    with pytest.raises(KernelTypeError) as caught:
        tk.launch_tiled(of_an_array, dim=1, inputs=[a], outputs=[out], device="cpu")
    assert caught.value.message == "stop_gradient(): x must be a number or a tile, got an array1d<f32>"


@tk.kernel
def passed_on(a: tk.array1d[float], out: tk.array1d[float]):
    tk.tile_store(out, tk.stop_gradient(tk.tile_load(a, 64)) + 1.0)


@tk.kernel
def as_it_is(a: tk.array1d[float], out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_load(a, 64) + 1.0)


@pytest.mark.parametrize("device", ["cpu", None])
def test_nothing_is_left_of_it_in_code(device: str) -> None:
    with_it, without = (tk.compile(kernel, device=device, arch=90, block_dim=64) for kernel in (passed_on, as_it_is))
    assert "stop_gradient" not in with_it.ir
    assert with_it.ir.split("\n")[1:] == without.ir.split("\n")[1:]
