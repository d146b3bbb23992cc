"""Backward launches and tapes on a real GPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS, arguments, there
from tests.runtime.cuda.test_gpu_launch import torch
from tests.runtime.tapes import X, doubled, go, squares, total
from tests.runtime.test_tape_saving import K, M, N, layer
from tilekit.errors import KernelValueError
from tilekit.runtime.adjoint import launch_adjoint
from tilekit.runtime.records import LaunchRecord

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]


@tk.kernel
def twice_read(a: tk.array1d[Any], out: tk.array1d[float]):
    i = tk.tid()
    x, y = tk.tile_load(a, shape=8, offset=8 * i), tk.tile_load(a, shape=8, offset=8 * i)
    tk.tile_store(out, 0.4 * tk.tile_astype(x, float) + 0.4 * tk.tile_astype(y, float), offset=8 * i)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_backward_launch(dtype: Any) -> None:
    """16-bit gradients are summed in float32 and rounded once."""
    unit = float(ml_dtypes.finfo(dtype).eps)
    host = np.ones(37, dtype), np.zeros(37, np.float32), np.ones(37, dtype), np.full(37, unit, np.float32)
    held = [there(array) for array in host]
    a, out, found, seed = arguments(held)
    launch_adjoint(twice_read, 5, [a, out], {"a": found, "out": seed}, block_dim=32)
    np.testing.assert_array_equal(held[2].numpy().astype(np.float64), np.full(37, 1 + unit))
    assert not held[3].numpy().any()


def test_a_tape_without_any_library() -> None:
    """Seeds are copied, and gradients made, by kernels of tilekit's own; the content is looked at where it is asked."""
    x, y, z, loss = (there(np.array(values, np.float32)) for values in (X, [0.0] * 4, [0.0] * 4, [0.0]))
    with tk.Tape(verify=True) as tape:
        go(squares, x, y)
        go(doubled, y, z)
        go(total, z, loss)
    tape.retain_grad(y)
    tape.backward(loss)
    tape.backward(loss)
    found = [there(np.zeros(4, np.float32)) for _ in range(2)]
    for array, target in zip((x, y), found, strict=True):
        go(doubled, tape.gradients[array], target)
    assert [target.numpy().tolist() for target in found] == [[16.0, 32.0, 48.0, 64.0], [8.0] * 4]
    x.fill(np.zeros(4, np.float32))
    with pytest.raises(KernelValueError, match="'x' again, but its contents have changed since"):
        tape.backward(loss)


def test_a_tape_that_keeps_tiles() -> None:
    """In scratch memory of the GPU: same bits as without."""
    rng, found = np.random.default_rng(2), []
    host = [rng.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N), (M, N))]
    for save in ("auto", "none"):
        x, w, seed, y, *taken = map(there, (*host, *map(np.zeros_like, (host[2], *host[:2]))))
        with tk.Tape(save=save) as tape:
            tk.launch_tiled(layer, (2, 3), [x, w], [y, 3], block_dim=32)
            tk.launch_tiled(layer, (2, 3), [x, w], [y, 3], block_dim=32)
        record = tape.launches[-1]
        assert isinstance(record, LaunchRecord) and (record.saved is not None) == (save == "auto")
        for _ in range(2):
            tape.backward(grads=[(y, seed)])
        for array, target in zip((x, w), taken, strict=True):
            tk.launch_tiled(copied, (1, 1), [tape.gradients[array]], [target], block_dim=32)
        found.append([array.numpy() for array in (y, *taken)])
        tape.reset()
    inner = 2.0 * host[2] * (1.0 - np.tanh(host[0] @ host[1]) ** 2)
    right = np.tanh(host[0] @ host[1]), inner @ host[1].T, host[0].T @ inner
    for one, other, exact in zip(*found, right, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, exact, rtol=1e-2, atol=1e-2)


@tk.kernel
def copied(x: tk.array2d[float], y: tk.array2d[float]):
    tk.tile_store(y, tk.tile_load(x, shape=(16, 32)))


def test_a_tape_with_tensors() -> None:
    t = torch()
    x = t.randn(4, 2, device="cuda", dtype=t.float64)[:, 0].float().requires_grad_()
    stream = t.cuda.Stream()
    with t.cuda.stream(stream):
        y, loss = t.zeros(4, device="cuda"), t.zeros(1, device="cuda")
        with tk.Tape() as tape:
            go(squares, x, y)
            go(total, y, loss)
        tape.backward(loss)
        assert t.equal(tape.gradients[x], 2 * x.detach()) and x.grad is None
        x.detach().mul_(2.0)
        with pytest.raises(
            KernelValueError, match="'x' again, but an operation of PyTorch has written that tensor since"
        ):
            tape.backward(loss)
