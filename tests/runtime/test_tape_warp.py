"""What Warp does on the same tape as tilekit."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import tilekit as tk
from tests.on_gpu import GPUS
from tests.runtime.tapes import ONES, ZEROS, X, doubled, go, numbers, of_warp, squares
from tilekit.errors import KernelNotImplementedError, KernelValueError
from tilekit.runtime.gradients import watch

wp = pytest.importorskip("warp")


on_gpu = pytest.param("cuda:0", marks=[pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")])
DEVICES = pytest.mark.parametrize("device", ["cpu", on_gpu])


def warps_kernel() -> Any:
    @wp.kernel
    def plus_one(x: wp.array(dtype=float), y: wp.array(dtype=float)):  # type: ignore[valid-type]
        i = wp.tid()
        y[i] = x[i] * x[i] + 1.0

    return plus_one


@DEVICES
@pytest.mark.parametrize("library", ["warp", "tilekit"])
def test_launches_and_copies_of_warps_in_order(library: str, device: str) -> None:
    """A copy whose source is read again later: its gradient is the sum of both."""
    x, y, z, w, v = (of_warp(values, device=device) for values in (X, *[ZEROS] * 4))
    ones = of_warp(ONES, device=device)
    with wp.Tape() if library == "warp" else tk.Tape() as tape:
        wp.copy(y, x)
        go(squares, y, z)
        wp.launch(warps_kernel(), dim=4, inputs=[z], outputs=[w], device=device)
        go(doubled, x, v)
    tape.backward(grads={w: ones, v: ones})
    assert numbers(x.grad) == [4 * value**3 + 2 for value in X]
    assert wp._src.context.runtime.tape is None
    z.retain_grad = True
    tape.zero()
    tape.backward(grads={w: ones, v: ones})
    assert numbers(z.grad) == [2 * value**2 for value in X]
    assert numbers(x.grad) == [4 * value**3 + 2 for value in X]
    tape.zero()
    assert not x.grad.numpy().any()


@DEVICES
@pytest.mark.parametrize("way", ["copy", "launch"])
def test_writes_of_warps_are_seen(way: str, device: str) -> None:
    x, y, w = (of_warp(values, device=device) for values in (X, ZEROS, X))
    with tk.Tape(verify=False) as tape:
        go(squares, x, y)
        if way == "copy":
            wp.copy(x, w)
        else:
            wp.launch(warps_kernel(), dim=4, inputs=[w], outputs=[x], device=device)
    what = "a copy of Warp's" if way == "copy" else "Warp's kernel 'plus_one' as 'y'"
    with pytest.raises(KernelValueError, match=f"'x' again, but {what} has written that array since, at {__file__}:"):
        tape.backward(grads={y: of_warp(ONES, device=device)})


def test_arrays_without_a_gradient_of_their_own_that_warp_would_need() -> None:
    x, y, z = of_warp(X), of_warp(ZEROS, requires_grad=False), of_warp(ZEROS)
    kernel = warps_kernel()
    with tk.Tape() as tape:
        go(squares, x, y)
        wp.launch(kernel, dim=4, inputs=[y], outputs=[z], device="cpu")
    with pytest.raises(KernelNotImplementedError) as caught:
        tape.backward(grads={z: of_warp(ONES)})
    assert caught.value.message == (
        "argument 'x' of Warp's kernel 'plus_one' depends on arrays that require grad, but has no gradient of its own; "
        "make it with requires_grad=True"
    )
    tape.reset()
    with tape:
        wp.launch(kernel, dim=4, inputs=[x], outputs=[y], device="cpu")
        go(squares, y, z)
    with pytest.raises(KernelNotImplementedError) as caught:
        tape.backward(grads={z: of_warp(ONES)})
    assert caught.value.message == (
        "argument 'x' of kernel 'squares' was written by Warp's kernel 'plus_one' from arrays that require grad, but "
        "has no gradient of its own; make it with requires_grad=True"
    )


def test_a_tape_of_warps_whose_gradient_would_be_lost() -> None:
    x, y, z = of_warp(X), of_warp(ZEROS, requires_grad=False), of_warp(ZEROS)
    with wp.Tape() as tape:
        go(squares, x, y)
        wp.launch(warps_kernel(), dim=4, inputs=[y], outputs=[z], device="cpu")
    with pytest.raises(KernelNotImplementedError, match="argument 'x' of Warp's kernel 'plus_one' depends on"):
        tape.backward(grads={z: of_warp(ONES)})


@pytest.mark.parametrize("outer", ["tilekit", "warp"])
def test_tapes_are_not_nested(outer: str) -> None:
    with tk.Tape() if outer == "tilekit" else wp.Tape():
        with pytest.raises(KernelValueError) as caught, tk.Tape():
            pass
    assert caught.value.message == "a tape is active already: tapes cannot be nested; leave its with block first"
    with tk.Tape() as tape:
        pass
    assert not tape.launches and watch.tape is None


def test_warp_that_comes_later() -> None:
    program = (
        "import sys, numpy as np, tilekit as tk\n"
        "from tests.runtime.tapes import go, squares\n"
        "x, y = np.ones(4, np.float32), np.zeros(4, np.float32)\n"
        "with tk.Tape() as tape: go(squares, x, y)\n"
        "tape.backward(grads=[(y, np.ones(4, np.float32))])\n"
        "assert tape.gradients[x].tolist() == [2] * 4 and 'warp' not in sys.modules\n"
        "with tk.Tape() as tape:\n"
        "    z = tk.zeros(4, dtype=float, device='cpu', requires_grad=True)\n"  # loads Warp
        "    import warp as wp\n"
        "    w = wp.zeros(4, dtype=float, device='cpu', requires_grad=True)\n"
        "    wp.copy(w, z)\n"
        "assert len(tape.launches) == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    program = "import tilekit as tk\nwith tk.Tape() as tape:\n    import warp as wp\n    wp.init()\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode != 0 and "Warp was imported inside the with block of a tape, which so has not" in done.stderr


def test_a_launch_of_warps_that_is_recorded_afterwards() -> None:
    """The tape learns what it has written, as from one that Warp records."""
    x, y, z = of_warp(X), of_warp(ZEROS), of_warp(ZEROS)
    ones, kernel = of_warp(ONES), warps_kernel()
    tape = tk.Tape()
    with tape:
        go(squares, x, y)
    wp.launch(kernel, dim=4, inputs=[ones], outputs=[y], device="cpu")
    tape.record_launch(kernel, 4, 0, [ones], [y], "cpu")
    with tape:
        go(squares, y, z)
    tape.backward(grads={z: of_warp(ONES)})
    assert numbers(ones.grad) == [8.0] * 4
    assert not x.grad.numpy().any()
