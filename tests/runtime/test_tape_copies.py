"""Copies of Warp's into arrays, or from arrays, that have no gradient: refused, or cut the gradient, never lost."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS
from tests.runtime.tapes import ONES, ZEROS, X, go, numbers, of_warp, squares
from tilekit.errors import KernelNotImplementedError, KernelValueError

wp = pytest.importorskip("warp")

on_gpu = pytest.param("cuda:0", marks=[pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")])
DEVICES = pytest.mark.parametrize("device", ["cpu", on_gpu])


@DEVICES
def test_into_an_array_without_a_gradient(device: str) -> None:
    x, y, w = (of_warp(values, device=device) for values in (X, ZEROS, ZEROS))
    plain = of_warp(ZEROS, requires_grad=False, device=device)
    with tk.Tape() as tape:
        go(squares, x, y)
        wp.copy(plain, y)
        go(squares, plain, w)
    with pytest.raises(KernelNotImplementedError) as caught:
        tape.backward(grads={w: of_warp(ONES, device=device)})
    assert caught.value.message == (
        "argument 'x' of kernel 'squares' was written by a copy of Warp's from arrays that require grad, but has no "
        "gradient of its own; make it with requires_grad=True"
    )


@DEVICES
def test_from_an_array_whose_gradient_is_on_the_tape(device: str) -> None:
    x, z, w = (of_warp(values, device=device) for values in (X, ZEROS, ZEROS))
    plain = of_warp(ZEROS, requires_grad=False, device=device)
    with tk.Tape() as tape:
        go(squares, x, plain)
        wp.copy(z, plain)
        go(squares, z, w)
    with pytest.raises(KernelNotImplementedError, match="Warp records no gradient of this copy, as one of its arrays"):
        tape.backward(grads={w: of_warp(ONES, device=device)})


@DEVICES
@pytest.mark.parametrize("way", ["copy", "assign"])
def test_of_a_constant_over_what_a_launch_wrote(way: str, device: str) -> None:
    """No gradient flows to what was overwritten, and none is refused."""
    x, y, w = (of_warp(values, device=device) for values in (X, ZEROS, ZEROS))
    with tk.Tape(verify=False) as tape:
        go(squares, x, y)
        if way == "copy":
            wp.copy(y, of_warp(ONES, requires_grad=False, device=device))
        else:
            y.assign(np.ones(4, np.float32))
        go(squares, y, w)
    tape.backward(grads={w: of_warp(ONES, device=device)})
    assert numbers(x.grad) == ZEROS


@DEVICES
def test_of_a_constant_over_a_part(device: str) -> None:
    x, y, w = (of_warp(values, device=device) for values in (X, ZEROS, ZEROS))
    with tk.Tape(verify=False) as tape:
        go(squares, x, y)
        wp.copy(y, of_warp(ONES, requires_grad=False, device=device), count=2)
        go(squares, y, w)
    with pytest.raises(KernelValueError, match="wrote, since a copy of Warp's has written it"):
        tape.backward(grads={w: of_warp(ONES, device=device)})


def test_the_first_contents_of_an_array() -> None:
    """What no launch has written may be set by a copy, and the gradient of a later launch is right."""
    x, y = of_warp(ZEROS), of_warp(ZEROS)
    with tk.Tape() as tape:
        x.assign(np.array(X, np.float32))
        go(squares, x, y)
    tape.backward(grads={y: of_warp(ONES)})
    assert numbers(x.grad) == [2.0 * value for value in X]


def test_no_array_is_kept_alive_and_warps_function_comes_back() -> None:
    original: Any = wp.copy
    x, y = of_warp(X), of_warp(ZEROS)
    with tk.Tape() as tape:
        assert wp.copy is not original
        go(squares, x, y)
        plain = of_warp(ZEROS, requires_grad=False)
        wp.copy(plain, y)
        gone = ref(plain)
        del plain
        gc.collect()
        assert gone() is None
    assert wp.copy is original
    tape.backward(grads={y: of_warp(ONES)})
    assert numbers(x.grad) == [2.0 * value for value in X]
