"""What is computed twice, in every iteration or through a tile too many is gone, and no bit differs."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tilekit as tk
from tests.builtins.both import run
from tests.passes.finite_differences import traced
from tilekit.ir.core import Function, walk
from tilekit.ir.interpret import Machine, interpret
from tilekit.ir.verify import verify
from tilekit.passes.compose_views import compose_views
from tilekit.passes.simplify import simplify

X = np.array([1.5, -0.0, np.inf, np.nan, 3e38, -2.0, 0.0, 1e-40, 7.0, -1.0, 0.25, 4.0, -np.inf, 2.0, 5.0, -3.0], "f4")


def simplified(kernel: Any, **arguments: Any) -> Function:
    """A kernel's IR without what can go, which gives the same bits in all arrays."""
    arguments = {"x": X, "y": np.zeros(16, np.float32), "n": np.int32(3), **arguments}
    before = compose_views(traced(kernel, {name: arguments[name] for name in kernel.parameters}))
    after = simplify(before)
    verify(after)
    same_bits(before, after, {name: arguments[name] for name in before.params})
    return after


def same_bits(before: Function, after: Function, arguments: dict[str, Any], text: str = "") -> None:
    found = []
    for fn in (before, after):
        copies = {name: np.copy(a) if isinstance(a, np.ndarray) else a for name, a in arguments.items()}
        with np.errstate(all="ignore"):
            interpret(fn, copies, Machine())
        found.append({name: np.asarray(value).view(np.uint32).tolist() for name, value in copies.items()})
    assert found[0] == found[1], f"{text}\n{before}\n{after}"


def names(fn: Function) -> list[str]:
    return [op.builtin.name for op in walk(fn.body)]


@tk.kernel
def twice(x: tk.array1d[float], y: tk.array1d[float], n: int):
    a = tk.tile_load(x, shape=4, offset=n * 2)
    b = tk.tile_load(x, shape=4, offset=n * 2)
    tk.tile_store(y, a * b)
    c = tk.tile_load(x, shape=4, offset=n * 2)
    tk.tile_store(y, c + tk.tile_load(x, shape=4, offset=n * 2), offset=4)


def test_reads_are_alike_only_where_no_array_is_written_between():
    """Arrays may share memory, so that a store to ``y`` may change ``x``."""
    assert names(simplified(twice)).count("tile_load") == 2
    assert names(simplified(twice)).count("mul") == 2  # n * 2, and a * a
    whole = np.copy(X)
    fn = simplify(traced(twice, {"x": whole, "y": whole, "n": np.int32(0)}))
    interpret(fn, {"x": whole, "y": whole, "n": np.int32(0)}, Machine())
    np.testing.assert_array_equal(whole[4:7], 2 * X[:3] ** 2)


@tk.kernel
def held_no_longer(x: tk.array1d[float], y: tk.array1d[float]):
    tk.tile_store(y, tk.tile_sum(tk.tile_load(x, shape=16)))
    for _ in range(100):
        s = tk.tile_sum(tk.tile_load(x, shape=16))
        t = tk.tile_load(x, shape=4) + 1.0
        tk.tile_store(y, tk.tile_full(4, s[0]) + t, offset=4)


def test_no_tile_lives_longer_than_the_user_wrote():
    """The first load is gone when the second is made, which may not move either: what it reads is written."""
    assert names(simplified(held_no_longer)).count("tile_load") == 3


@tk.kernel
def invariant(x: tk.array1d[float], y: tk.array1d[float], n: int):
    total = tk.tile_zeros(shape=4)
    for _ in range(n):
        total += tk.tile_load(x, shape=4) * float(n * 3)
    for _ in range(50):
        total += tk.tile_load(x, shape=4, offset=n) * 2.0
        for _ in range(60):
            total += tk.tile_load(x, shape=4, offset=n + 1)
    tk.tile_store(y, total)


def test_a_loop_reads_before_it_only_where_it_surely_runs():
    fn = simplified(invariant)
    assert names(simplified(invariant, n=np.int32(0))) == names(fn)
    first, second = (op for op in fn.body.ops if op.builtin.name == "for_range")
    assert [op.builtin.name for op in first.blocks[0].ops] == ["tile_load", "map_elements"]
    assert [op.builtin.name for op in second.blocks[0].ops] == ["map_elements", "for_range"]
    assert [op.builtin.name for op in second.blocks[0].ops[1].blocks[0].ops] == ["map_elements"]
    before = names(fn)[: names(fn).index("for_range")]
    assert before.count("mul") == before.count("cast") == 1 and "tile_load" not in before


