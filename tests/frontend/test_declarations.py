"""Annotations of ``@tk.func`` and ``@wp.func`` hold: arguments and results have the types that are written there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk

wp = pytest.importorskip("warp")
DEVICES = pytest.mark.parametrize("device", ["cpu", "interpret"])


@tk.func
def half_of(x: float):
    return x / 2.0


@tk.func
def third(x: tk.float64) -> tk.float64:
    return x / 3.0


@tk.func
def tenth() -> tk.float64:
    return 0.1


@tk.func
def chosen(n: int) -> tk.float64:
    if n > 2:
        return 0.7
    return 0.3


@tk.func
def wide(n: tk.int64) -> tk.int64:
    return n * 3000000000


@tk.func
def both(x: float, n: "int") -> tuple[float, int]:
    return x, n + 1


@tk.func
def flag(on: bool) -> bool:
    return not on


@tk.func
def anything(x: Any, y) -> Any:
    return x + y


@tk.func
def first(a: tk.array1d[float], i: int = 0) -> float:
    return a[i]


@tk.func
def doubled(t: tk.tile[float, 4]) -> tk.tile[float, 4]:
    return t * 2.0


@wp.func
def warps(x: wp.float64, n: int) -> wp.float64:
    return x * wp.float64(n)


@tk.kernel
def numbers(n: int, x: float, out: tk.array1d[tk.float64]):
    out[0] = third(0.3)
    out[1] = third(tk.float64(x))
    out[2] = tenth()
    out[3] = chosen(n)
    out[4] = tk.float64(wide(4))
    a, b = both(0.5, n)
    out[5] = tk.float64(a) + tk.float64(b)
    out[6] = 1.0 if flag(n > 2) else 2.0
    out[7] = tk.float64(anything(n, 2))
    out[8] = warps(0.1, n)
    out[9] = tk.float64(half_of(x))
    out[10] = tk.float64(half_of(0.25))


@DEVICES
def test_literals_take_the_declared_dtype(device):
    out = np.zeros(11)
    tk.launch_tiled(numbers, dim=1, inputs=[3, 0.5], outputs=[out], device=device)
    expected = [0.3 / 3.0, 0.5 / 3.0, 0.1, 0.7, 12000000000.0, 4.5, 2.0, 5.0, 0.1 * 3.0, 0.25, 0.125]
    assert out.tolist() == expected


@DEVICES
def test_arrays_tiles_and_maps(device):
    @tk.func
    def local(t: tk.tile[float]) -> tk.tile[float, 4]:
        return t + 1.0

    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=4)
        tk.tile_store(out[0], doubled(t))
        tk.tile_store(out[1], local(t))
        tk.tile_store(out[2], tk.tile_map(half_of, t))
        out[3, 0] = first(a)
        out[3, 1] = first(a, 1)

    a, out = np.float32([1, 2, 3, 4]), np.zeros((4, 4), np.float32)
    tk.launch_tiled(k, dim=1, inputs=[a], outputs=[out], device=device)
    assert np.array_equal(out, [a * 2, a + 1, a / 2, [1, 2, 0, 0]])


def test_a_declared_argument_stays_a_constant_of_the_compilation():
    @tk.func
    def zeros(n: int):
        return tk.tile_zeros(shape=n, dtype=float)

    @tk.kernel
    def k(out: tk.array1d[float]):
        total = float(0.0)
        for _ in tk.static_range(3):
            total += tk.tile_sum(zeros(4) + 1.0)[0]
        out[0] = total

    out = np.zeros(1, np.float32)
    tk.launch_tiled(k, dim=1, outputs=[out])
    assert out[0] == 12


def test_other_annotations_of_the_same_code_count():
    outs = []
    for declared in (tk.float32, tk.float64):

        def part(x):
            return x / 3.0

        part.__annotations__["x"] = declared
        helper = tk.func(part)
        outs.append(launched(helper))
    assert outs == [float(np.float32(0.1) / np.float32(3)), 0.1 / 3.0]


def test_annotations_may_name_variables_of_the_function_around():
    wide = tk.float64

    @tk.func
    def third(x: wide) -> wide:
        return x / 3.0

    @tk.func
    def tenth() -> wide:
        return 0.1

    @tk.kernel
    def k(out: tk.array1d[tk.float64]):
        out[0] = third(0.1)
        out[1] = tenth()

    out = np.zeros(2)
    tk.launch_tiled(k, dim=1, outputs=[out])
    assert out.tolist() == [0.1 / 3.0, 0.1]


helper_now: Any = None


@tk.kernel
def calls_the_helper(out: tk.array1d[tk.float64]):
    out[0] = tk.float64(helper_now(0.1))


def launched(helper: Any) -> float:
    global helper_now
    helper_now = helper
    out = np.zeros(1)
    tk.launch_tiled(calls_the_helper, dim=1, outputs=[out])
    return float(out[0])


def test_a_warp_function_is_held_to_its_annotations():
    @tk.kernel
    def k(x: float, out: tk.array1d[tk.float64]):
        out[0] = warps(x, 2)

    with pytest.raises(
        tk.errors.KernelTypeError, match=r"warps\(\): parameter 'x' is declared float64 but gets a float32"
    ):
        tk.launch_tiled(k, dim=1, inputs=[1.0], outputs=[np.zeros(1)])


@tk.func
def level(n: int, depth: Any) -> tk.float64:
    if depth == 0:
        return 0.5 if n > 1 else 0.25
    return level(n, depth - 1) + (0.1 if n > 2 else 0.7)


@tk.func
def same(x: tk.float64) -> tk.float64:
    return x


@tk.kernel
def from_levels(n: int, out: tk.array1d[tk.float64]):
    out[0] = level(n, 20)
    t = 0.3 if n > 2 else 0.9
    out[1] = same(t * 0.1)
    for _ in range(n):
        t = same(t) * 0.7
    out[2] = t


@DEVICES
def test_chosen_literals_have_the_declared_dtype_at_every_level(device):
    out = np.zeros(3)
    tk.launch_tiled(from_levels, dim=1, inputs=[3], outputs=[out], block_dim=1, device=device)
    assert out.tolist() == [sum([0.1] * 20, 0.5), 0.3 * 0.1, 0.3 * 0.7 * 0.7 * 0.7]
