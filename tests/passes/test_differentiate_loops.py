"""Gradients through loops whose carried values are no sums: kept at some iterations, computed again at the others."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.passes.finite_differences import check_gradient, traced
from tilekit.errors import KernelNotImplementedError
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.core import walk
from tilekit.passes.differentiate import differentiate
from tilekit.runtime.adjoint import launch_adjoint
from tilekit.runtime.reference import run_reference

RNG = np.random.default_rng(6)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def check(
    kernel: tk.Kernel, outputs: tuple[str, ...] = ("out",), grid: tuple[int, ...] = (1,), **arguments: Any
) -> Any:
    """Interpreted against finite differences, and compiled for the CPU against interpreted; the gradients."""
    found = check_gradient(kernel, arguments, outputs, grid)
    rng = np.random.default_rng(7)
    seeds = {name: rng.standard_normal(arguments[name].shape) for name in outputs}
    again = {name: seeds[name].copy() if name in seeds else np.zeros_like(value) for name, value in found.items()}
    launch_adjoint(kernel, grid, list(arguments.values()), again, device="cpu")
    for name, value in again.items():
        np.testing.assert_allclose(value, found[name], rtol=1e-11, atol=1e-11, err_msg=name)
    return found


def kept(kernel: tk.Kernel, **arguments: Any) -> dict[str, str]:
    """The scratch arrays of a kernel's adjoint."""
    return {name: str(scratch) for name, scratch in differentiate(traced(kernel, arguments)).scratch.items()}