@tk.kernel
def large(x: tk.array1d[float], y: tk.array1d[float]):
    for _ in range(50):
        s = tk.tile_sum(tk.tile_load(x, shape=2048))
    tk.tile_store(y, s)


def test_large_tiles_are_not_held_through_a_loop():
    (loop,) = [op for op in simplified(large).body.ops if op.blocks]
    assert [op.builtin.name for op in loop.blocks[0].ops] == ["tile_load", "tile_sum"]


@tk.kernel
def chain(x: tk.array1d[float], y: tk.array1d[float], n: int):
    a = tk.tile_load(x, shape=4) * 2.0
    b = tk.tile_load(x, shape=4, offset=4)
    c = (a + b) * a - abs(b)
    tk.tile_store(y, c)
    tk.tile_store(y, c + 1.0, offset=4)


def test_maps_that_feed_one_map_are_a_part_of_it():
    """``a`` is read twice, and ``c`` is stored: those remain."""
    assert [n for n in names(simplified(chain)) if n in ("map_elements", "tile_load")] == [
        "tile_load", "map_elements", "tile_load", "map_elements", "map_elements",
    ]  # fmt: skip


@tk.kernel
def longer(x: tk.array1d[float], y: tk.array1d[float]):
    a = tk.tile_load(x, shape=4) + tk.tile_load(x, shape=4, offset=4)
    b = tk.tile_sum(tk.tile_load(x, shape=4, offset=8))
    tk.tile_store(y, tk.tile_load(x, shape=4) * a * b[0])


def test_maps_stay_apart_where_more_tiles_would_be_needed_between():
    assert names(simplified(longer)).count("map_elements") == 2


@tk.kernel
def known(x: tk.array1d[float], y: tk.array1d[float], n: int):
    one, zero = tk.float32(2.0) / tk.float32(2.0), tk.int32(3) - tk.int32(3)
    a = tk.tile_load(x, shape=4, offset=n * (zero + 1) + zero) * one
    b = a * tk.tile_ones(shape=4) - 0.0
    for _ in range(zero, zero, 1):
        b += 1.0
    if zero > 0:
        b *= 3.0
    tk.tile_store(y, b + 0.0)  # -0.0 becomes 0.0


def test_what_is_known_is_no_code():
    with tk.config.scoped(max_unroll=0):
        fn = simplified(known)
    assert names(fn) == ["tile_load", "map_elements", "add", "tile_store"]


@tk.kernel
def nan_and_wrap(x: tk.array1d[float], y: tk.array1d[float]):
    zero, most = tk.tile_zeros(shape=4), tk.tile_full(4, 2147483647)
    a = tk.tile_load(x, shape=4, offset=8)
    tk.tile_store(y, tk.tile_map(lambda p, q: p + q / q, a, zero))
    tk.tile_store(y, tk.tile_map(lambda p, q: p + float(q + 1), a, most), offset=4)
    tk.tile_store(y, tk.tile_map(lambda p, q: p + q * -1.0, a * 0.0, zero), offset=8)


def test_constants_have_the_bits_of_the_dtype_and_nans_are_left():
    fn = simplified(nan_and_wrap)
    assert [n for n in names(fn) if n not in ("tile_load", "map_elements", "tile_store")] == [
        "div",
        "add",
        "add",
        "mul",
    ]
    y = np.zeros(16, np.float32)
    interpret(fn, {"x": X, "y": y}, Machine())
    assert np.isnan(y[:4]).all() and (y[4:8] == np.float32(-(2.0**31))).all() and np.signbit(y[9])


@tk.kernel
def unread(x: tk.array1d[float], y: tk.array1d[float], n: int):
    a, b = tk.tile_load(x, shape=4), tk.tile_load(x, shape=4, offset=4)
    s = x[0]
    for _ in range(n):
        b = tk.tile_map(lambda p, q: p + p, b, a)
        if n > 2:
            s, t = (s, a)
        else:
            t = b
        b += t
    tk.tile_store(y, b * s)


def test_loops_and_branches_carry_only_what_changes_and_maps_read_what_they_use():
    fn = simplified(unread)
    (loop,) = [op for op in fn.body.ops if op.builtin.name == "for_range"]
    assert len(loop.results) == 1
    first, branch = loop.blocks[0].ops[:2]
    assert len(first.operands["args"]) == 1 and len(branch.results) == 1


# Random kernels.

