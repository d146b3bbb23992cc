"""Indices that wrap around: points whose elements then meet are no owners of them, and such a launch is an error."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.passes import own_kernels
from tests.passes.own_kernels import LANES, vector
from tests.passes.test_own_gradients import adjoint, scattered, seeded
from tilekit.errors import KernelValueError
from tilekit.ir.program import Limit, Program
from tilekit.ir.sizes import Difference, Dim, Scalar, Trips
from tilekit.passes.wraparound import Move, tightest
from tilekit.runtime.adjoint import launch_adjoint
from tilekit.runtime.reference import run_function

Vector = tk.array1d[float]
BITS = 6
DEVICES = ["cpu", "interpret"]


def meet(move: Move, one: int, other: int) -> bool:
    """Whether two counts touch an element together."""
    first, second = (
        {(move.step * count + place) % 2**move.bits for place in range(move.reach)} for count in (one, other)
    )
    return not first.isdisjoint(second)


def test_so_many_counts_touch_elements_of_their_own() -> None:
    """Every move of few bits; where the step is a multiple of the elements' number, one more count meets another."""
    for step in (*range(-70, 0), *range(1, 71)):
        for reach in range(1, min(abs(step), 2**BITS) + 1):
            move = Move("i", step, reach, BITS)
            assert not any(meet(move, *pair) for pair in combinations(range(move.most), 2)), move
            assert move.may_hold(Dim(0)) == (move.most > 1)
            if 2**BITS % abs(step) == 0:
                assert any(meet(move, count, move.most) for count in range(move.most)), move


def test_one_limit_for_each_size_is_enough() -> None:
    limits = [Limit(Dim(0), 9, "a", ""), Limit(Dim(1), 5, "a", ""), Limit(Dim(0), 7, "b", "")]
    assert tightest(limits) == (limits[2], limits[1])


@tk.kernel(deterministic=True)
def far(x: Vector, y: Vector, n: int):
    """Every fourth point comes back to the first element."""
    i = tk.tid()
    h = i * 1073741824
    if 0 <= h and h < n:
        y[i] = x[h] * x[h]


@tk.kernel(deterministic=True)
def far_in_64(x: Vector, y: Vector, n: int):
    i = tk.int64(tk.tid())
    h = i * tk.int64(1073741824)
    if h < tk.int64(n):
        y[i] = x[h] * x[h]


@tk.kernel(deterministic=True)
def widened_late(x: Vector, y: Vector, n: int):
    """It wraps around before it is cast."""
    i = tk.tid()
    h = tk.int64(i * 1073741824)
    if tk.int64(0) <= h and h < tk.int64(n):
        y[i] = x[h + tk.int64(0)] * x[h]


@tk.kernel(deterministic=True)
def in_rows(x: tk.array2d[float], y: tk.array2d[float]):
    """The second axis would tell the columns apart for fewer of them than the first."""
    i, j = tk.tid()
    y[i, j] = x[i * 48, 1024 * j] * x[48 * i + 16, 1024 * j + 512]


@tk.kernel
def tiles(x: Vector, y: Vector):
    i = tk.tid()
    tk.tile_store(y, tk.tile_load(x, 65536, 65536 * i) * 2.0, 4 * i)


@tk.kernel
def tiles_in_64(x: Vector, y: Vector):
    i = tk.tid()
    tk.tile_store(y, tk.tile_load(x, 4, tk.int64(i) * tk.int64(4)) * 2.0, tk.int64(4) * tk.int64(i))


@tk.kernel
def loop(x: Vector, y: Vector, n: int):
    acc = tk.tile_zeros(shape=65536, dtype=float)
    for k in range(n):
        acc += tk.tile_load(x, 65536, 65536 * k)
    tk.tile_store(y, acc)


@tk.kernel
def stores(x: Vector, y: Vector, n: int):
    """The fifth iteration overwrites what the first one has stored."""
    for k in range(n):
        tk.tile_store(y, tk.tile_load(x, 4, 4 * k) * 2.0, 1073741824 * k)


def limits(program: Program) -> dict[Any, int]:
    return {limit.size: limit.most for limit in program.limits}


