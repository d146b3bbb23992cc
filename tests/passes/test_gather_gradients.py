"""Gradients that are gathered: the same as by atomics, in one order, and which kernels have them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.passes.finite_differences import compare_with_differences, traced
from tests.passes.programs import run_program
from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.ir.program import Program
from tilekit.passes.differentiate import differentiate
from tilekit.passes.sum_gradients import sum_gradients
from tilekit.runtime.adjoint import launch_adjoint

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def adjoint(kernel: tk.Kernel, arguments: dict[str, Any], ndim: int, **options: Any) -> Program:
    return sum_gradients(differentiate(traced(kernel, arguments)), LaunchForm(ndim=ndim), **options)


def forms(program: Program) -> dict[str, str]:
    names = {fresh: name for name, fresh in program.gradients.items()}
    return {names[summed.array]: summed.form for summed in program.sums}


def check(
    kernel: tk.Kernel,
    arguments: dict[str, Any],
    dims: tuple[int, ...],
    gathered: str = "",
    scattered: str = "",
    in_place: str = "",
) -> dict[str, Any]:
    """Compare with central differences; then a second run, with blocks in another order, gives the same bits."""
    fn = traced(kernel, arguments)
    outputs = tuple(name for name in arguments if name.startswith("out"))
    program = adjoint(kernel, arguments, len(dims))
    wanted = {"gathered": gathered, "scattered": scattered, "added in place": in_place}
    assert forms(program) == {name: form for form, names in wanted.items() for name in names.split()}, program
    found = compare_with_differences(fn, arguments, outputs, dims, program)
    rng = np.random.default_rng(1)
    drawn = np.random.default_rng(7)
    seeds = {name: drawn.standard_normal(arguments[name].shape) for name in outputs}
    given = {
        fresh: np.array(seeds.get(name, np.zeros_like(arguments[name]))) for name, fresh in program.gradients.items()
    }
    run_program(program, {**arguments, **given}, dims, rng)
    for name in (*gathered.split(), *in_place.split()):
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
def added(a: tk.array2d[tk.float64], b: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(4, 8), dtype=tk.float64)
    for k in range(n):
        acc += tk.tile_load(a, shape=(4, 3), offset=(i * 4, k * 3)) @ tk.tile_load(b, (3, 8), (k * 3, j * 8))
    tk.tile_store(out, tk.tile_map(tk.tanh, acc), offset=(i * 4, j * 8))


def test_products_that_are_added_to_a_sum_gather() -> None:
    """The gradient of such a sum is the same in every iteration: no loop carries it."""
    check(added, {"a": normal(10, 11), "b": normal(11, 13), "out": np.zeros((10, 13)), "n": 4}, (3, 2), "a b")


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
        acc += tk.tile_load(x, shape=(4, 4), offset=(i * 4, k * 4)) @ tk.tile_load(w, (4, 8), offset=(k * 4, j * 8))
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
    both += tk.tile_squeeze(tk.tile_load(b, shape=(4, 1), offset=(i * 4 + 1, i + 1)))
    tk.tile_store(out, left * right * both, offset=i * 4)


def test_tiles_that_overlap_or_move_along_two_axes_scatter() -> None:
    arguments = {"a": normal(11), "b": normal(9, 3), "d": normal(11), "out": np.zeros(10)}
    check(stencil, arguments, (3,), "d", "a b")
    text = str(adjoint(stencil, arguments, 1))
    assert "its tiles are not the same parts of the array as those of line" in text
    assert "coordinate 0 of the grid moves its tiles along two axes" in text


@tk.kernel
def conditions(
    a: tk.array1d[tk.float64],
    b: tk.array1d[tk.float64],
    c: tk.array1d[tk.float64],
    d: tk.array1d[tk.float64],
    out: tk.array1d[tk.float64],
    n: int,
):
    """An array for each condition: elements, a branch, a bound that differs between blocks, and one that gathers."""
    i = tk.tid()
    total = tk.tile_load(d, shape=2, offset=2 * i) * a[i // 2]
    if n > 1:
        total += tk.tile_load(b, shape=2, offset=i)
    for k in range(i + 1):
        total += tk.tile_load(c, shape=2, offset=k * 2)
    tk.tile_store(out, total, offset=2 * i)


def test_what_fails_a_condition_scatters_and_the_rest_gathers() -> None:
    arguments = {name: normal(6) for name in "abcd"} | {"out": np.zeros(6), "n": 2}
    check(conditions, arguments, (3,), "d", "a b c")
    program = adjoint(conditions, arguments, 1)
    why = {summed.array: summed.how for summed in program.sums}
    multiple = "the index is no multiple of coordinate 0 of the grid plus what is the same in the whole launch"
    assert why["adj_a"] == multiple
    assert why["adj_b"] == "it stands under a condition that is only known at run time"
    assert why["adj_c"] == "the bounds of a loop around it depend on more than launch scalars and shapes"
    with pytest.raises(KernelNotImplementedError) as error:
        adjoint(conditions, arguments, 1, deterministic=True)
    assert str(error.value.message) == (
        "the gradient of 'c' would be added up by atomics, in another order in every run, and the option deterministic "
        "is on: the bounds of a loop around it depend on more than launch scalars and shapes; loops around must be "
        "bounded by launch scalars and shapes"
    )
    assert "for k in range(i + 1):" in str(error.value)


@tk.kernel
def stores(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], out2: tk.array1d[tk.float64], n: int):
    """Only the last store to a place counts, so what others read of its gradient is zero by then."""
    i = tk.tid()
    for k in range(n):
        tk.tile_store(out, tk.float64(k) * tk.tile_load(a, shape=2, offset=2 * i), offset=2 * i)
    tk.tile_store(out2, tk.tile_load(a, shape=2, offset=2 * i), offset=4 * i)
    tk.tile_store(out2, 3.0 * tk.tile_load(a, shape=2, offset=2 * i), offset=4 * i + 1)


def test_stores_over_stores() -> None:
    check(stores, {"a": normal(5), "out": np.zeros(5), "out2": np.zeros(9), "n": 3}, (3,), in_place="a")


@tk.kernel
def total(a: tk.array2d[tk.float64], out: tk.array1d[tk.float64]):
    tk.tile_store(out, tk.tile_sum(tk.exp(tk.tile_load(a, shape=(3, 4)))))


def test_a_loss_of_one_block() -> None:
    """Its place does not depend on the block, of which there is one."""
    check(total, {"a": normal(3, 4), "out": np.zeros(1)}, (1,), "a")


@tk.kernel
def attention(
    q: tk.array2d[tk.float64], k: tk.array2d[tk.float64], v: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int
):
    """Without the softmax's rescaling: scores are computed in the loop, and needed by three gradients."""
    i = tk.tid()
    rows = tk.tile_load(q, shape=(4, 3), offset=(4 * i, 0))
    acc = tk.tile_zeros(shape=(4, 3), dtype=tk.float64)
    for j in range(n):
        scores = rows @ tk.tile_transpose(tk.tile_load(k, shape=(2, 3), offset=(2 * j, 0)))
        tk.tile_matmul(tk.tanh(scores), tk.tile_load(v, shape=(2, 3), offset=(2 * j, 0)), acc)
    tk.tile_store(out, acc, offset=(4 * i, 0))


