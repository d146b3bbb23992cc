"""Which tiles a saving variant keeps, and that its gradient loads them instead of computing them again."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function, walk
from tilekit.ir.program import Program
from tilekit.ir.sizes import evaluate
from tilekit.passes.save_values import save_values
from tilekit.runtime.adjoint import adjoint_of
from tilekit.runtime.program import compile_kernel, compile_program
from tilekit.runtime.reference import run_reference


@tk.kernel
def layer(x: tk.array2d[float], w: tk.array2d[float], saved_acc: tk.array2d[float], n: int):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(16, 16), dtype=float)
    for k in range(n):
        acc += tk.tile_load(x, (16, 8), (16 * i, 8 * k)) @ tk.tile_load(w, (8, 16), (8 * k, 16 * j))
    tk.tile_store(saved_acc, tk.tile_map(tk.tanh, acc), offset=(16 * i, 16 * j))


@tk.kernel
def linear(x: tk.array2d[float], w: tk.array2d[float], y: tk.array2d[float], n: int):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(16, 16), dtype=float)
    for k in range(n):
        acc += tk.tile_load(x, (16, 8), (16 * i, 8 * k)) @ tk.tile_load(w, (8, 16), (8 * k, 16 * j))
    tk.tile_store(y, 2.0 * acc, offset=(16 * i, 16 * j))


@tk.kernel
def log_sum_exp(x: tk.array2d[tk.float64], y: tk.array2d[tk.float64], n: int):
    """Over three dimensions of blocks, of which tiles of one row cannot take up all; the maximum is not saved."""
    i, j, k = tk.tid()
    top = tk.tile_full(shape=2, value=-1e30, dtype=tk.float64)
    for s in range(n):
        top = tk.tile_map(tk.max, top, tk.tile_load(x[4 * i + 2 * j + k], shape=2, offset=2 * s))
    total = tk.tile_zeros(shape=2, dtype=tk.float64)
    for s in range(n):
        total += tk.tile_map(tk.exp, tk.tile_load(x[4 * i + 2 * j + k], shape=2, offset=2 * s) - top)
    tk.tile_store(y[4 * i + 2 * j + k], tk.tile_map(tk.log, total) + top)


def traced(kernel: tk.Kernel, ndim: int) -> tuple[Function, LaunchForm]:
    form = LaunchForm(True, ndim, 128)
    return kernel.trace(kernel.default_types(), form), form


def products(program: Program) -> int:
    return sum(bool(op.builtin.contraction) for launch in program.launches for op in walk(launch.function.body))


def test_the_sum_before_a_function_that_is_not_linear_is_kept() -> None:
    """Its name clashes with none of the kernel's; the gradient has the two products that no variant goes without."""
    fn, form = traced(layer, 2)
    found = save_values(fn, form)
    assert found is not None
    assert {name: str(item) for name, item in found.program.scratch.items()} == {
        "saved_acc_": "scratch array2d<f32> of (dim[0] * 16, dim[1] * 16), until backward"
    }
    adjoint, names = adjoint_of(found.function, None, form, found.names)
    plain, _ = adjoint_of(fn, None, form)
    assert (products(adjoint), products(plain)) == (2, 3)
    assert names == {"x": "adj_x", "w": "adj_w", "saved_acc": "adj_saved_acc"}
    assert [summed.form for summed in adjoint.sums] == ["gathered", "gathered"], "both gather what is computed from it"


def test_nothing_is_kept_that_the_gradient_does_not_use() -> None:
    assert save_values(*traced(linear, 2)) is None


def test_several_tiles_over_a_grid_of_more_dimensions_than_they_have() -> None:
    fn, form = traced(log_sum_exp, 3)
    found = save_values(fn, form)
    assert found is not None
    dims, rng = (2, 2, 2), np.random.default_rng(3)
    kept = {
        name: np.full([evaluate(size, dims, {}, {}) for size in item.shape], np.nan)
        for name, item in found.program.scratch.items()
    }
    assert {item.shape for item in kept.values()} == {(2, 2, 4)}
    x, seed, outs, sums = rng.standard_normal((8, 6)), rng.standard_normal((8, 2)), [], []
    for function, names, more in ((fn, (), {}), (found.function, found.names, kept)):
        arguments = {"x": x, "y": np.zeros((8, 2)), "n": np.int32(3), **more}
        run_reference(function, dims, arguments)
        adjoint, _ = adjoint_of(function, None, form, names)
        given = {"adj_x": np.zeros_like(x), "adj_y": seed.copy()}
        run_reference(adjoint, dims, {**arguments, **given})
        outs.append(arguments["y"])
        sums.append(given["adj_x"])
    parts = x.reshape(8, 3, 2)
    np.testing.assert_allclose(outs[0], np.log(np.exp(parts).sum(1)), rtol=1e-12)
    soft = np.exp(parts - outs[0][:, None]) * seed[:, None]
    np.testing.assert_allclose(sums[1], soft.reshape(8, 6), rtol=1e-11)
    np.testing.assert_array_equal(outs[0], outs[1])
    np.testing.assert_array_equal(sums[0], sums[1])


@pytest.mark.parametrize("backend", ["mma", "scalar"])
def test_a_saving_kernel_has_the_same_products_on_a_gpu(backend: str) -> None:
    fn, form = traced(layer, 2)
    found = save_values(fn, form)
    assert found is not None
    with tk.config.scoped(gemm=backend):
        saving = compile_program(found.program, form, "cuda", 90)
        plain = compile_kernel(layer, ndim=2, block_dim=128, device="cuda", arch=90)
    assert [str(plan) for plan in saving.plans] == [str(plan) for plan in plain.plans]
    assert saving.threads == plain.threads
