"""Rows about launches: what they run over, and what records them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import tilekit as tk
from tests.from_warp.rows import row
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import library_of
from tilekit.runtime.gradients import check_tensors


@row("a `Tape` goes backward through a launch")
def _() -> None:
    @tk.kernel
    def double(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, 2.0 * tk.tile_load(a, shape=4))

    a, out = (tk.ones(4, dtype=float, device="cpu", requires_grad=True) for _ in range(2))
    with tk.Tape() as tape:
        tk.launch_tiled(double, dim=1, inputs=[a], outputs=[out], block_dim=32)
    with pytest.raises(NotImplementedError, match="no gradient of kernel 'double'"):
        tape.backward(grads={out: a})
    tape.reset()
    with tape:
        tk.launch_tiled(double, dim=1, inputs=[a], outputs=[out], block_dim=32, record_tape=False)
    tape.backward(grads={out: a})


@row("a launch on PyTorch's tensors that require grad, with no tape")
def _() -> None:
    """`tests/runtime/test_gradients_torch.py` launches them."""
    view = ArrayView(4096, (4,), (4,), tk.float32, owner=SimpleNamespace(requires_grad=True))
    kernel: Any = SimpleNamespace(key="k")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(library_of, SimpleNamespace, "torch")
        patch.setitem(sys.modules, "torch", SimpleNamespace(is_grad_enabled=lambda: True))
        with pytest.raises(NotImplementedError, match=r"pass a.detach\(\), or launch under torch.no_grad\(\)"):
            check_tensors(kernel, ["a"], [view], True)