def test_attention_computes_its_scores_again_for_each_gradient() -> None:
    arguments = {"q": normal(7, 3), "k": normal(5, 3), "v": normal(5, 3), "out": np.zeros((7, 3)), "n": 3}
    check(attention, arguments, (2,), "q k v")


@pytest.mark.parametrize("dtype", [tk.float32, tk.bfloat16])
def test_threads_do_not_change_gathered_bits(dtype: Any) -> None:
    """On the CPU, through a backward launch; 16-bit gradients are rounded once."""

    @tk.kernel
    def product(a: tk.array2d[dtype], b: tk.array2d[dtype], out: tk.array2d[dtype], n: int):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(16, 16), dtype=tk.float32)
        for k in range(n):
            x = tk.tile_load(a, shape=(16, 8), offset=(i * 16, k * 8))
            tk.tile_matmul(x, tk.tile_load(b, shape=(8, 16), offset=(k * 8, j * 16)), acc)
        tk.tile_store(out, tk.tile_astype(acc, dtype), offset=(i * 16, j * 16))

    stored = np.float32 if dtype is tk.float32 else ml_dtypes.bfloat16
    a, b, seed = (normal(*shape).astype(stored) for shape in ((50, 40), (40, 70), (50, 70)))
    found = []
    for threads in (1, 2):
        with tk.config.scoped(num_threads=threads, deterministic=True):
            given = {"a": np.zeros_like(a), "b": np.zeros_like(b), "out": seed.copy()}
            launch_adjoint(product, (4, 5), [a, b, np.zeros((50, 70), stored), 5], given, device="cpu")
            found.append(given)
    for name, exact in {"a": seed @ b.T, "b": a.T @ seed}.items():
        np.testing.assert_array_equal(found[0][name], found[1][name])
        np.testing.assert_allclose(found[0][name].astype(float), exact.astype(float), rtol=1e-2, atol=2e-2)
    assert not found[0]["out"].any()


@tk.kernel
def recurrent(x: tk.array2d[tk.float64], w: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    i = tk.tid()
    weights, h = tk.tile_load(w, shape=(4, 4)), tk.tile_load(x, shape=(4, 4), offset=(i * 4, 0))
    for _ in range(n):
        h = tk.tanh(h @ weights)
    tk.tile_store(out, h, offset=(i * 4, 0))


def test_what_a_loop_carries_is_named_where_it_keeps_a_gradient_from_being_gathered() -> None:
    arguments = {"x": normal(7, 4), "w": normal(4, 4), "out": np.zeros((7, 4)), "n": 3}
    program = adjoint(recurrent, arguments, 1)
    assert forms(program) == {"x": "added in place", "w": "scattered"}
    (scattered,) = (str(summed) for summed in program.sums if summed.form == "scattered")
    text = "it depends on array 'kept', which the kernel writes"
    assert scattered.endswith(f": {text} (what is added must be computable again without effects)")