NUMBERS = count()
HEAD = """
import tilekit as tk


@tk.kernel
def kernel(x: tk.array1d[float], n: int, y: tk.array1d[float]):
    a = tk.tile_load(x, shape=4)
    b = tk.tile_load(x, shape=4, offset=4)
    c = tk.tile_zeros(shape=4)
    s = x[0]
"""
HEADS = ["for i in range(n):", "for i in range(2):", "if n > 1:", "for i in range(0):"]
TILE = st.sampled_from("abc")
INDEX = st.sampled_from(["0", "n", "n * 2", "tk.int32(2) * 2", "n + tk.int32(1) - 1", "n * 2 + 1"])
SIMPLE = [
    ("{} = {} + {}", (TILE, TILE, TILE)),
    ("{} = {} * {} - abs({})", (TILE, TILE, TILE, TILE)),
    ("{} = tk.max({} * 1.0, {}) - 0.0", (TILE, TILE, TILE)),
    ("{} += {}", (TILE, TILE)),
    ("{} = {} * s", (TILE, TILE)),
    ("{} = tk.tile_map(lambda p, q: tk.where(p > q, p, q * 2.0), {}, {})", (TILE, TILE, TILE)),
    ("{} = tk.tile_load(x, shape=4, offset={})", (TILE, INDEX)),
    ("{} = tk.tile_load(y, shape=4, offset={})", (TILE, INDEX)),
    ("{} = tk.tile_full(4, 1.0) * {}", (TILE, TILE)),
    ("{} = tk.tile_zeros(shape=4)", (TILE,)),
    ("tk.tile_store(y, {}, offset={})", (TILE, INDEX)),
    ("{}[n] = s", (TILE,)),
    ("s = {}[n] + x[{}]", (TILE, INDEX)),
    ("s = s * tk.float32(2.0) / tk.float32(2.0)", ()),
    ("y[{}] = s", (INDEX,)),
    ("s = tk.tile_sum({})[0]", (TILE,)),
    ("v = {}[1:3]; v += 1.0", (TILE,)),
]


@st.composite
def statements(draw: Callable[..., Any], depth: int = 2) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.integers(0, 9)) if depth else 0
        if kind > 3:
            text, holes = draw(st.sampled_from(SIMPLE))
            lines.append(text.format(*map(draw, holes)))
        elif depth and kind:
            head = draw(
                st.sampled_from(["for i in range(n):", "for i in range(2):", "if n > 1:", "for i in range(0):"])
            )
            lines += [head, *(f"    {line}" for line in draw(statements(depth - 1)))]
        else:
            text, holes = draw(st.sampled_from(SIMPLE))
            lines.append(text.format(*map(draw, holes)))
    return lines


def random_kernel(lines: list[str]) -> tuple[tk.Kernel, str]:
    body = [*lines, "tk.tile_store(y, a, offset=4)", "tk.tile_store(y, b, offset=8)", "tk.tile_store(y, c, offset=12)"]
    text = HEAD + "".join(f"    {line}\n" for line in body)
    file = f"<simplified {next(NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": file}
    exec(compile(text, file, "exec"), space)
    return space["kernel"], text


def check_random(lines: list[str]) -> None:
    kernel, text = random_kernel(lines)
    with tk.config.scoped(max_unroll=0):
        before = compose_views(traced(kernel, {"x": X, "n": np.int32(1), "y": X}))
    after = simplify(before)
    verify(after)
    for n in range(3):
        same_bits(before, after, {"x": X, "y": np.zeros(16, np.float32), "n": np.int32(n)}, text)
        shared = X.copy()
        same_bits(before, after, {"x": shared, "y": np.arange(16, dtype=np.float32), "n": np.int32(n)}, text)


quiet: Any = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=40, derandomize=True, **quiet)
@given(statements())
def test_random_kernels_keep_their_bits(lines: list[str]) -> None:
    check_random(lines)


@pytest.mark.deep
@settings(max_examples=250, **quiet)
@given(statements(3))
def test_random_kernels_keep_their_bits_at_length(lines: list[str]) -> None:
    check_random(lines)


@pytest.mark.deep
@settings(max_examples=300, **quiet)
@given(statements(3))
def test_random_kernels_on_every_device(lines: list[str]) -> None:
    """Compiled, where tiles share memory and are updated in place, as in the interpreter, which no pass has seen."""
    kernel, _ = random_kernel(lines)
    with tk.config.scoped(max_unroll=0):
        for n in range(3):
            run(kernel, [X, n], [np.zeros(16, np.float32)])
