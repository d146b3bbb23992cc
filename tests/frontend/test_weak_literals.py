"""A literal that control flow or an op chooses takes the dtype of what it meets, as if it had been cast at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk

DEVICES = ("cpu", "interpret")
FLOATS = (tk.float64, tk.float32, tk.float16)
INTEGERS = (tk.int64, tk.int32, tk.int8, tk.uint8)


def chosen(x, n, lit):
    t = lit(0.3)
    if n > 2:
        t = lit(0.7)
    return x * t


def chosen_in_nested_branches(x, n, lit):
    if n > 1:
        t = lit(0.1)
        if n > 2:
            t = lit(0.7)
    elif n > 0:
        t = lit(0.3)
    else:
        t = lit(0.9)
    return t - x


def conditional_expression(x, n, lit):
    return x * (lit(0.7) if n > 2 else lit(0.3) if n > 1 else lit(0.1))


def where(x, n, lit):
    return tk.where(n > 2, lit(0.7), lit(0.3)) * x


def where_of_two(x, n, lit):
    t = tk.where(n > 2, lit(0.7), lit(0.3))
    return x + tk.where(n > 1, t, lit(0.1)) * lit(0.1)


def extremes(x, n, lit):
    t = lit(0.3) if n > 2 else lit(0.7)
    u = lit(0.1) if n > 1 else lit(0.9)
    return x * (tk.min(t, u) + max(t, u, lit(0.5)) - tk.clamp(t, lit(0.2), lit(0.6)))


def arithmetic(x, n, lit):
    t = lit(0.3) if n > 2 else lit(0.7)
    u = (t * lit(0.1) + lit(0.7)) / (lit(1.1) - t)
    return tk.sqrt(abs(-u)) + x


def compared(x, n, lit):
    t = lit(0.1) * (lit(3.0) if n > 2 else lit(7.0))
    if t < x:
        return x
    return t


def helper(n, lit):
    if n > 2:
        return lit(0.3)
    return lit(0.7)


def returned(x, n, lit):
    return x * helper(n, lit)


def of_a_lambda(x, n, lit):
    pick = lambda c: lit(0.3) if c else lit(0.7)  # noqa: E731
    return x * pick(n > 2) + pick(n > 1)


def summed(x, n, lit):
    t = lit(0.0)
    for _ in range(100):
        t = t + lit(0.1)
    return x * t


def summed_at_run_time(x, n, lit):
    t = lit(0.0)
    for _ in range(n * 25):
        t += lit(0.1)
    return x * t


def summed_by_while(x, n, lit):
    t = lit(0.0)
    k = n
    while k < 40:
        t = t + lit(0.1)
        if t > lit(3.0):
            break
        k += 1
    return x * t


def summed_in_two_loops(x, n, lit):
    t = lit(1.0)
    for i in range(n):
        row = lit(0.1)
        for j in range(n):
            row = row * lit(1.1)
            if j == i:
                continue
            t = t + row
    return t - x


def bound_in_a_loop(x, n, lit):
    for _ in range(30):
        t = lit(0.3)
    return x * t


def carried_pair(x, n, lit):
    pair = (lit(0.1), lit(0.7))
    for _ in range(n):
        pair = (pair[1], pair[0] * lit(1.1))
    return x * pair[0] + pair[1]


def chosen_pair(x, n, lit):
    pair = (lit(0.1), lit(0.7))
    if n > 2:
        pair = (lit(0.3), lit(0.9))
    return x * pair[0] - pair[1]


def sum_then_chosen(x, n, lit):
    t = lit(0.0)
    for _ in range(n):
        t += lit(0.1)
    u = t if n > 2 else lit(0.7)
    return x * u


def in_every_iteration(x, n, lit):
    total = x
    for i in range(3):
        t = lit(0.3)
        if n > i:
            t = lit(0.7)
        total = total * t
    return total


def met_by_an_update(x, n, lit):
    total = lit(0.0)
    for i in range(n):
        total += lit(0.1)
        if i == 2:
            total += x
    return total


def added(x, n, lit):
    t = lit(3)
    if n > 2:
        t = lit(7)
    return x + t * lit(5)


def counted(x, n, lit):
    t = lit(0)
    for _ in range(n * 10):
        t += lit(3)
    return t - x


def divided(x, n, lit):
    t = lit(17) if n > 2 else lit(100)
    return t / lit(7) + (t // lit(5)) % lit(4) + (t & lit(6)) + x


def returned_early(n, t, lit):
    for i in range(n):
        if i == 2:
            return t
        t = t * lit(1.1)
    return lit(0.9)


def left_early(x, n, lit):
    return x * returned_early(n, lit(0.3), lit) + returned_early(4, lit(0.7), lit)


def left_as_it_is(x, n, lit):
    t, pair = lit(0.3), (lit(0.7), lit(0.1))
    for _ in range(n):
        t = t  # noqa: PLW0127
        pair = (pair[0], pair[1] + lit(0.1))
    return x * t - pair[0] + pair[1]


PROGRAMS = [
    value
    for value in list(globals().values())
    if getattr(value, "__module__", "") == __name__ and value.__code__.co_varnames[:3] == ("x", "n", "lit")
]
OF_INTEGERS = (added, counted, divided)


def kernel_of(program: Callable[..., Any], dtype: Any, lit: Any) -> Any:
    @tk.kernel
    def calls(a: tk.array1d[dtype], n: int, out: tk.array1d[dtype]):
        out[0] = program(a[0], n, lit)

    return calls


def as_it_is(value):
    return value


def result(kernel: Any, dtype: Any, n: int, device: str) -> bytes:
    out = np.zeros(1, dtype.numpy)
    tk.launch_tiled(kernel, dim=1, inputs=[np.full(1, 3, dtype.numpy), n], outputs=[out], block_dim=1, device=device)
    return out.tobytes()


@pytest.mark.parametrize(
    ("program", "unroll"),
    [
        pytest.param(program, unroll, marks=[pytest.mark.deep] * ((number + at) % 2))
        for number, program in enumerate(PROGRAMS)
        for at, unroll in enumerate((0, 16))
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_the_same_as_with_casts(program, unroll):
    for dtype in INTEGERS if program in OF_INTEGERS else FLOATS:
        with tk.config.scoped(max_unroll=unroll):
            cast, bare = kernel_of(program, dtype, dtype), kernel_of(program, dtype, as_it_is)
            for n in (1, 2, 3):
                wanted = result(cast, dtype, n, "cpu")
                for device in DEVICES:
                    assert result(bare, dtype, n, device) == wanted, (dtype, n, device)


def store(program: Callable[..., Any], out: Any, *inputs: Any, unroll: int = 16, device: str = "cpu") -> Any:
    with tk.config.scoped(max_unroll=unroll):
        tk.launch_tiled(program, dim=1, inputs=list(inputs), outputs=[out], block_dim=1, device=device)
    return out


@tk.kernel
def into_arrays_and_tiles(n: int, out: tk.array1d[tk.float64]):
    t = 0.3 if n > 7 else 0.7
    out[0] = t
    tile = tk.tile_zeros(4, tk.float64)
    tile[1] = t
    tile[2] += t
    tile[3:4] = t
    tk.tile_store(out, tile * t, offset=1)
    tk.tile_store(out, tk.tile_full(2, t, tk.float64), offset=5)
    tk.tile_store(out, tk.tile_map(lambda v: v + t, tile), offset=7)
    tk.atomic_add(out, 0, t)
    out[11] = tk.float64(0.7 if n > 2 else 0.3)
    out[12] = tk.float64(0.7 * tk.where(n > 2, 0.7, 0.3))


@pytest.mark.parametrize("device", DEVICES)
def test_stores_and_explicit_casts(device):
    found = store(into_arrays_and_tiles, np.zeros(13), 3, device=device)
    wanted = [0.7 + 0.7, 0.0, 0.7 * 0.7, 0.7 * 0.7, 0.7 * 0.7, 0.7, 0.7, 0.7, 1.4, 1.4, 1.4, 0.7, 0.7 * 0.7]
    assert found.tolist() == wanted


@tk.kernel
def sums(n: int, x: tk.array1d[tk.float64], i: tk.array1d[tk.int64], out: tk.array1d[tk.float64]):
    at, more = 0, 0
    for _ in range(n):
        at += 100000
        more += 100000
    i[0] = at + 1
    out[0] = x[0] * more
    large = 3000000000 if n > 1 else 1
    i[1] += large


@pytest.mark.parametrize("device", DEVICES)
def test_integers_do_not_wrap(device):
    out, i = np.zeros(1), np.zeros(2, np.int64)
    store(sums, out, 30000, np.full(1, 0.5), i, device=device)
    assert out.tolist() == [1.5e9]
    assert i.tolist() == [3000000001, 3000000000]


@tk.kernel
def meeting_floats(n: int, x: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    t = 7 if n > 1 else 9
    out[0] = x[0] * (t / 2)
    count = 0
    for _ in range(n):
        count += 1
    out[1] = 0.1 * count + x[0]
    out[count] = x[0] / count
    out[3] = tk.float64(count + 16777215)


@pytest.mark.parametrize("unroll", [0, 16])
@pytest.mark.parametrize("device", DEVICES)
def test_integers_stay_integers_until_they_meet_a_float(device, unroll):
    found = store(meeting_floats, np.zeros(4), 2, np.ones(1), device=device, unroll=unroll)
    assert found.tolist() == [3.0, 0.1 * 2 + 1.0, 0.5, 16777217.0]


@tk.kernel
def tenths(n: int, out: tk.array1d[float]):
    t, pair = 0.0, (0, 0.0)
    for k in range(10):
        t = t + 0.1
        pair = (pair[0] + 1, pair[1] + 0.7)
        if k > n:
            break
    out[0], out[1], out[2] = t, pair[1], float(pair[0])


@pytest.mark.parametrize("device", DEVICES)
def test_a_sum_is_rounded_alike_however_its_loop_is_compiled(device):
    for n in (4, 20):
        wanted = store(tenths, np.zeros(3, np.float32), n, unroll=0)
        assert store(tenths, np.zeros(3, np.float32), n, unroll=16, device=device).tobytes() == wanted.tobytes()
    assert wanted[0] == sum([np.float32(0.1)] * 10, np.float32(0.0))


@tk.kernel
def advised(x: tk.array1d[int], wide: tk.array1d[tk.int64]):
    x[0] = x[0] + tk.int32(0xFFFFFFFE)
    wide[0] = tk.int64(x[1]) + 0xFFFFFFFE


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_advised_where_a_constant_does_not_fit_works(device):
    x, wide = np.full(2, 5, np.int32), np.zeros(1, np.int64)
    store(advised, wide, x, device=device)
    assert (x[0], wide[0]) == (3, 5 + 0xFFFFFFFE)
