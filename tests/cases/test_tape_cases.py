"""Gradients over several launches that went wrong for users of other languages; the numbers are those of the cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.tapes import doubled, go, squares, total


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_34_an_input_overwritten_before_backward(device: str) -> None:
    """Other than 6 or an error is wrong; 200 came out."""
    pytest.importorskip("warp")
    x, y = (tk.array(np.full(4, value, np.float32), device="cpu", requires_grad=True) for value in (3, 0))
    with tk.Tape() as tape:
        go(squares, x, y, device=device)
    seed = tk.ones(4, dtype=float, device="cpu")
    tape.backward(grads={y: seed})
    assert x.grad.numpy().tolist() == [6.0] * 4
    x.fill_(100.0)
    with pytest.raises(
        ValueError, match="backward through kernel 'squares' reads its argument 'x' again, but its content"
    ):
        tape.backward(grads={y: seed})


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_35_a_copy_whose_source_is_read_again(device: str) -> None:
    wp: Any = pytest.importorskip("warp")
    x, y, z, w = (tk.array(np.full(4, 3, np.float32), device="cpu", requires_grad=True) for _ in range(4))
    with tk.Tape() as tape:
        wp.copy(y, x)
        go(squares, y, z, device=device)
        go(doubled, x, w, device=device)
    tape.backward(grads={array: tk.ones(4, dtype=float, device="cpu") for array in (z, w)})
    assert x.grad.numpy().tolist() == [6.0 + 2.0] * 4


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_37_one_seed_for_several_steps(device: str) -> None:
    """It is not used up, and the gradient of a leaf does not double."""
    torch: Any = pytest.importorskip("torch")
    x, seed = torch.full((4,), 3.0, requires_grad=True), torch.ones(4)
    for _ in range(3):
        y = torch.zeros(4)
        with tk.Tape() as tape:
            go(squares, x, y, device=device)
        tape.backward(grads={y: seed})
        assert tape.gradients[x].tolist() == [6.0] * 4
        assert seed.tolist() == [1.0] * 4 and x.grad is None
    loss = torch.zeros(1)
    with tape:
        go(total, y, loss, device=device)
    tape.backward(loss)
    assert tape.gradients[x].tolist() == [12.0] * 4, "a second backward adds"
