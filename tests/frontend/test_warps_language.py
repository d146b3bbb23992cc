"""Small parts of Warp's language: loops that ``static`` unrolls, reversed ranges, conversions, dtypes as keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.frontend.running import check

wp = pytest.importorskip("warp")
DEVICES = pytest.mark.parametrize("device", ["cpu", "interpret"])


def static_index(n):
    total = 0
    for i in range(40):
        total += tk.static(i * i)
    return total + n


def static_in_nested_loops(n):
    total = 0
    for i in range(20):
        k = i + 1
        for j in range(18):
            total += tk.static(k * j) if j < 3 else n
    return total


def static_of_what_the_loop_changes(n):
    total, k = n, 0
    for _ in range(30):
        total += tk.static(k * 2)
        k = k + 1
    return total


def static_of_what_it_does_not_change(n):
    total = 0
    for i in range(40):
        total += tk.static(7 * 3) + i
    return total + n


@pytest.mark.parametrize(
    "function",
    [static_index, static_in_nested_loops, static_of_what_the_loop_changes, static_of_what_it_does_not_change],
)
def test_static_unrolls_a_loop_whose_index_it_reads(function):
    check(function, 5)


def test_static_needs_known_bounds():
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        for i in range(n):
            out[i] = float(tk.static(i))

    with pytest.raises(
        tk.errors.KernelTypeError, match=r"static\(\) needs an expression that is known at compile time"
    ):
        tk.launch_tiled(k, dim=1, inputs=[3], outputs=[np.zeros(3, np.float32)])


def backwards(a, b):
    first, total, count = 0, 0, 0
    for i in reversed(range(a, b)):
        first, total, count = (i if count == 0 else first), total * 3 + i, count + 1
    return first, total, count


def backwards_by_three(a, b):
    total, count = 0, 0
    for i in reversed(range(a, b, 3)):
        total, count = total * 3 + i, count + 1
    for i in reversed(range(b, a, -2)):
        total, count = total + i, count + 1
    return total, count


def backwards_by_the_second(a, b):
    total, count = 0, 0
    for i in reversed(range(a, 12, b)):
        total, count = total * 3 + i, count + 1
        if count > 9:
            break
    return total, count


@pytest.mark.parametrize(("a", "b"), [(0, 5), (5, 0), (-7, 6), (6, -7), (3, 3), (2, 3), (-1, 12)])
def test_reversed_ranges(a, b):
    check(backwards, a, b)
    check(backwards_by_three, a, b)
    check(backwards_by_the_second, a, b or 4)


@DEVICES
def test_reversed_twice(device):
    @tk.kernel
    def k(a: int, step: int, out: tk.array1d[tk.int32]):
        n = 0
        for i in reversed(reversed(range(a, 9, step))):
            out[n] = i
            n += 1

    out = np.zeros(3, np.int32)
    tk.launch_tiled(k, dim=1, inputs=[1, 3], outputs=[out], device=device)
    assert out.tolist() == [1, 4, 7]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@DEVICES
def test_reversed_ranges_at_the_limits(dtype, device):
    @tk.kernel
    def k(a: wp.int64, b: wp.int64, step: wp.int64, out: tk.array1d[tk.int64]):
        n = 0
        for i in reversed(range(a, b, step)):
            out[n] = i
            n += 1

    @tk.kernel
    def k32(a: int, b: int, step: int, out: tk.array1d[tk.int64]):
        n = 0
        for i in reversed(range(a, b, step)):
            out[n] = tk.int64(i)
            n += 1

    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    for bounds in (
        (low, high, high),
        (high, low, low + 1),
        (high - 5, high, 2),
        (low + 5, low, -2),
        (low, high, high // 2),
    ):
        out = np.zeros(8, np.int64)
        tk.launch_tiled(k if dtype is np.int64 else k32, dim=1, inputs=[*bounds], outputs=[out], device=device)
        expected = [*reversed(range(*bounds))]
        assert out[: len(expected)].tolist() == expected, bounds
        assert not out[len(expected) :].any()


@DEVICES
def test_a_step_of_zero(device):
    @tk.kernel
    def k(step: int, out: tk.array1d[float]):
        for i in range(0, 5, step):
            out[i] = 1.0

    out = np.zeros(5, np.float32)
    with (
        tk.config.scoped(checked=device == "cpu"),
        pytest.raises(tk.errors.KernelAssertionError, match=r"range\(\) step must not be zero") as caught,
    ):
        tk.launch_tiled(k, dim=1, inputs=[0], outputs=[out], device=device)
    assert caught.value.location.line == k.function.__code__.co_firstlineno + 2
    tk.launch_tiled(k, dim=1, inputs=[0], outputs=[out], device="cpu")
    assert not out.any()
    tk.launch_tiled(k, dim=1, inputs=[2], outputs=[out], device=device)
    assert out.tolist() == [1, 0, 1, 0, 1]


@DEVICES
def test_conversions_by_the_names_of_python(device):
    @tk.kernel
    def k(x: float, n: int, out: tk.array1d[float]):
        out[0] = tk.float(n)
        out[1] = wp.float(3)
        out[2] = float(tk.int(x) + wp.int(2.5))

    out = np.zeros(3, np.float32)
    tk.launch_tiled(k, dim=1, inputs=[2.75, 7], outputs=[out], device=device)
    assert out.tolist() == [7, 3, 4]


def test_names_of_dtypes():
    assert tk.float32.__name__ == wp.float32.__name__ == "float32"
    assert [dtype.__name__ for dtype in (tk.bfloat16, tk.uint8, tk.bool)] == ["bfloat16", "uint8", "bool"]


@DEVICES
def test_dtypes_as_keys(device):
    @tk.kernel
    def k(x: tk.array1d[tk.float64], out: tk.array1d[float]):
        sizes = {wp.float32: 4.0, wp.float64: 8.0}
        out[0] = sizes[x.dtype]
        out[1] = 1.0 if x.dtype in {wp.float64: 1} else 2.0
        out[2] = 1.0 if x.dtype in (wp.int32, wp.float64) else 2.0
        out[3] = {tk.float64: 5.0}[wp.float64]

    out = np.zeros(4, np.float32)
    tk.launch_tiled(k, dim=1, inputs=[np.zeros(1)], outputs=[out], device=device)
    assert out.tolist() == [8, 1, 1, 5]


@tk.kernel
def generic(x: Any, out: tk.array1d[Any]):
    out[0] = x


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([float], "kernel 'generic' has 2 parameters, got 1 types"),
        ({"y": float}, "kernel 'generic' has no parameter 'y'; its parameters are x, out"),
    ],
)
def test_types_that_overload_refuses(types, message):
    with pytest.raises(tk.errors.KernelTypeError) as caught:
        tk.overload(generic, types)
    assert caught.value.message == message


def test_overload_of_what_is_no_kernel():
    with pytest.raises(tk.errors.KernelTypeError) as caught:
        tk.overload(3)
    assert caught.value.message == "overload() needs a kernel or a function of a kernel's name, got 3 (an int)"
    with pytest.raises(tk.errors.KernelTypeError) as caught:

        @tk.overload
        def no_such_kernel(x: int): ...

    assert caught.value.message == "overload() found no kernel named 'no_such_kernel' here"
    with pytest.raises(tk.errors.KernelTypeError) as caught:

        @tk.overload
        def generic(y: int): ...

    assert caught.value.message == "kernel 'generic' has no parameter 'y'; its parameters are x, out"