@tk.kernel
def recurrence(x: tk.array2d[tk.float64], w: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    state = tk.tile_load(x, shape=(3, 4))
    weights = tk.tile_load(w, shape=(4, 4))
    for k in range(n):
        state = tk.tanh(tk.tile_matmul(state, weights) + tk.tile_load(x, shape=(3, 4), offset=(k, 0)))
    tk.tile_store(out, state)


FEW = [(0, 4), (1, 4), (5, 4), (40, 4)]
MORE = [(2, 4), (7, 1), (20, 32)]


@pytest.mark.parametrize(("n", "checkpoints"), [*FEW, *(pytest.param(*each, marks=pytest.mark.deep) for each in MORE)])
def test_a_recurrence_of_any_length_in_bounded_memory(n: int, checkpoints: int) -> None:
    """Also with more than ``checkpoints ** 2`` iterations."""
    with tk.config.scoped(checkpoints=checkpoints):
        arguments = {"x": normal(max(n, 3), 4), "w": normal(4, 4) * 0.3, "out": np.zeros((3, 4)), "n": n}
        check(recurrence, **arguments)
        found = kept(recurrence, **arguments)
    slots = f"min(max(len(range(0, n, 1)) - 1, 1), {checkpoints})"
    assert found == {
        "kept": f"scratch array2d<i64> of (dim[0], {slots})",
        "kept_state": f"scratch array4d<f64> of (dim[0], {slots}, 3, 4)",
    }


def test_an_iteration_runs_again_only_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 iterations in 4 slots: binomial(4 + 3, 3) is 35 and binomial(4 + 4, 4) is 70, so about 4 times each."""
    rule, names = REGISTRY["tile_matmul"]._rules["reference"]
    calls = []

    def counted(**given: Any) -> Any:
        calls.append(1)
        return rule(**given)

    arguments = {"x": normal(60, 4), "w": normal(4, 4) * 0.3, "out": np.zeros((3, 4)), "n": 60}
    with tk.config.scoped(checkpoints=4):
        program = differentiate(traced(recurrence, arguments))
    gradients = {fresh: np.zeros_like(arguments[name]) for name, fresh in program.gradients.items()}
    monkeypatch.setitem(REGISTRY["tile_matmul"]._rules, "reference", (counted, names))
    run_reference(program, 1, {**arguments, **gradients})
    assert 60 * 3 < len(calls) < 60 * (3 + 4)  # each is reversed with three products


def test_explain_says_what_each_block_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    """32 tiles of 3 x 4 numbers of 8 bytes, and the numbers of their iterations."""
    tk.explain(recurrence, device="cpu", adjoint=True)
    printed = capsys.readouterr().out
    assert "  kept_state: scratch array4d<f64> of (dim[0], min(max(len(range(0, n, 1)) - 1, 1), 32), 3, 4)\n" in printed
    assert f"  kept of loops: {32 * (3 * 4 * 8 + 8)} bytes of each block\n" in printed


@tk.kernel
def square(a: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    x = tk.tile_load(a, shape=(8, 8))
    for _ in range(n):
        t = tk.tile_matmul(x, x)
        x = t
    tk.tile_store(out, x)


@tk.kernel
def square_rolled(a: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    x = tk.tile_load(a, shape=(8, 8))
    for _ in range(17):
        t = tk.tile_matmul(x, x) * 0.5 + x * 0.5
        x = t
    tk.tile_store(out, x)


@tk.kernel
def in_place(a: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    x = tk.tile_load(a, shape=(8, 8))
    w = x * 0.5
    for _ in range(n):
        tk.tile_matmul(x * x, w, x, alpha=0.5, beta=0.5)
    tk.tile_store(out, x)


def test_a_tile_that_is_reused_in_a_loop() -> None:
    check(in_place, a=normal(8, 8) * 0.5, out=np.zeros((8, 8)), n=4)
    check(square, a=normal(8, 8) * 0.5, out=np.zeros((8, 8)), n=3)
    arguments = {"a": normal(8, 8) * 0.1, "out": np.zeros((8, 8)), "n": 0}
    check(square_rolled, **arguments)
    assert kept(square_rolled, **arguments)["kept"] == "scratch array2d<i64> of (dim[0], 16)"


@tk.kernel
def product(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    x = tk.tile_load(a, shape=3)
    p = tk.float64(1.0)
    for k in range(n):
        p *= x[k]
    out_tile = tk.tile_full(1, p)
    tk.tile_store(out, out_tile)


def test_a_product_of_all_elements() -> None:
    found = check(product, a=np.full(3, 2.0), out=np.zeros(1), n=3)
    seed = np.random.default_rng(7).standard_normal(1)
    np.testing.assert_allclose(found["a"], 4 * seed * np.ones(3))


@tk.kernel
def softmax_rows(x: tk.array2d[tk.float64], v: tk.array2d[tk.float64], out: tk.array2d[tk.float64], n: int):
    """Softmax over all columns times values, in one pass, with a running maximum by selection."""
    i = tk.tid()
    m = tk.tile_full((2, 1), -1e30, tk.float64)
    total = tk.tile_zeros(shape=(2, 1), dtype=tk.float64)
    acc = tk.tile_zeros(shape=(2, 3), dtype=tk.float64)
    for k in range(n):
        s = tk.tile_load(x, shape=(2, 1), offset=(i * 2, k))
        above = tk.where(s > m, s, m)
        scale = tk.exp(m - above)
        p = tk.exp(s - above)
        total = total * scale + p
        row = tk.tile_load(v, shape=(1, 3), offset=(k, 0))
        acc = acc * tk.tile_broadcast(scale, shape=(2, 3)) + tk.tile_matmul(p, row)
        m = above
    tk.tile_store(out, acc / tk.tile_broadcast(total, shape=(2, 3)), offset=(i * 2, 0))


def test_softmax_in_one_pass_in_several_blocks() -> None:
    check(softmax_rows, grid=(2,), x=normal(4, 9), v=normal(9, 3), out=np.zeros((4, 3)), n=9)


@tk.kernel
def nested(a: tk.array2d[tk.float64], out: tk.array1d[tk.float64], n: int, m: int):
    x = tk.tile_load(a[0], shape=4)
    total = tk.tile_zeros(shape=4, dtype=tk.float64)
    for i in range(n):
        y = x
        for j in range(1, 1 + m * 2, 2):
            y = tk.sin(y * 1.5 + tk.tile_load(a[i], shape=4, offset=j % 3))
            total += y * x
        x = y * x + x
    tk.tile_store(out, x + total)


@pytest.mark.parametrize(("n", "m"), [(0, 2), (3, 0), (3, 7)])
def test_loops_in_loops(n: int, m: int) -> None:
    with tk.config.scoped(checkpoints=2):
        check(nested, a=normal(4, 4), out=np.zeros(4), n=n, m=m)


@tk.kernel
def stepped(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], start: int, stop: int, step: int):
    """A step that is known at run time: a sum, and a product."""
    x = tk.tile_load(a, shape=8)
    total = tk.float64(0.0)
    p = tk.float64(1.0)
    for k in range(start, stop, step):
        total += x[k] * x[k]
    for k in range(start, stop, step):
        p = p * x[k] + x[0]
    tk.tile_store(out, tk.tile_full(1, total) * p)


@pytest.mark.parametrize("bounds", [(0, 8, 3), (7, -1, -2), (0, 8, -1)])
def test_steps_that_are_known_at_run_time(bounds: tuple[int, int, int]) -> None:
    start, stop, step = bounds
    check(stepped, a=normal(8), out=np.zeros(1), start=start, stop=stop, step=step)


@tk.kernel
def until(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], limit: tk.float64, n: int):
    """``while``, ``break``, ``continue`` and an early return, by what arrays hold."""
    x = tk.tile_load(a, shape=8)
    p = tk.float64(1.0)
    k = 0
    while p < limit and k < n:
        k += 1
        if x[k % 8] < 0.0:
            continue
        p = p * (1.0 + x[k % 8])
        if p > 50.0:
            break
    total = tk.float64(0.0)
    for j in range(n):
        if j > k:
            break
        total += p * x[j % 8]
    tk.tile_store(out, tk.tile_full(2, total))
    if total > 1000.0:
        return
    tk.tile_store(out, tk.tile_full(1, total * p), offset=2)


@pytest.mark.parametrize(("limit", "n"), [(3.0, 100), (1e9, 100), (1e9, 3), (0.0, 5), (1e9, 0)])
def test_while_break_continue_and_return(limit: float, n: int) -> None:
    a = np.asarray([0.3, -0.5, 0.7, 0.25, -0.1, 0.9, 0.4, 0.15])
    with tk.config.scoped(checkpoints=3):
        check(until, a=a, out=np.zeros(3), limit=limit, n=n)


@tk.kernel
def countdown(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    x = tk.tile_load(a, shape=4)
    total = x * 0.0
    while n > 0:
        total += x * x
        n -= 1
    tk.tile_store(out, total)


def test_a_sum_in_a_while_loop_keeps_nothing() -> None:
    arguments = {"a": normal(4), "out": np.zeros(4), "n": 5}
    check(countdown, **arguments)
    assert kept(countdown, **arguments) == {}


@tk.kernel
def mixed(a: tk.array2d[tk.float64], h: tk.array1d[tk.float64], out: tk.array2d[tk.float64], n: int):
    """Tiles of several shapes and dtypes, numbers, flags and indices are carried."""
    cube = tk.tile_reshape(tk.tile_load(a, shape=(2, 4)), (2, 2, 2))
    half = tk.tile_astype(tk.tile_load(h, shape=4), float)
    s = tk.float64(0.5)
    at = 0
    up = True
    for _ in range(n):
        row = tk.tile_load(a, shape=(1, 4), offset=(at, 0))
        s = s * tk.tile_sum(row)[0] + 0.5
        cube = cube * s + tk.tile_reshape(tk.tile_load(a, shape=(2, 4), offset=(at, 0)), (2, 2, 2))
        half = half * half + 0.25
        at = (at * 2 + 1) % 3
        if up:
            cube = cube * cube
        up = not up
    total = tk.tile_reshape(cube, (2, 4))
    tk.tile_store(out, total * tk.float64(tk.tile_sum(half)[0]))


def test_carries_of_many_types() -> None:
    check(mixed, a=normal(4, 4) * 0.5, h=np.zeros(4), out=np.zeros((2, 4)), n=5)


def powers(v, n):
    x = v
    for _ in range(n):
        x = tk.sin(x) * v
    return x


@tk.kernel
def mapped(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    tk.tile_store(out, tk.tile_map(powers, tk.tile_load(a, shape=5), n))


def test_a_loop_in_a_mapped_function() -> None:
    arguments = {"a": normal(5), "out": np.zeros(5), "n": 4}
    check(mapped, **arguments)
    assert kept(mapped, **arguments) == {}


@tk.kernel
def halves(x: tk.array2d[tk.bfloat16], w: tk.array2d[tk.bfloat16], out: tk.array2d[tk.bfloat16], n: int):
    """A recurrent layer in bfloat16; one of its terms and that term's gradient cancel."""
    state = tk.tile_load(x, shape=(4, 4))
    weights = tk.tile_load(w, shape=(4, 4))
    for _ in range(n):
        acc = tk.tile_zeros(shape=(4, 4), dtype=float)
        tk.tile_matmul(state, weights, acc)
        state = tk.tile_astype(tk.tanh(acc) + (acc - acc), tk.bfloat16)
    tk.tile_store(out, state)


def test_a_recurrence_in_bfloat16() -> None:
    """Within the rounding of bfloat16 of the same kernel in float64; states are kept as they are, in 16 bits."""
    x, w = (normal(4, 4).astype(ml_dtypes.bfloat16) for _ in range(2))
    seed, n = np.ones((4, 4), ml_dtypes.bfloat16), 5
    found = {"x": np.zeros_like(x), "w": np.zeros_like(w), "out": seed.copy()}
    launch_adjoint(halves, 1, [x, w, np.zeros_like(x), n], found, device="cpu")
    states = [x.astype(float)]
    for _ in range(n):
        states.append(np.tanh(states[-1] @ w.astype(float)))
    grad, weights = np.ones((4, 4)), np.zeros((4, 4))
    for before, after in zip(states[-2::-1], states[:0:-1], strict=True):
        inner = grad * (1 - after**2)
        weights, grad = weights + before.T @ inner, inner @ w.astype(float).T
    np.testing.assert_allclose(found["x"].astype(float), grad, atol=0.05 * np.abs(grad).max())
    np.testing.assert_allclose(found["w"].astype(float), weights, atol=0.05 * np.abs(weights).max())
    assert not found["out"].astype(float).any()


@tk.kernel
def asks_an_atomic(a: tk.array1d[tk.float64], seen: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    x = tk.tile_load(a, shape=4)
    y = x
    for _ in range(n):
        old = tk.tile_atomic_add(seen, tk.tile_ones(shape=4, dtype=tk.float64))
        x = x * y + old
        y = y * 2.0
    tk.tile_store(out, y)
    tk.tile_store(out, x, offset=4)


@tk.kernel
def counts_as_well(a: tk.array1d[tk.float64], seen: tk.array1d[tk.float64], out: tk.array1d[tk.float64], n: int):
    y = tk.tile_load(a, shape=4)
    for _ in range(n):
        tk.tile_atomic_add(seen, tk.tile_ones(shape=4, dtype=tk.float64))
        tk.tile_store(out, y * y, offset=4)
        y = y * y + 0.5
    tk.tile_store(out, y)


def test_what_runs_again_repeats_no_effect() -> None:
    arguments = {"a": normal(4) * 0.3, "seen": np.zeros(4), "out": np.zeros(8), "n": 3}
    check(counts_as_well, outputs=("out", "seen"), **arguments)
    ops = [
        op for launch in differentiate(traced(counts_as_well, arguments)).launches for op in walk(launch.function.body)
    ]
    added = [op for op in ops if op.builtin.name == "tile_atomic_add"]
    assert len(added) == 1  # to the gradient of a


@tk.kernel
def counted_by_all(a: tk.array1d[tk.float64], seen: tk.array1d[tk.int32], out: tk.array1d[tk.float64]):
    x = tk.tile_load(a, shape=4)
    total = x * x
    while tk.atomic_add(seen, 0, 1) < 3:
        total += x
    tk.tile_store(out, total)


def test_iterations_that_cannot_be_counted_again() -> None:
    with pytest.raises(KernelNotImplementedError) as caught:
        differentiate(traced(counted_by_all, {"a": normal(4), "seen": np.zeros(1, np.int32), "out": np.zeros(4)}))
    assert caught.value.message == (
        "cannot differentiate this loop: whether it goes on depends on the result of 'tk.atomic_add(seen, 0, 1)', and "
        "running that twice would change memory; read it from an array that an earlier "
        "launch has written, or have it computed otherwise by @tk.func_replay"
    )


def test_the_result_of_an_atomic_is_not_to_be_had_again() -> None:
    arguments = {"a": normal(4), "seen": np.zeros(4), "out": np.zeros(8), "n": 3}
    with pytest.raises(KernelNotImplementedError) as caught:
        differentiate(traced(asks_an_atomic, arguments))
    assert caught.value.message == (
        "cannot differentiate this loop: the gradient needs 'x', which the loop carries; it depends on the result of "
        "tile_atomic_add(), and running that twice would change memory; read it from an array that an earlier "
        "launch has written, or have it computed otherwise by @tk.func_replay"
    )
    assert caught.value.location is not None
    assert caught.value.location.source_line().strip() == "for _ in range(n):"
