"""Gradients that are gathered: the same as by atomics, in one order, and which kernels have them."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilekit as tk
from tests.passes.finite_differences import compare_with_differences, traced
from tests.passes.programs import run_program
from tilekit.ir.core import walk
from tilekit.ir.program import Program
from tilekit.passes.differentiate import differentiate
from tilekit.passes.gather_gradients import gather_gradients

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def adjoint(kernel: tk.Kernel, arguments: dict[str, Any], ndim: int, **options: Any) -> Program:
    return gather_gradients(differentiate(traced(kernel, arguments)), ndim, **options)


def forms(program: Program) -> dict[str, bool]:
    names = {fresh: name for name, fresh in program.gradients.items()}
    return {names[summed.array]: summed.gathered for summed in program.sums}


def check(
    kernel: tk.Kernel, arguments: dict[str, Any], dims: tuple[int, ...], gathered: str = "", scattered: str = ""
) -> dict[str, Any]:
    """Compare with central differences; then a second run, with blocks in another order, gives the same bits."""
    fn = traced(kernel, arguments)
    outputs = tuple(name for name in arguments if name.startswith("out"))
    program = gather_gradients(differentiate(fn), len(dims))
    assert forms(program) == dict.fromkeys(gathered.split(), True) | dict.fromkeys(scattered.split(), False), program
    found = compare_with_differences(fn, arguments, outputs, dims, program)
    rng = np.random.default_rng(1)
    seeds = {name: np.random.default_rng(7).standard_normal(arguments[name].shape) for name in outputs}
    given = {
        fresh: np.array(seeds.get(name, np.zeros_like(arguments[name]))) for name, fresh in program.gradients.items()
    }
    run_program(program, {**arguments, **given}, dims, rng)
    for name in gathered.split():
        np.testing.assert_array_equal(given[program.gradients[name]], found[name], err_msg=name)
    return found


@tk.kernel
def gemm(a: tk.array2d[tk.float64], b: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    i, j = tk.tid()
    out_tile = tk.tile_zeros(shape=(4, 8), dtype=tk.float64)
    for k in range(n):
        a_tile = tk.tile_load(a, shape=(4, 3), offset=(i * 4, k * 3))
        b_tile = tk.tile_load(b, shape=(3, 8), offset=(k * 3, j * 8))
        tk.tile_matmul(a_tile, b_tile, out_tile)
    tk.tile_store(out, out_tile, offset=(i * 4, j * 8))


def test_the_plain_product_gathers_both_factors() -> None:
    """Ragged in every dimension; a loop and a grid that cover less than the arrays leave the rest untouched."""
    arguments = {"a": normal(10, 11), "b": normal(11, 13), "out": np.zeros((10, 13)), "n": 3}
    found = check(gemm, arguments, (2, 1), "a b")
    assert found["a"][:8, :9].all() and not found["a"][8:].any() and not found["a"][:, 9:].any()
    assert found["b"][:9, :8].all() and not found["b"][9:].any() and not found["b"][:, 8:].any()
    check(gemm, {**arguments, "n": 4}, (3, 2), "a b")
    assert not check(gemm, {**arguments, "n": 0}, (3, 2), "a b")["a"].any()


@tk.kernel
def transposed(a: tk.array2d[tk.float64], b: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    """Both factors from arrays that lie the other way, the step of the loop in the range, counting down, and alpha."""
    j, i = tk.tid()
    acc = tk.tile_zeros(shape=(4, 8), dtype=tk.float64)
    for k in range((n - 1) * 3, -1, -3):
        x = tk.tile_transpose(tk.tile_load(a, shape=(3, 4), offset=(k, i * 4 + 1)))
        y = tk.tile_transpose(tk.tile_load(b, shape=(8, 3), offset=(j * 8, k)))
        tk.tile_matmul(x, y, acc, alpha=2.5)
    tk.tile_store(out, acc, offset=(i * 4, j * 8))


def test_transposed_factors() -> None:
    arguments = {"a": normal(10, 12), "b": normal(13, 10), "out": np.zeros((10, 13)), "n": 4}
    check(transposed, arguments, (2, 3), "a b")


@tk.kernel
def batched(
    a: tk.array3d[tk.float64], w: tk.array2d[tk.float64], c: tk.array3d[tk.float64], out: tk.array3d[tk.float64]
):
    """Batches as a part of an array and as an axis of the tile; one factor is shared by all of them."""
    g, i, j = tk.tid()
    acc = tk.tile_zeros(shape=(2, 4), dtype=tk.float64)
    for k in range(a.shape[2] // 3):
        x = tk.tile_load(a[g], shape=(2, 3), offset=(i * 2, k * 3))
        tk.tile_matmul(x, tk.tile_load(w, shape=(3, 4), offset=(k * 3, j * 4)), acc)
    more = tk.tile_squeeze(tk.tile_load(c, shape=(1, 2, 4), offset=(g, i * 2, j * 4)))
    tk.tile_store(out[g], acc * more, offset=(i * 2, j * 4))


def test_batches() -> None:
    arguments = {"a": normal(2, 3, 6), "w": normal(6, 7), "c": normal(2, 3, 7), "out": np.zeros((2, 3, 7))}
    check(batched, arguments, (2, 2, 2), "a w c")


@tk.kernel
def layer(
    x: tk.array2d[tk.float64],
    w: tk.array2d[tk.float64],
    b: tk.array2d[tk.float64],
    out: tk.array2d[tk.float64],
    n: int,
):
    """Its epilogue needs the sums again, and the bias is the same for all rows of tiles."""
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(4, 8), dtype=tk.float64)
    for k in range(n):
        x_tile = tk.tile_load(x, shape=(4, 4), offset=(i * 4, k * 4))
        tk.tile_matmul(x_tile, tk.tile_load(w, shape=(4, 8), offset=(k * 4, j * 8)), acc)
    z = acc + tk.tile_broadcast(tk.tile_load(b, shape=(1, 8), offset=(0, j * 8)), shape=(4, 8))
    tk.tile_store(out, tk.tanh(z), offset=(i * 4, j * 8))


def test_a_fused_layer_computes_its_sums_once_more() -> None:
    arguments = {"x": normal(7, 9), "w": normal(9, 13), "b": normal(1, 13), "out": np.zeros((7, 13)), "n": 3}
    check(layer, arguments, (2, 2), "x w b")
    program = adjoint(layer, arguments, 2)
    products = [sum(bool(op.builtin.contraction) for op in walk(launch.function.body)) for launch in program.launches]
    assert products == [1, 0, 1, 1] and len(program.launches) == 4, program


@tk.kernel
def stencil(
    a: tk.array1d[tk.float64], b: tk.array2d[tk.float64], d: tk.array1d[tk.float64], out: tk.array1d[tk.float64]
):
    i = tk.tid()
    left, right = tk.tile_load(a, shape=4, offset=i * 4), tk.tile_load(a, shape=4, offset=i * 4 + 1)
    both = tk.tile_load(d, shape=4, offset=i * 4) * tk.tile_load(d, shape=4, offset=4 * i)
    both += tk.tile_squeeze(tk.tile_load(b, shape=(4, 1), offset=(i * 4, i)))
    tk.tile_store(out, left * right * both, offset=i * 4)


def test_tiles_that_overlap_or_move_along_two_axes_scatter() -> None:
    arguments = {"a": normal(11), "b": normal(9, 3), "d": normal(11), "out": np.zeros(10)}
    check(stencil, arguments, (3,), "d", "a b")
    text = str(adjoint(stencil, arguments, 1))
    assert "its tiles are not the same parts of the array as those of line" in text
    assert "coordinate 0 of the grid moves its tiles along two axes" in text


@tk.kernel
def elements(a: tk.array1d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    """Elements of one array, a condition around a load of another, and a bound that blocks differ in."""
    i = tk.tid()
    total = tk.tile_zeros(shape=2, dtype=tk.float64)
    if n > 1:
        total += tk.tile_load(b, shape=2, offset=i * 2)
    out[i] = a[i] * a[0] + tk.tile_sum(total)[0]
