"""Kernels that repeat axes: softmax, layer norm and attention, on every device."""

import numpy as np
import pytest

import tilekit as tk
from tests import on_gpu
from tests.builtins.both import out
from tests.nvrtc import needs_nvrtc
from tests.passes.finite_differences import check_gradient

DEVICES = pytest.mark.parametrize("device", ["cpu", "interpret"])
rng = np.random.default_rng(4)
X = rng.standard_normal((8, 32)).astype(np.float32)


def run(kernel, inputs, shape, device, dim=1):
    found = out(*shape)
    tk.launch_tiled(kernel, dim=dim, inputs=inputs, outputs=[found], block_dim=32, device=device)
    return found


@tk.kernel
def softmax(x: tk.array2d[float], y: tk.array2d[float]):
    t = tk.tile_load(x, shape=(4, 32), offset=(tk.tid() * 4, 0))
    t -= tk.tile_max(t, axis=1, keepdims=True)
    e = tk.exp(t)
    tk.tile_store(y, e / tk.tile_sum(e, axis=1)[:, None], offset=(tk.tid() * 4, 0))


@DEVICES
def test_softmax(device):
    found = run(softmax, [X], (8, 32), device, dim=2)
    e = np.exp(X - X.max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-5)


def cycled(x):
    t = x[:4].copy()
    for i in range(2):
        t += t[i % 4].copy() * np.float32(0.5)
        t = np.where(t > t[:, 0:1], t, t[:, i : i + 1])
        t[1] -= t[2, i].copy()
        t[:, i:] *= t[0:1, i:].copy() if i == 0 else t[0:1, 1:2].copy()
    return t


@tk.kernel
def twice(x: tk.array2d[float], y: tk.array2d[float]):
    t = tk.tile_load(x, shape=(4, 32))
    for i in tk.static_range(2):
        t += t[i % 4][None, :] * 0.5
        t = tk.where(t > t[:, 0:1], t, tk.tile_view(t, (0, i), (4, 1)))
        t[1] -= t[2, i : i + 1]
        t[:, i:] *= t[0:1, i:] if i == 0 else t[0:1, 1:2]
    tk.tile_store(y, t)


@DEVICES
def test_a_tile_meets_parts_of_itself(device):
    found = run(twice, [X], (4, 32), device)
    assert np.array_equal(found, cycled(X))


@tk.kernel
def running(x: tk.array2d[float], n: int, y: tk.array2d[float]):
    """A running maximum and sum of rows, carried by a loop."""
    largest = tk.tile_full(shape=(4, 1), value=-1e30)
    total = tk.tile_zeros(shape=(4, 1))
    for i in range(n):
        t = tk.tile_load(x, shape=(4, 8), offset=(0, i * 8))
        new = tk.max(largest, tk.tile_max(t, axis=1, keepdims=True))
        total *= tk.exp(largest - new)
        total += tk.tile_sum(tk.exp(t - new), axis=1, keepdims=True)
        largest = new
    tk.tile_store(y, largest + tk.log(total))


@DEVICES
def test_running_sums_of_exponentials(device):
    found = run(running, [X, 4], (4, 1), device)
    np.testing.assert_allclose(found[:, 0], np.log(np.exp(X[:4]).sum(1)), rtol=1e-5)


@tk.kernel
def lanes(x: tk.array1d[float], y: tk.array2d[float]):
    _i, lane = tk.tid()
    t = tk.tile(x[lane])
    tk.tile_store(y, t[:, None] - t[None, :])


@DEVICES
def test_tiles_of_lanes(device):
    found = run(lanes, [X[0]], (32, 32), device)
    assert np.array_equal(found, X[0][:, None] - X[0])


HEAD = 16


@tk.kernel
def attention(q: tk.array3d[float], k: tk.array3d[float], v: tk.array3d[float], y: tk.array3d[float]):
    h, i = tk.tid()
    queries = tk.tile_load(q[h], shape=(16, HEAD), offset=(i * 16, 0))
    scores = tk.tile_matmul(queries, tk.tile_transpose(tk.tile_load(k[h], shape=(32, HEAD))), 0.25)
    e = tk.exp(scores - tk.tile_max(scores, axis=1, keepdims=True))
    e /= tk.tile_sum(e, axis=1, keepdims=True)
    tk.tile_store(y[h], tk.tile_matmul(e, tk.tile_load(v[h], shape=(32, HEAD))), offset=(i * 16, 0))


Q, K, V = rng.standard_normal((3, 2, 32, HEAD)).astype(np.float32)


def attended():
    weights = np.exp(Q @ K.swapaxes(1, 2) / 4)
    return weights / weights.sum(2, keepdims=True) @ V


@DEVICES
def test_attention(device):
    found = run(attention, [Q, K, V], (2, 32, HEAD), device, dim=(2, 2))
    np.testing.assert_allclose(found, attended(), rtol=1e-4, atol=1e-5)


@tk.kernel
def layer_norm(x: tk.array2d[tk.float64], scale: tk.array1d[tk.float64], y: tk.array2d[tk.float64]):
    t = tk.tile_load(x, shape=(4, 6))
    t -= tk.tile_sum(t, axis=1, keepdims=True) / 6.0
    variance = tk.tile_sum(t * t, axis=1, keepdims=True) / 6.0
    t /= tk.sqrt(variance + 0.1)
    tk.tile_store(y, t * tk.tile_load(scale, shape=6)[None, :])


def test_the_gradient_of_what_is_repeated_is_summed():
    arguments = {"x": rng.standard_normal((4, 6)), "scale": rng.standard_normal(6), "y": np.zeros((4, 6))}
    check_gradient(layer_norm, arguments, ("y",))


@needs_nvrtc
@pytest.mark.parametrize("kernel", [softmax, twice, running, lanes, attention, layer_norm])
def test_repeating_kernels_compile_for_gpus(kernel):
    tk.compile(kernel, dim=(2, 2) if kernel is attention else 1, arch=90, block_dim=32)


@pytest.mark.gpu
def test_repeating_kernels_on_a_gpu():
    e = np.exp(X - X.max(1, keepdims=True))
    for kernel, dim, inputs, wanted in (
        (softmax, 2, [X], e / e.sum(1, keepdims=True)),
        (twice, 1, [X], cycled(X)),
        (running, 1, [X, 4], np.log(np.exp(X[:4]).sum(1, keepdims=True))),
        (lanes, 1, [X[0].copy()], X[0][:, None] - X[0]),
        (attention, (2, 2), [Q, K, V], attended()),
    ):
        found = out(*wanted.shape)
        on_gpu.launch_tiled(kernel, dim, inputs, [found])
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