REVERSED = Trips(Difference(Scalar("n"), 1), -1, -1)
LIMITS: dict[str, tuple[Any, tuple[int, ...], list[Any], bool, dict[Any, int]]] = {
    "far": (far, (4,), [vector(3), vector(4), 3], False, {Dim(0): 4}),
    "far in 64 bits": (far_in_64, (9,), [vector(3), vector(9), 3], False, {}),
    "widened late": (widened_late, (4,), [vector(3), vector(4), 3], False, {Dim(0): 4}),
    "in rows": (in_rows, (2, 2), [np.ones((65, 1537), np.float32), np.ones((2, 2), np.float32)], False,
                {Dim(0): (2**32 - 17) // 48 + 1, Dim(1): (2**32 - 513) // 1024 + 1}),
    "tiles": (tiles, (1,), [vector(65536), vector(65536)], True, {Dim(0): 65536}),
    "tiles in 64 bits": (tiles_in_64, (3,), [vector(12), vector(12)], True, {}),
    "loop": (loop, (1,), [vector(70000), vector(65536), 2], True, {REVERSED: 65536}),
    "stores": (stores, (1,), [vector(16), vector(4), 4], True, {REVERSED: 4}),
    "steps of one": (own_kernels.square, (7,), [vector(7), vector(7)], False, {}),
    "steps of two": (own_kernels.wide, (7,), [vector(14), vector(7)], False, {}),
    "lanes": (own_kernels.lanes, (3,), [vector(24), vector(24)], True, {Dim(0): 2**32 // LANES}),
}  # fmt: skip
"""The grid, the arguments, whether it is one of blocks, and the sizes up to which the gradient is right."""


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("device", DEVICES)
def test_up_to_there_gradients_are_those_of_atomics(name: str, device: str) -> None:
    kernel, dim, given, tiled, wanted = LIMITS[name]
    program = adjoint(kernel, dim, given, tiled)
    assert all(summed.form != "scattered" for summed in program.sums), program
    assert limits(program) == wanted
    assert program.is_kernel == (not wanted and len(program.launches) == 1 and not program.computed)
    exact, found = scattered(kernel, dim, given, tiled), seeded(kernel, given)
    launch_adjoint(kernel, dim, given, found, device=device, block_dim=LANES, tiled=tiled)
    for each in found:
        np.testing.assert_array_equal(found[each], exact[each], err_msg=each)


BEYOND: dict[str, tuple[Any, tuple[int, ...], list[Any], bool]] = {
    "far": (far, (5,), [vector(3), vector(5), 3], False),
    "widened late": (widened_late, (9,), [vector(3), vector(9), 3], False),
    "tiles": (tiles, (65537,), [vector(4), vector(4)], True),
    "loop": (loop, (1,), [vector(4), vector(4), 65537], True),
    "stores": (stores, (1,), [vector(20), vector(4), 5], True),
}


@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.parametrize("device", DEVICES)
def test_beyond_it_is_an_error_and_nothing_is_added(name: str, device: str) -> None:
    kernel, dim, given, tiled = BEYOND[name]
    found = {"x": np.zeros_like(given[0]), "y": np.ones_like(given[1])}
    with pytest.raises(KernelValueError, match="wraps around, as ") as error:
        launch_adjoint(kernel, dim, given, found, device=device, block_dim=LANES, tiled=tiled)
    assert "test_wraparound.py" in str(error.value)
    assert not found["x"].any() and found["y"].all()


def test_recorded_launches_keep_to_the_limit() -> None:
    x, found, seed = vector(20), np.zeros(20, np.float32), np.ones(4, np.float32)
    how: dict[str, Any] = {"adj_inputs": [found], "adj_outputs": [seed, None], "adjoint": True, "record_cmd": True}
    command = tk.launch_tiled(stores, dim=1, inputs=[x], outputs=[np.zeros(4, np.float32), 4], **how)
    for _ in range(3):
        command.launch()
    command.set_param_at_index(2, 5)
    with pytest.raises(KernelValueError, match="is 5, but beyond 4 the index, of 32 bits, wraps around"):
        command.launch()
    other = tk.launch(far, dim=4, inputs=[x], outputs=[np.zeros(4, np.float32), 3], **how)
    for _ in range(3):
        other.launch()
    other.set_dim(5)
    with pytest.raises(KernelValueError, match=r"dim\[0\] is 5, but beyond 4 "):
        other.launch()


def test_tapes_keep_to_the_limit() -> None:
    x, y = vector(3), np.zeros(9, np.float32)
    with tk.Tape() as tape:
        tk.launch(far, dim=9, inputs=[x], outputs=[y, 3])
    with pytest.raises(KernelValueError, match=r"dim\[0\] is 9, but beyond 4 "):
        tape.backward(grads=[(y, np.ones_like(y))])


@tk.kernel
def far_lanes(x: tk.array2d[float], y: Vector, n: int):
    i, lane = tk.tid()
    h = lane * 1073741824
    if 0 <= h and h < n:
        y[8 * i + lane] = x[i, h] * x[i, h]


@tk.kernel
def far_points(x: Vector, y: Vector, n: int):
    i = tk.tid()
    h = i * 65536 * 65536
    if h < n:
        y[i] = x[h] * x[h]


@pytest.mark.parametrize(("kernel", "tiled"), [(far_lanes, True), (far_points, False)])
@pytest.mark.parametrize("device", DEVICES)
def test_what_surely_wraps_around_is_scattered(kernel: Any, tiled: bool, device: str) -> None:
    given = [vector(3).reshape(1, 3) if tiled else vector(3), vector(8), 3]
    dim = (1,) if tiled else (8,)
    (summed,) = adjoint(kernel, dim, given, tiled).sums
    assert summed.form == "scattered" and "wraps around" in summed.how
    exact, found = scattered(kernel, dim, given, tiled), seeded(kernel, given)
    launch_adjoint(kernel, dim, given, found, device=device, block_dim=LANES, tiled=tiled)
    np.testing.assert_array_equal(found["x"], exact["x"])


@tk.kernel
def bases(x: Vector, y: Vector, n: int):
    """The same formula in 32 and 64 bits: the first one wraps around."""
    i = tk.tid()
    one = tk.tile_load(x, 4, 4 * i + (n * 1048576) // 1048576)
    other = tk.tile_load(x, 4, tk.int64(4 * i) + (tk.int64(n) * tk.int64(1048576)) // tk.int64(1048576))
    tk.tile_store(y, one + 3.0 * other, 4 * i)


@pytest.mark.parametrize("device", DEVICES)
def test_where_tiles_lie_is_what_the_kernel_computes(device: str) -> None:
    found, seed = np.zeros(4100, np.float32), np.ones(4, np.float32)
    launch_adjoint(bases, 1, [vector(4100), vector(4), 4096], {"x": found, "y": seed}, device=device)
    np.testing.assert_array_equal(found[np.r_[:8, 4092:4100]], [*[1] * 4, *[0] * 8, *[3] * 4])


@tk.kernel
def cut_off(x: Vector, y: Vector, n: tk.int64):
    """Of the number of iterations an int32 keeps 2."""
    acc = tk.tile_zeros(shape=4, dtype=float)
    for k in range(tk.int32(n)):
        acc += tk.tile_load(x, 4, 4 * k)
    tk.tile_store(y, acc)


@pytest.mark.parametrize("device", DEVICES)
def test_how_many_tiles_there_are_is_what_the_kernel_computes(device: str) -> None:
    found, seed = np.zeros(16, np.float32), np.ones(4, np.float32)
    launch_adjoint(cut_off, 1, [vector(16), vector(4), 2 - 2**32], {"x": found, "y": seed}, device=device)
    np.testing.assert_array_equal(found, [*[1] * 8, *[0] * 8])


@tk.kernel
def product(a: tk.array2d[float], b: tk.array2d[float], y: tk.array2d[float], n: int):
    acc = tk.tile_zeros(shape=(8, 8), dtype=float)
    for k in range(n):
        acc += tk.tile_load(a, (8, 2), (0, 2 * k)) @ tk.tile_load(b, (2, 8), (2 * k, 0))
    tk.tile_store(y, acc)


def test_where_the_last_of_several_tiles_ends_does_not_wrap_around() -> None:
    """The first block of very many, which sums four tiles of two rows side by side: the last ends at row 2**31."""
    a, b, y = (np.ones(shape, np.float32) for shape in ((8, 16), (16, 8), (8, 8)))
    program = adjoint(product, (1,), [a, b, y, 3], True)
    gathering = next(launch.function for launch in program.launches if "adj_b" in launch.function.params)
    (count,) = program.computed
    given = {"a": a, "n": 0, "adj_b": np.zeros_like(b), "adj_y": y, count: np.int32(2**30)}
    run_function(gathering, {name: given[name] for name in gathering.params}, (1, 1), LANES, True)
    np.testing.assert_array_equal(given["adj_b"][:, 0], [*[8] * 8, *[0] * 8])
