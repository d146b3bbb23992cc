"""Gradients of kernels whose blocks have lanes: numbers that lanes share, and numbers of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import LaunchForm
from tilekit.ir.types import ArrayType, float64
from tilekit.runtime.adjoint import adjoint_of, launch_adjoint
from tilekit.runtime.reference import run_reference

STEP = 1e-6
A1, A2 = tk.array1d[tk.float64], tk.array2d[tk.float64]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape)


def check(
    kernel: tk.Kernel, dim: Any, arguments: dict[str, Any], lanes: int = 8, tiled: bool = True, checkpoints: int = 2
) -> dict[str, Any]:
    """On the interpreter and the CPU, against central differences of what the interpreter gives for ``out``."""
    rng = np.random.default_rng(7)
    seed = rng.standard_normal(arguments["out"].shape)
    inputs = [n for n, v in arguments.items() if isinstance(v, np.ndarray) and v.dtype.kind == "f" and n != "out"]

    def loss(name: str, change: Any) -> float:
        given = {**arguments, name: arguments[name] + change, "out": np.zeros_like(arguments["out"])}
        run_reference(kernel, dim, given, lanes, tiled)
        return float(np.sum(seed * given["out"]))

    for device in ("interpret", "cpu"):
        found = {name: np.zeros_like(arguments[name]) for name in inputs} | {"out": seed.copy()}
        with tk.config.scoped(checkpoints=checkpoints):
            launch_adjoint(kernel, dim, list(arguments.values()), found, device=device, block_dim=lanes, tiled=tiled)
        for name in inputs:
            direction = rng.standard_normal(arguments[name].shape)
            numeric = (loss(name, STEP * direction) - loss(name, -STEP * direction)) / (2 * STEP)
            exact = float(np.sum(found[name] * direction))
            np.testing.assert_allclose(exact, numeric, rtol=1e-6, atol=1e-7, err_msg=f"{name} on {device}")
    return found


@tk.kernel
def dot(a: A1, b: A1, out: A1):
    i, lane = tk.tid()
    s = tk.tile_sum(tk.tile_load(a, shape=16) * tk.tile_load(b, shape=16))
    if lane == 0:
        out[i] = s[0]


def test_one_lane_stores_what_all_have_summed() -> None:
    a, b = normal(16), normal(16)[::-1].copy()
    found = check(dot, 1, {"a": a, "b": b, "out": np.zeros(1)}, lanes=64)
    seed = np.random.default_rng(7).standard_normal(1)
    np.testing.assert_allclose(found["a"], seed * b)


@tk.kernel
def shares(a: A1, out: A1):
    _, lane = tk.tid()
    t = tk.tile_load(a, shape=8)
    s = a[0] * tk.tile_sum(t)[0]
    mine = tk.float64(lane) * s * t[lane] + t[0]
    if lane < 4:
        mine = mine * t[7 - lane] * s
        t[lane] = mine * a[lane + 1]
    if lane == 3:
        t[5] = mine * s
    out[lane] = mine
    out[8] = s * t[1]
    tk.atomic_add(out, 9, s)
    t[2] = s
    t[3] += s
    tk.tile_store(out, t * s, offset=10)
    tk.tile_store(out, tk.tile(mine * tk.untile(t)), offset=18)


def test_what_lanes_share_and_what_each_has() -> None:
    check(shares, 1, {"a": normal(16), "out": np.zeros(26)})


@tk.kernel
def loops(a: A1, out: A1, n: int):
    """Numbers of lanes in loops with tile operations, in loops without, and in loops of their own length."""
    _, lane = tk.tid()
    t = tk.tile_load(a, shape=8)
    p = t[lane]
    s = a[0]
    for k in range(n):
        total = tk.tile_sum(tk.tile(p))[0]
        s = s * 0.5 + total * s
        p = tk.sin(p) * total + s * t[k % 8]
    q = p
    for k in range(n):
        q = q * t[(lane + k) % 8] + s
    r = q
    for k in range(lane % 4):
        r = tk.sin(r) * t[k] + s
    out[lane] = p + q * r
    tk.tile_store(out, tk.tile(r * s), offset=8)


@pytest.mark.parametrize("n", [0, 5])
def test_loops_over_numbers_of_lanes(n: int) -> None:
    check(loops, 1, {"a": normal(8) * 0.5, "out": np.zeros(16), "n": n})


@tk.kernel
def points(a: A2, out: A2, n: int):
    i, j = tk.tid()
    p = tk.float64(1.0)
    k = 0
    while k < n:
        p = p * a[i, k] + a[k, j]
        k += 1 + i % 2
    out[i, j] = p


def test_points_of_a_launch() -> None:
    check(points, (3, 4), {"a": normal(4, 5), "out": np.zeros((3, 4)), "n": 4}, tiled=False)


@tk.kernel
def points_together(a: A1, out: A1, n: int):
    i = tk.tid()
    x = a[i]
    for _ in range(n):
        t = tk.tile(x)
        x = tk.sin(x) * tk.tile_sum(t * t)[0]
    out[i] = x


def test_points_of_a_launch_that_work_together() -> None:
    """The last block lacks some of its lanes."""
    check(points_together, 13, {"a": normal(13) * 0.3, "out": np.zeros(13), "n": 3}, tiled=False)


@tk.kernel
def lane_tile(a: A1, out: A1):
    _, lane = tk.tid()
    t = tk.tile_load(a, shape=8)
    for k in range(lane):
        t[lane] = t[lane] * t[lane] + tk.float64(k)
    tk.tile_store(out, t)


def test_a_tile_that_lanes_update_in_loops_of_their_own_length_is_refused() -> None:
    with pytest.raises(KernelNotImplementedError, match="needs the tile 't' as it was in every iteration, but"):
        check(lane_tile, 1, {"a": normal(8), "out": np.zeros(8)})


@tk.kernel
def lanes_and_tiles(a: A1, out: A1, n: int):
    i, lane = tk.tid()
    t = tk.tile_load(a, shape=8, offset=i)
    u = t * 0.0
    w = t * 2.0
    x = a[lane] * a[i]
    for k in range(n):
        u[lane] += x * w[k % 8]
        if k % 2 == 0:
            s = tk.tile_sum(tk.tile(x * t[lane]))[0]
            x = x * 0.5 + s * w[1]
        else:
            t[lane] = x * u[lane]
        x = tk.sin(x)
    tk.tile_store(out, u * t, offset=i * 8)
    tk.atomic_add(out, lane + 16, x)


@tk.kernel
def planes(a: A2, out: A2, n: int):
    i, j = tk.tid()
    s = a[i, 0]
    x = s * a[i, j]
    for k in range(n):
        total = tk.tile_sum(tk.tile(x))
        s = s + total[0] * 0.1 * a[k % 2, 1]
        x = x * s + tk.untile(tk.tile(x) * total[0])
    out[i, j] = x * s


@tk.kernel
def until_large(a: A1, out: A1):
    _, lane = tk.tid()
    t = tk.tile_load(a, shape=8)
    if t[0] > -100.0:
        t[3] = t[0] * t[1]
        y = tk.tile(t[lane] * t[2])
        t = t * y
    p = t[lane]
    while p < 4.0 and p > -4.0:
        p = p * 1.7 + t[lane] * t[3]
    out[lane] = p


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kernel", "dim", "arguments", "tiled"),
    [
        (lanes_and_tiles, 2, {"a": normal(10) * 0.6, "out": np.zeros(24), "n": 4}, True),
        (planes, (2, 8), {"a": normal(2, 8) * 0.5, "out": np.zeros((2, 8)), "n": 3}, False),
        (until_large, 1, {"a": np.abs(normal(8)) * 0.7 + 0.3, "out": np.zeros(8)}, True),
    ],
)
def test_tiles_and_numbers_of_lanes_together(kernel: tk.Kernel, dim: Any, arguments: Any, tiled: bool) -> None:
    check(kernel, dim, arguments, tiled=tiled)


def test_an_adjoint_has_lanes_although_nothing_in_it_shows_them() -> None:
    form = LaunchForm(True, 1, 64)
    fn = dot.trace(dict.fromkeys(("a", "b", "out"), ArrayType(float64, 1)), form)
    (launch, *_) = adjoint_of(fn, form=form)[0].launches
    assert str(launch.function).partition("\n")[0].endswith(") with lanes {")
    assert launch.function.options == fn.options
