"""Numbers: Warp's arithmetic, weak literals, names that have a value on some paths only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.frontend.running import check, compiled, constant_kernel_of, every_way, interpreted

CASES: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = []


def on(*arguments: Any, gives: Any) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        CASES.append((function, arguments, gives))
        return function

    return add


@on(7, 2, gives=(3, 3, 1))
@on(-7, 2, gives=(-3, -4, -1))
@on(7, -2, gives=(-3, -4, 1))
@on(-7, -2, gives=(3, 3, -1))
@on(0, 5, gives=(0, 0, 0))
def integer_division(a, b):
    return a / b, a // b, a % b


@on(-7, 2, gives=(-3, -4, -1))
def augmented_division(a, b):
    x = a
    x /= b
    y = a
    y //= b
    z = a
    z %= b
    return x, y, z


@on(-7.5, 2.0, gives=(-3.75, -4.0, -1.5))
def float_division(a, b):
    return a / b, a // b, a % b


@on(5, gives=(2, 1.25))
def literal_division(a):
    return a / 2, 5.0 / 4.0


@on(2, 3, gives=(6, 5, 1, 8, 2, 3, 1))
def integer_operators(a, b):
    return a * b, a + b, b - a, a << 2, a & b, a | b, a ^ b


@on(-3, gives=(3, -3, 3, 2))
def unary(a):
    return -a, +a, abs(a), ~a


@on(2, 5, gives=(2, 5, 1, 9))
def extremes(a, b):
    return min(a, b), max(a, b), min(a, b, 1), max(1, a, 9, b)


@on(2.5, gives=(2, 2.5, 3.5))
def casts(x):
    return int(x), float(int(x)) + 0.5, float(x) + 1


@on(3, gives=(1.5, 4.5, 7.5))
def an_int_cast_meets_a_float(n):
    x = float(n)
    return x / 2, x + 1.5, 2 * x + 1.5


@on(3, gives=(4.5,))
def literals_become_floats_in_a_loop(n):
    x = 0
    for _ in range(n):
        x += 1.5
    return (x,)


@on(3, gives=(7.0, 3))
def literals_take_the_dtype_they_meet(n):
    x = 1
    count = 0
    y = float(n)
    while count < n:
        x = x + y - 1.0
        count += 1
    return x, count


@on(3, gives=(3.0,))
@on(-3, gives=(0.5,))
def literals_of_two_kinds_in_branches(n):
    if n > 0:
        x = 3
    else:
        x = 0.5
    return (x,)


@on(2, gives=(0.5, 1.0, 1.5, 2.0))
def a_constant_index_is_a_literal(n):
    found = ()
    for i in tk.static_range(4):
        found = (*found, (i + 1) * 0.25 * float(n))
    return found


@on(20, gives=(95.0,))
def an_index_of_constant_bounds_has_a_dtype(n):
    total = 0.0
    for i in range(20):
        total += float(i) * 0.5
    return (total + float(n) * 0.0,)


@on(2.0, gives=(math.sqrt(2), math.exp(2), math.pi * 2))
def math_module(x):
    return tk.float64(math.sqrt(2)), tk.float64(math.exp(2)), tk.float64(math.pi * 2)


@on(5, gives=(1, 0, 1))
def bools(n):
    a = n > 3
    b = not a
    c = a and not b
    return int(a), int(b), int(c)


@on(3, gives=(1, 1, 0, 1))
def booleans_are_carried(n):
    seen = False
    every = True
    odd = False
    for i in range(n):
        if i == 2:
            seen = True
        every = every and i < 3
        odd = not odd
    return int(seen), int(every), int(not odd), int(seen or odd)


@on(3, gives=(6, 3))
def swaps_of_three(n):
    a, b = n, 2 * n
    a, b = b, a
    return a, b


@on(3, gives=(1, 2, 3, 4))
def nested_unpacking(n):
    (a, b), (c, d) = (1, 2), (n, 4)
    return a, b, c, d


@on(3, gives=(1, 6, 4, 3))
def starred_unpacking(n):
    first, *rest, last = (1, 2, n, 1, 4)
    return first, sum(rest), last, len(rest)


@on(4, gives=(4, 4, 4))
def chained_assignment(n):
    a = b = c = n
    return a, b, c


@on(4, gives=(10,))
def annotated_assignment(n):
    x: int = n
    y: int
    y = x + 6
    return (y,)


@on(3, gives=(9, 27))
def powers(n):
    return tk.int32(n) * n, n * n * n


@on(3, 2.5, gives=(4, 3.5, 5))
def type_of_a_number_converts(n, x):
    return type(n)(1.5) + n, type(x)(1) + x, type(2)(5)


@on(3, 2.5, gives=(1, 2, 3, 4))
def isinstance_asks_for_the_dtype(n, x):
    return (
        1 if isinstance(n, int) and not isinstance(n, float) else 0,
        2 if isinstance(x, float) and not isinstance(x, tk.float64) else 0,
        3 if isinstance(x, (int, np.float32)) and isinstance(n, int | float) and not isinstance(x, tuple) else 0,
        4 if isinstance((n, x), tuple) and isinstance("", str) else 0,
    )


@pytest.mark.parametrize(("function", "arguments", "gives"), CASES, ids=[f"{f.__name__}{a}" for f, a, _ in CASES])
def test_gives(function, arguments, gives):
    for way, found in every_way(function, *arguments):
        np.testing.assert_allclose(found, gives, rtol=1e-6, err_msg=way)


def test_int32_wraps():
    def wraps(n):
        return n + 1, n * 2, -(-n - 1)

    top = 2**31 - 1
    assert compiled(wraps, top) == [-(2**31), -2.0, -(2.0**31)]


def test_floats_are_float32():
    def third(x):
        return x / 3.0

    assert compiled(third, 1.0) == [float(np.float32(1) / np.float32(3))]


def test_division_by_a_run_time_zero_gives_zero():
    def divide(a, b):
        return a / b, a // b, a % b

    assert compiled(divide, 5, 0) == [0, 0, 0]


def test_short_circuit_keeps_the_value_like_python():
    def pick(n):
        return n or 7, n and 5

    for n in (0, 3):
        assert interpreted(constant_kernel_of(pick, (n,)), ()) == [float(n or 7), float(n and 5)]


# Names with a value on some paths only.


@pytest.mark.parametrize("n", [0, 1, 9])
def test_a_name_bound_on_every_path_that_goes_on(n):
    def nested_returns(n):
        if n > 0:
            if n > 5:
                if n > 8:
                    return -1
                y = 2
            else:
                y = 3
            x = y + 5
        else:
            x = 6
        return x

    check(nested_returns, n)


def test_a_name_bound_before_a_break_only():
    def function(n):
        for i in range(4):
            if i > n:
                if n == 2:
                    break
                x = 1
            else:
                x = 2
        return i

    check(function, 2)


def test_temporaries_of_a_branch_need_not_agree():
    def function(n):
        if n > 0:
            t = 1.5
            x = int(t * 2.0)
        else:
            t = (n, n)
            x = t[0]
        return x

    check(function, 3)
    check(function, -3)


def test_what_a_loop_that_runs_binds_is_bound_afterwards():
    def function(n):
        for i in range(20):
            last = i * n
        return last, i

    check(function, 3)


def test_what_a_while_true_binds():
    def function(n):
        i = 0
        while True:
            i += 1
            square = i * i
            if square > n:
                break
        return i

    check(function, 30)


def test_a_range_that_passes_the_end_of_int32():
    def function(n):
        count = 0
        for i in range(n, 2147483647, 500):
            count += 1
        return count

    check(function, 2147483000, expected=2)


def test_a_range_with_a_break_that_passes_the_end_of_int32():
    def function(n, step):
        count = 0
        for i in range(n, 2147483647, step):
            count += 1
            if count > 10 or i < 0:
                break
        for i in range(-n, -2147483648, -500):
            if i > 0 or count > 20:
                break
            count += 100
        return count

    check(function, 2147483000, 500, expected=102)
