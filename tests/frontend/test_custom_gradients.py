"""Functions with gradients and replays of their own, and the gradient of a function where a kernel calls it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk

DEVICES = ("cpu", "interpret")


def backward(
    kernel: Any, inputs: list[Any], outputs: list[Any], seeds: list[Any], device: str, n: int = 1
) -> list[Any]:
    """The gradients of the inputs that are arrays of floats."""
    gradients = [np.zeros_like(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else None for x in inputs]
    how = {
        "adj_inputs": gradients,
        "adj_outputs": [None if seed is None else seed.copy() for seed in seeds],
        "adjoint": True,
        "device": device,
    }
    launch = tk.launch_tiled if kernel.function.__name__.startswith("tiled") else tk.launch
    launch(kernel, dim=n, inputs=inputs, outputs=outputs, **how)
    return gradients


@tk.func
def scaled(x: float, y: float):
    return x * y, y


@tk.func_grad(scaled)
def adj_scaled(x: float, y: float, adj_product: float, adj_y: float):
    tk.adjoint[x] += y * adj_product * 42.0
    for _ in range(2):
        if x > 2.0:
            tk.adjoint[y] += x * adj_product * 5.0
    if x < 2.0:
        return
    tk.adjoint[y] += adj_y * 3.0


@tk.kernel
def calls(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float], n: int):
    i = tk.tid()
    for _ in range(n):
        product, same = scaled(a[i], b[i])
        out[i] += product + same
    product, same = scaled(a[i], b[i])
    twice, _ = scaled(a[i], a[i])
    out[i] = product + same + twice + scaled(a[i], 2.0)[0]


@pytest.mark.parametrize("device", DEVICES)
def test_a_gradient_function_takes_the_place_of_the_gradient(device: str) -> None:
    a, b, out = np.arange(1, 5, dtype=np.float32), np.arange(11, 15, dtype=np.float32), np.zeros(4, np.float32)
    tk.launch(calls, dim=4, inputs=[a, b], outputs=[out, 0], device=device)
    assert (out == a * b + b + a * a + 2 * a).all()
    above = (a > 2.0).astype(np.float32)
    ga, gb = backward(calls, [a, b], [out, 0], [np.ones_like(a), None], device, 4)
    assert (ga == 42 * b + 42 * a + above * a * 10 + 42 * 2.0).all()
    assert (gb == above * a * 10 + (a >= 2.0) * 3).all()


@tk.func
def through(x: Any):
    return tk.tile_map(lambda v: float(int(v)), x)


@tk.func_grad(through)
def adj_through(x: Any, adj: Any):
    """Straight through, where the operations have no gradient."""
    tk.adjoint[x] += adj


@tk.func
def gathered(values: tk.array1d[float], index: int, scale: float):
    return values[index] * scale


@tk.func_grad(gathered)
def adj_gathered(values: tk.array1d[float], index: int, scale: float, adj: float):
    tk.adjoint[values][index] += 2.0 * adj
    tk.adjoint[scale] += 100.0 * adj


@tk.kernel
def tiled_kinds(x: tk.array1d[float], values: tk.array1d[float], out: tk.array1d[float]):
    found = gathered(values, 1, x[0])
    tk.tile_store(out, through(tk.tile_load(x, 4)) * found)


@pytest.mark.parametrize("device", DEVICES)
def test_tiles_and_arrays_have_gradients_as_well(device: str) -> None:
    x, values = np.array([1.5, 2.5, 3.5, 4.5], np.float32), np.array([7.0, 3.0], np.float32)
    out, seed = np.zeros_like(x), np.array([1, 2, 3, 4], np.float32)
    tk.launch_tiled(tiled_kinds, dim=1, inputs=[x, values], outputs=[out], device=device)
    assert (out == np.trunc(x) * 4.5).all()
    gx, gv = backward(tiled_kinds, [x, values], [out], [seed], device)
    flows = float((seed * np.trunc(x)).sum())
    assert (gx == seed * 4.5 + np.array([100.0 * flows, 0, 0, 0], np.float32)).all()
    assert (gv == [0.0, 2.0 * flows]).all()


@tk.func
def numbered(count: tk.array1d[int], slots: tk.array1d[int], i: int, x: float):
    """A number that only the first run knows."""
    number = tk.atomic_add(count, 0, 1)
    slots[i] = number
    return x * x, number


@tk.func_replay(numbered)
def numbered_again(count: tk.array1d[int], slots: tk.array1d[int], i: int, x: float):
    return x * x, slots[i]


@tk.kernel
def counts(count: tk.array1d[int], slots: tk.array1d[int], x: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    square, number = numbered(count, slots, i, x[i])
    out[i] = tk.sin(square) * float(number + 1)


@pytest.mark.parametrize("device", DEVICES)
def test_a_replay_computes_results_again(device: str) -> None:
    count, slots = np.zeros(1, np.int32), np.zeros(3, np.int32)
    x, out = np.array([0.5, 1.0, 2.0], np.float32), np.zeros(3, np.float32)
    tk.launch(counts, dim=3, inputs=[count, slots, x], outputs=[out], device=device)
    assert count[0] == 3 and sorted(slots) == [0, 1, 2]
    (_, _, gx) = backward(counts, [count, slots, x], [out], [np.ones_like(x)], device, 3)
    assert count[0] == 3
    assert np.allclose(gx, np.cos(x * x) * 2 * x * (slots + 1), rtol=1e-6)


@tk.func
def cubed(x: Any):
    return x * x * x


@tk.kernel
def tiled_slopes(x: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_load(x, 4)
    dx, dy = tk.grad(tk.atan2)(t[0], 2.0)
    slopes = tk.grad(cubed)(t)
    tk.tile_store(out, slopes + dx + tk.grad(tk.grad(cubed))(t[1]) + dy)


@pytest.mark.parametrize("device", DEVICES)
def test_grad_gives_the_gradient_of_each_argument_and_has_one_itself(device: str) -> None:
    x, out = np.array([1.0, 2.0, 3.0, 4.0], np.float32), np.zeros(4, np.float32)
    tk.launch_tiled(tiled_slopes, dim=1, inputs=[x], outputs=[out], device=device)
    reach = x[0] ** 2 + 4.0
    assert np.allclose(out, 3 * x * x + 2.0 / reach + 6.0 * x[1] - x[0] / reach, rtol=1e-6)
    (gx,) = backward(tiled_slopes, [x], [out], [np.ones_like(x)], device)
    wanted = 6 * x + np.array([4 * (-2.0 * 2 * x[0] - reach + 2 * x[0] ** 2) / reach**2, 24.0, 0, 0])
    assert np.allclose(gx, wanted, rtol=1e-5)


def test_grad_is_computed_at_once_outside_kernels_and_uses_gradients_of_functions() -> None:
    assert float(tk.grad(cubed)(2.0)) == 12.0
    assert np.array(tk.grad(cubed)(tk.tile_full(2, 3.0))).tolist() == [27.0, 27.0]
    assert [float(g) for g in tk.grad(gathered_alone)(3.0, 5)] == [70.0, 0.0]


@tk.func
def gathered_alone(x: float, n: int):
    return x * float(n)


@tk.func_grad(gathered_alone)
def adj_gathered_alone(x: float, n: int, adj: float):
    tk.adjoint[x] += adj * float(14 * n)


@tk.func
def steep(x: float):
    return tk.where(x > 0.0, x, 0.0)


@tk.func_grad(steep)
def adj_steep(x: float, adj: float):
    """The gradient of a smooth function nearby, of the function itself and of another one."""
    tk.adjoint[x] += adj * (steep(x) + tk.grad(cubed)(x))


@tk.kernel
def tiled_steps(x: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_load(x, 4)
    total = tk.tile_zeros(4)
    for _ in range(3):
        total += tk.tile_map(steep, t)
    tk.tile_store(out, total)


@pytest.mark.parametrize("device", DEVICES)
def test_a_gradient_function_is_used_for_each_element_and_calls_what_it_needs(device: str) -> None:
    x, out = np.array([-1.0, 1.0, 2.0, 3.0], np.float32), np.zeros(4, np.float32)
    (gx,) = backward(tiled_steps, [x], [out], [np.ones_like(x)], device)
    assert (gx == 3 * (np.maximum(x, 0) + 3 * x * x)).all()


def test_warps_own_declarations_hold_in_kernels_that_call_its_functions() -> None:
    wp = pytest.importorskip("warp")

    @wp.func
    def half(x: float):
        return x * 0.5

    @wp.func_grad(half)
    def adj_half(x: float, adj_ret: float):
        wp.adjoint[x] += adj_ret * 7.0

    slope = wp.grad(half)

    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array1d[float]):
        i = wp.tid()
        out[i] = half(x[i]) + 0.5 * wp.grad(half)(x[i]) + 0.5 * slope(x[i])

    x, out = np.array([1.0, 2.0], np.float32), np.zeros(2, np.float32)
    tk.launch(k, dim=2, inputs=[x], outputs=[out], device="cpu")
    assert (out == x / 2 + 7).all()
    (gx,) = backward(k, [x], [out], [np.ones_like(x)], "cpu", 2)
    assert (gx == 7.0).all()


def test_such_calls_compile_for_gpus() -> None:
    for kernel, tiled in ((calls, False), (tiled_kinds, True), (counts, False), (tiled_slopes, True)):
        found = tk.compile(kernel, arch=90, tiled=tiled)
        assert "call(" not in found.ir
        assert all(part.cubin[:4] == b"\x7fELF" for part in found.adjoint.parts)
