"""Gradients against central differences in float64, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilekit as tk
from tests.compiled import Library
from tests.passes.finite_differences import check_gradient, gradients, run, traced
from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.passes.differentiate import differentiate

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def ops_of(fn) -> list[str]:
    return [op.builtin.name for op in walk(fn.body)]


@tk.kernel
def gemm(a: tk.array2d[tk.float64], b: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    i, j = tk.tid()
    out_tile = tk.tile_zeros(shape=(4, 8), dtype=tk.float64)
    for k in range(n):
        a_tile = tk.tile_load(a, shape=(4, 3), offset=(i * 4, k * 3))
        b_tile = tk.tile_load(b, shape=(3, 8), offset=(k * 3, j * 8))
        tk.tile_matmul(a_tile, b_tile, out_tile)
    tk.tile_store(out, out_tile, offset=(i * 4, j * 8))


def test_gemm_with_a_run_time_bound() -> None:
    """Ragged in every dimension; the exact gradients of a product are known as well."""
    arguments = {"a": normal(6, 7), "b": normal(7, 13), "out": np.zeros((6, 13)), "n": 3}
    found = check_gradient(gemm, arguments, ("out",), grid=(2, 2))
    seed = np.random.default_rng(7).standard_normal((6, 13))
    np.testing.assert_allclose(found["a"], seed @ arguments["b"].T, rtol=1e-12)
    np.testing.assert_allclose(found["b"], arguments["a"].T @ seed, rtol=1e-12)
    np.testing.assert_array_equal(found["out"], 0)


def test_a_sum_over_iterations_keeps_its_loop_and_stores_nothing() -> None:
    (launch,) = differentiate(
        traced(gemm, {"a": normal(2, 2), "b": normal(2, 2), "out": normal(2, 2), "n": 1})
    ).launches
    (loop,) = [op for op in walk(launch.function.body) if op.builtin.name == "for_range"]
    assert loop.results == ()
    assert [name for name in ops_of(launch.function) if name == "tile_store"] == ["tile_store"]
    assert sorted(launch.function.params) == ["a", "adj_a", "adj_b", "adj_out", "b", "n", "out"]


@tk.kernel
def constant_bounds(a: tk.array2d[tk.float64], b: tk.array2d[tk.float64], out: tk.array2d[tk.float64]):
    acc = tk.tile_zeros(shape=(4, 4), dtype=tk.float64)
    for k in range(60, -1, -2):
        tk.tile_matmul(tk.tile_load(a, shape=(4, 2), offset=(0, k)), tk.tile_load(b, shape=(2, 4), offset=(k, 0)), acc)
    tk.tile_store(out, acc)


def test_loop_over_a_constant_range_downwards() -> None:
    check_gradient(constant_bounds, {"a": normal(4, 62), "b": normal(62, 4), "out": np.zeros((4, 4))}, ("out",))


@tk.kernel
def strided(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], start: int, stop: int):
    total = tk.tile_zeros(shape=2, dtype=tk.float64)
    for k in range(start, stop, 3):
        total += tk.tile_load(a, shape=2, offset=k) * tk.tile_load(a, shape=2, offset=k + 1)
    for k in range(stop, start, -2):
        total += tk.tile_load(a, shape=2, offset=k) * 3.0
    tk.tile_store(out, total)


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (1, 10), (0, 0), (5, 2), (2, 3), (-3, 4)])
def test_loops_with_steps(start: int, stop: int) -> None:
    check_gradient(strided, {"a": normal(14), "out": np.zeros(2), "start": start, "stop": stop}, ("out",))


@tk.kernel
def nested(a: tk.array2d[tk.float64], w: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int, m: int):
    scale = tk.tile_load(w, shape=(3, 3))
    total = tk.tile_zeros(shape=(3, 3), dtype=tk.float64)
    for i in range(n):
        row = tk.tile_zeros(shape=(3, 3), dtype=tk.float64)
        for j in range(m):
            row += tk.tile_load(a, shape=(3, 3), offset=(i * 3, j * 3)) * scale
        total += row * row
        tk.tile_store(out, row * scale, offset=(i * 3, 0))
    tk.tile_store(out, total * scale, offset=(0, 3))


def test_nested_loops_with_an_epilogue_in_the_outer_one() -> None:
    arguments = {"a": normal(9, 12), "w": normal(3, 3), "out": np.zeros((9, 6)), "n": 3, "m": 4}
    check_gradient(nested, arguments, ("out",))


@tk.kernel
def branches(a: tk.array1d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    x = tk.tile_load(a, shape=4)
    y = tk.tile_load(b, shape=4)
    for k in range(n):
        if k > 1:
            z = x * y
            y += z * x
        else:
            y -= x
            z = x
        if k == 3:
            tk.tile_store(out, z * z, offset=4)
    tk.tile_store(out, y)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_branches_that_only_add_to_what_is_carried(n: int) -> None:
    @tk.kernel
    def sums(a: tk.array1d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
        x = tk.tile_load(a, shape=4)
        y = tk.tile_load(b, shape=4)
        total = y
        for k in range(n):
            if k > 1:
                total = total + x * y
            elif k > 0:
                total = total - x * x
            if k == 2:
                tk.tile_store(out, x * y * y, offset=4)
        if n > 1:
            total = total * x
        tk.tile_store(out, total)

    check_gradient(sums, {"a": normal(4), "b": normal(4), "out": np.zeros(8), "n": n}, ("out",))


@pytest.mark.parametrize("n", [0, 1, 3, 5])
def test_branches_in_a_loop_that_carries_a_factor(n: int) -> None:
    check_gradient(branches, {"a": normal(4), "b": normal(4), "out": np.zeros(8), "n": n}, ("out",))


@tk.kernel
def views(a: tk.array2d[tk.float64], b: tk.array2d[tk.float64], out: tk.array2d[tk.float64]):
    x = tk.tile_load(a, shape=(3, 4), offset=(-1, 1))
    y = tk.tile_load(b, shape=(5, 4))
    product = tk.tile_matmul(x, tk.tile_transpose(y))
    tk.tile_transpose(product).assign(tk.tile_transpose(product).read())
    tk.tile_store(out, tk.tile_transpose(product * product), offset=(0, 1))


def test_transposed_operands_and_ragged_offsets() -> None:
    check_gradient(views, {"a": normal(4, 4), "b": normal(5, 4), "out": np.zeros((5, 5))}, ("out",))


@tk.kernel
def scaled(
    a: tk.array2d[tk.float64], b: tk.array2d[tk.float64], out: tk.array2d[tk.float64], s: tk.float64, t: tk.float64
):
    c = tk.tile_load(b, shape=(3, 3), offset=(0, 3))
    x = tk.tile_load(a, shape=(3, 3))
    y = tk.tile_load(b, shape=(3, 3))
    tk.tile_matmul(x, y, c, alpha=2.0, beta=-0.5)
    tk.tile_matmul(c, y, c * 1.0, beta=0.0)
    tk.tile_matmul(x, c, c * 1.0)
    d = c * x
    tk.tile_matmul(x, y, d, alpha=s, beta=t)
    tk.tile_store(out, d)


@pytest.mark.parametrize(("s", "t"), [(1.5, -2.0), (0.0, 1.0), (2.0, 0.0)])
def test_alpha_and_beta(s: float, t: float) -> None:
    check_gradient(scaled, {"a": normal(3, 3), "b": normal(3, 6), "out": np.zeros((3, 3)), "s": s, "t": t}, ("out",))


def test_beta_zero_cuts_what_the_output_held() -> None:
    @tk.kernel
    def cut(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
        held = tk.tile_load(a, shape=(2, 2))
        x = tk.tile_load(b, shape=(2, 2))
        tk.tile_matmul(x, x, held, beta=0.0)
        tk.tile_store(out, held)

    (launch,) = differentiate(
        traced(cut, dict.fromkeys("ab", np.zeros((2, 2), np.float32)) | {"out": np.zeros((2, 2), np.float32)})
    ).launches
    adds = [op for op in walk(launch.function.body) if op.builtin.name == "tile_atomic_add"]
    assert {launch.function.params["adj_b"]} == {op.operands["a"] for op in adds}


@tk.kernel
def two_outputs(a: tk.array1d[tk.float64], first: tk.array1d[tk.float64], second: tk.array1d[tk.float64]):
    x = tk.tile_load(a, shape=4)
    tk.tile_store(first, x * x)
    tk.tile_store(first, x * 2.0, offset=2)
    tk.tile_store(second, tk.tile_map(lambda v, w: v / (w * w + 1.0) - v, x, x + 1.0))


def test_two_outputs_and_stores_over_stores() -> None:
    check_gradient(two_outputs, {"a": normal(4), "first": np.zeros(6), "second": np.zeros(4)}, ("first", "second"))


@tk.kernel
def mapped(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    x = tk.tile_load(a, shape=6)
    y = tk.tile_map(lambda v: tk.where(v > 0.0, v * v, -v), x)
    tk.tile_store(out, tk.cast(tk.cast(y * y, float), tk.float64) * x + y)


def test_selection_and_casts() -> None:
    """Through float32 the values differ by a rounding; the derivative of the cast is one."""
    a = np.asarray([0.5, -0.25, 1.5, -2.0, 3.0, 0.125])

    def derivative(v: float) -> float:
        y, dy = (v * v, 2 * v) if v > 0 else (-v, -1.0)
        return 2 * y * dy * v + y * y + dy

    found = gradients(traced(mapped, {"a": a, "out": a}), {"a": a, "out": a.copy()}, {"out": np.ones(6)}, (1,))
    np.testing.assert_allclose(found["a"], list(map(derivative, a)), rtol=1e-6)


@tk.kernel
def half_precision(a: tk.array2d[tk.float16], b: tk.array2d[tk.bfloat16], out: tk.array2d[float]):
    acc = tk.tile_zeros(shape=(2, 2), dtype=float)
    tk.tile_matmul(tk.tile_load(a, shape=(2, 2)), tk.tile_load(b, shape=(2, 2)), acc)
    tk.tile_store(out, acc)


def test_gradients_of_16_bit_floats_are_float32() -> None:
    (launch,) = differentiate(half_precision.trace(half_precision.default_types(), LaunchForm())).launches
    params = launch.function.params
    assert [str(params[f"adj_{name}"].type) for name in ("a", "b", "out")] == ["array2d<f32>"] * 3


@tk.kernel
def run_time_scales(a: tk.array2d[tk.float64], s: tk.array1d[tk.float64], out: tk.array2d[tk.float64]):
    """alpha and beta are read from an array, and a scalar spreads over a tile."""
    scales = tk.tile_load(s, shape=3)
    x = tk.tile_load(a, shape=(3, 4))
    d = tk.tile_load(a, shape=(3, 3), offset=(0, 1))
    tk.tile_matmul(x, tk.tile_transpose(x), d, alpha=scales[0], beta=scales[1])
    tk.tile_store(out, d * scales[2] + tk.tile_full((3, 3), scales[0]))


def test_alpha_and_beta_from_an_array_have_gradients() -> None:
    for s in ([1.5, -2.0, 0.5], [0.0, 0.0, 1.0]):
        arguments = {"a": normal(3, 4), "s": np.asarray(s), "out": np.zeros((3, 3))}
        found = check_gradient(run_time_scales, arguments, ("out",))
        assert np.abs(found["s"][:2]).min() > 0


@tk.kernel
def ragged_scales(a: tk.array2d[tk.float64], s: tk.array1d[tk.float64], out: tk.array2d[tk.float64]):
    """Rows outside the array are infinite in ``d``, and are not stored."""
    i = tk.tid()
    x = tk.tile_load(a, shape=(4, 4), offset=(4 * i, 0))
    d = tk.log(x * x)
    tk.tile_matmul(x, x, d, alpha=s[0], beta=s[1])
    tk.tile_store(out, d, offset=(4 * i, 0))


def test_what_is_not_stored_has_no_part_in_the_gradients_of_alpha_and_beta() -> None:
    """A gradient of zero times an infinite number was not a number."""
    check_gradient(ragged_scales, {"a": normal(3, 4), "s": normal(2), "out": np.zeros((3, 4))}, ("out",))


@tk.kernel
def added_to(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    x = tk.tile_load(a, shape=4)
    tk.tile_store(out, x * x, offset=1)
    for k in range(n):
        tk.tile_atomic_add(out, tk.sin(x) * tk.tile_broadcast(tk.tile_sum(x), shape=4), offset=k)


def test_atomic_adds_onto_a_store() -> None:
    check_gradient(added_to, {"a": normal(4), "out": np.zeros(6), "n": 3}, ("out",))


def test_the_compiled_adjoint_gives_what_the_interpreted_one_gives() -> None:
    rng = np.random.default_rng(9)
    arguments = {"a": rng.standard_normal((6, 7)), "b": rng.standard_normal((7, 13)), "out": np.zeros((6, 13)), "n": 3}
    (launch,) = differentiate(traced(gemm, arguments)).launches
    library = Library([launch.function], ndim=2)
    seed = rng.standard_normal((6, 13))
    found = []
    for execute in (lambda data: run(launch.function, data, (2, 2)), lambda data: library.run(0, data, (2, 2))):
        grads = {"adj_a": np.zeros((6, 7)), "adj_b": np.zeros((7, 13)), "adj_out": seed.copy()}
        execute({**arguments, **grads})
        found.append(grads)
    for name in found[0]:
        np.testing.assert_allclose(found[1][name], found[0][name], rtol=1e-13, atol=1e-13)
        np.testing.assert_array_equal(found[1]["adj_out"], 0)


# What is refused.


def refused(kernel, names: str = "a out", **scalars) -> str:
    arguments = {name: np.zeros((4, 4)) for name in names.split()} | scalars
    with pytest.raises(KernelNotImplementedError) as caught:
        differentiate(traced(kernel, arguments))
    assert caught.value.location is not None
    return f"{caught.value.message} | {caught.value.location.source_line().strip()}"


@tk.kernel
def reads_and_writes(a: tk.array2d[tk.float64], n: int):
    x = tk.tile_load(a, shape=(4, 4))
    tk.tile_store(a, x * x)


@tk.kernel
def captures(a: tk.array2d[tk.float64], out: tk.array2d[tk.float64]):
    x = tk.tile_load(a, shape=(4, 4))
    index = tk.tile_broadcast(tk.tile_arange(4, dtype=int), (4, 4))
    y = tk.tile_map(lambda v, i: v * x[i, 0], x, index)
    tk.tile_store(out, y)


@tk.kernel
def needs_an_atomic(a: tk.array2d[tk.float64], out: tk.array2d[tk.float64], total: tk.array2d[tk.float64]):
    x = tk.tile_load(a, shape=(4, 4))
    old = tk.tile_atomic_add(total, tk.tile_ones(shape=(4, 4), dtype=tk.float64))
    tk.tile_store(out, x * old)


def test_what_no_rule_covers_is_refused() -> None:
    assert refused(captures) == (
        "cannot differentiate through 'tk.tile_map(lambda v, i: v * x[i, 0], x, index)': its function reads elements "
        "of a tile<4x4xf64> of the kernel around it; pass that as an argument, or load the elements from an array "
        "| y = tk.tile_map(lambda v, i: v * x[i, 0], x, index)"
    )
    assert "running that twice would change memory" in refused(needs_an_atomic, "a out total")


def test_what_would_be_wrong_is_refused() -> None:
    lines = re.findall("line ([0-9]+)", refused(reads_and_writes, "a", n=1))
    assert int(lines[1]) == int(lines[0]) + 1


def test_what_does_not_matter_is_not_refused() -> None:
    """Carried values whose gradient nothing needs may be anything."""

    @tk.kernel
    def indexed(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
        at = 0
        total = tk.tile_zeros(shape=2, dtype=tk.float64)
        for k in range(n):
            total += tk.tile_load(a, shape=2, offset=k)
            at = at * 3 + 1
        tk.tile_store(out, total * 2.0, offset=at % 2)

    check_gradient(indexed, {"a": normal(6), "out": np.zeros(3), "n": 4}, ("out",))
