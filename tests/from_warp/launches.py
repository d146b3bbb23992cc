"""Rows about launches: what they run over, and what records them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.from_warp.rows import row
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import library_of
from tilekit.runtime.gradients import check_tensors


@row("a `Tape` that goes backward through a launch keeps zeros where an array between has no `requires_grad`")
def _() -> None:
    @tk.kernel
    def double(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, 2.0 * tk.tile_load(a, shape=4))

    a, between, out = (tk.ones(4, dtype=float, device="cpu", requires_grad=needs) for needs in (True, False, True))
    with tk.Tape() as tape:
        tk.launch_tiled(double, dim=1, inputs=[a], outputs=[between], block_dim=32)
        tk.launch_tiled(double, dim=1, inputs=[between], outputs=[out], block_dim=32)
    tape.backward(grads={out: tk.ones(4, dtype=float, device="cpu")})
    assert a.grad.numpy().tolist() == [4.0] * 4


@row("an array that backward reads again may have been overwritten since")
def _() -> None:
    @tk.kernel
    def square(a: tk.array1d[float], out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        tk.tile_store(out, t * t)

    a, out = (tk.ones(4, dtype=float, device="cpu", requires_grad=True) for _ in range(2))
    with tk.Tape() as tape:
        tk.launch_tiled(square, dim=1, inputs=[a], outputs=[out], block_dim=32)
    a.fill_(100.0)
    with pytest.raises(ValueError, match="reads its argument 'a' again, but its contents have changed"):
        tape.backward(grads={out: tk.ones(4, dtype=float, device="cpu")})


@row("`backward(grads={out: seed})` makes `seed` the gradient of an array that has none, and uses it up")
def _() -> None:
    @tk.kernel
    def triple(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, 3.0 * tk.tile_load(a, shape=4))

    a, out = (tk.ones(4, dtype=float, device="cpu", requires_grad=needs) for needs in (True, False))
    seed = tk.ones(4, dtype=float, device="cpu")
    with tk.Tape() as tape:
        tk.launch_tiled(triple, dim=1, inputs=[a], outputs=[out], block_dim=32)
    tape.backward(grads={out: seed})
    assert seed.numpy().tolist() == [1.0] * 4 and a.grad.numpy().tolist() == [3.0] * 4


@row("`launch(..., adj_outputs=[seed], adjoint=True)` leaves a `seed` that is not the `grad` of the output as it is")
def _() -> None:
    @tk.kernel
    def halve(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, 0.5 * tk.tile_load(a, shape=4))

    a, out, found = (np.zeros(4, np.float32) for _ in range(3))
    seed = np.ones(4, np.float32)
    tk.launch_tiled(halve, 1, [a], [out], [found], [seed], adjoint=True, block_dim=32)
    assert found.tolist() == [0.5] * 4 and seed.tolist() == [0.0] * 4


@row("`backward` through a kernel with `enable_backward=False` warns that gradients may be wrong")
def _() -> None:
    @tk.kernel(enable_backward=False)
    def halve(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, 0.5 * tk.tile_load(a, shape=4))

    a, out, seed = np.zeros(4, np.float32), np.zeros(4, np.float32), np.ones(4, np.float32)
    with tk.Tape() as tape:
        tk.launch_tiled(halve, 1, [a], [out], block_dim=32)
    tape.backward(grads=[(out, seed)])
    assert tape.gradients[a].tolist() == [0.5] * 4


@row("a launch on PyTorch's tensors that require grad, with no tape")
def _() -> None:
    """`tests/runtime/test_gradients_torch.py` launches them."""
    view = ArrayView(4096, (4,), (4,), tk.float32, owner=SimpleNamespace(requires_grad=True))
    kernel: Any = SimpleNamespace(key="k")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(library_of, SimpleNamespace, "torch")
        patch.setitem(sys.modules, "torch", SimpleNamespace(is_grad_enabled=lambda: True))
        with pytest.raises(NotImplementedError, match=r"launch under tk.Tape\(\), pass a.detach\(\), or"):
            check_tensors(kernel, ["a"], [view], True)


def doubled(a: tk.array1d[float], out: tk.array1d[float]) -> None:
    tk.tile_store(out, 2.0 * tk.tile_load(a, shape=64))


@row("where `launch` leaves the last block without some lanes, all its tiles lack what those would have held")
def _() -> None:
    out = np.zeros(64, np.float32)
    tk.launch(tk.kernel(doubled), dim=3, inputs=[np.ones(64, np.float32)], outputs=[out], block_dim=32)
    assert out.tolist() == [2.0] * 64

    @tk.kernel
    def held(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile(1.0))

    out = np.zeros(64, np.float32)
    tk.launch(held, dim=3, outputs=[out], block_dim=32)
    assert out.tolist() == [1.0] * 3 + [0.0] * 61


@row("views and products of `tile(x)` in a block that lacks lanes")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile(1.0)[0:2])

    with pytest.raises(ValueError, match="the last block of this launch lacks lanes"):
        tk.launch(k, dim=3, outputs=[np.zeros(4, np.float32)], block_dim=4)


@row("a tile offset from `tid()` under `launch`, the same for a whole block as the program knows")
def _() -> None:
    def k(a: tk.array1d[float], out: tk.array2d[float]):
        i, j = tk.tid()
        t = tk.tile_load(a, shape=4, offset=i * 4)
        out[i, j] = t[j]

    def halves(a: tk.array1d[float]):
        i = tk.tid() // 4
        tk.tile_store(a, tk.tile_load(a, shape=4, offset=i * 4), offset=i * 4)

    a, out = np.arange(8, dtype=np.float32), np.zeros((2, 4), np.float32)
    with pytest.raises(ValueError, match="offset must be the same for all lanes"):
        tk.launch(tk.kernel(halves), dim=8, inputs=[a], block_dim=4)
    with pytest.raises(ValueError, match="offset must be the same for all lanes"):
        tk.launch(tk.kernel(k), dim=(2, 4), inputs=[a, out], block_dim=8)
    tk.launch(tk.kernel(k), dim=(2, 4), inputs=[a, out], block_dim=4)
    assert out.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


@row("a launch gives every argument")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float], factor: float = 3.0):
        out[tk.tid()] = factor

    out = np.zeros(2, np.float32)
    tk.launch(k, dim=2, outputs=[out])
    assert out.tolist() == [3.0, 3.0]
