"""Loops and jumps mean what they mean in Python, with run-time and with constant operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.frontend.running import check

CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def on(*arguments: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Check the function on each of these argument tuples."""

    def add(function: Any) -> Any:
        CASES.extend((function, given) for given in arguments)
        return function

    return add


# range.


@on((0,), (1,), (5,))
def sum_to(n):
    total = 0
    for i in range(n):
        total += i
    return total


@on((2, 9), (9, 2), (3, 3))
def from_to(a, b):
    total = 0
    for i in range(a, b):
        total = total * 2 + i
    return total


@on((9, 2), (2, 9))
def backward(a, b):
    total = 0
    for i in range(a, b, -1):
        total = total * 3 + i
    return total


@on((10, 3), (10, 1), (10, 20), (-7, -3), (7, -3))
def run_time_step(n, step):
    total = 0
    for i in range(0, n, step):
        total = total * 5 + i + 1
    return total


@on((5,), (0,))
def nested(n):
    total = 0
    for i in range(n):
        for j in range(i, n):
            for k in range(2):
                total += i * j + k
    return total


@on((0,), (3,), (7,), (100,))
def break_out(n):
    total = 0
    for i in range(10):
        if i == n:
            break
        total += i
    return total


@on((3,), (11,))
def continue_on(n):
    total = 0
    for i in range(n):
        if i % 3 == 1:
            continue
        total += i
    return total


@on((3,), (11,), (0,))
def break_and_continue(n):
    total = 0
    for i in range(20):
        if i % 2 == 0:
            continue
        if i > n:
            break
        total = total * 2 + i
        if total > 100:
            continue
        total += 1
    return total


@on((6,), (2,), (0,))
def nested_breaks(n):
    count = 0
    for i in range(n):
        for j in range(n):
            if j > i:
                break
            if j == 1:
                continue
            count += 10 * i + j
        if i == 4:
            break
    return count


@on((4,), (40,))
def find_first(n):
    for i in range(10):
        if i * i >= n:
            return i
    return -1


@on((3,), (12,))
def return_from_two_loops(n):
    for i in range(5):
        for j in range(5):
            if i * j == n:
                return i, j
    return -1, -1


@on((0,), (3,))
def return_for_certain_from_an_unrolled_loop(n):
    y = n
    for _ in range(n):
        for i in range(3):
            if i < 2:
                return y, i
            y = 4
    return -y, 5


@on((0,), (3,))
def return_from_the_last_unrolled_iteration(n):
    y = n
    while y < 100:
        for i in range(3):
            if i > 1:
                return y
            y += 4
    return -y


@on((0,), (3,))
def break_for_certain_from_an_unrolled_loop(n):
    y = n
    for k in range(n):
        for i in range(3):
            if i == 1:
                break
            y += k
        y += 10
        if y > 20:
            return y
    return -y


@on((0,), (4,))
def last_index(n):
    i = -1
    for i in range(n):
        pass
    return i


@on((4,))
def index_is_a_copy(n):
    total = 0
    for i in range(n):
        total += i
        i = 100
    return total


@on((3,))
def loop_variable_afterwards(n):
    j = 7
    for i in range(n):
        j = i * 2
    return j


@on((3, 4))
def bounds_are_read_once(n, m):
    total = 0
    for i in range(n):
        n = n + m
        total += n
    return total, n


@on((10,))
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a, b


@on((5,))
def rotation(n):
    a = 1
    b = 2
    c = 3
    for _ in range(n):
        a, b, c = c, a, b
    return a, b, c


@on((5,))
def tuple_carried(n):
    pair = (0, 1)
    for i in range(n):
        pair = (pair[1], pair[0] + i)
    return pair


@on((4,))
def tuple_of_tuples(n):
    state = ((1, 2), 3)
    for i in range(n):
        (a, b), c = state
        state = ((b, c), a + i)
    return state


@on((5,))
def one_value_in_a_branch_of_a_loop(n):
    best = -1
    for i in range(n):
        value = (i * 7) % 5
        if value > best:
            best = value
    return best


# Loops over what is known.


@on((3,))
def over_tuple(n):
    total = 0
    for x in (1, 10, 100):
        total += x * n
    return total


@on((3,))
def over_zip(n):
    total = 0
    for a, b in zip((1, 2, 3), (10, 20, 30), strict=True):
        total += a * b * n
    return total


@on((3,))
def over_enumerate(n):
    total = 0
    for i, x in enumerate((5, 6, 7)):
        total = total * 10 + i * x + n
    return total


@on((3,))
def over_enumerate_range(n):
    total = 0
    for i, x in enumerate(range(5, 8)):
        total = total * 10 + i * x + n
    return total


@on((2,), (50,))
def over_tuple_break(n):
    total = 0
    for x in (1, 2, 3, 4):
        if x == n:
            break
        if x + 1 == n:
            continue
        total += x
    return total


@on((2,), (50,))
def over_tuple_return(n):
    for x in (1, 2, 3, 4):
        if x == n:
            return x * 10
    return 0


@on((3,))
def over_reversed(n):
    total = 0
    for x in reversed((1, 2, 3)):
        total = total * n + x
    return total


@on((3,))
def over_reversed_range(n):
    total = 0
    for x in reversed(range(4)):
        total = total * n + x
    return total


@on((2,))
def over_run_time_tuple(n):
    total = 0
    for x in (n, n + 1, 3 * n):
        total = total * 10 + x
    return total


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[f"{f.__name__}{a}" for f, a in CASES])
def test_as_in_python(function, arguments):
    check(function, *arguments)


def left_in_an_unrolled_loop(n, t):
    for i in range(4):
        if i == n:
            return t
        t = t + 7.0
    return 2.0


@pytest.mark.parametrize("n", [0, 1, 3, 9])
def test_what_only_the_next_iteration_reads_outlives_a_possible_return(n):
    check(left_in_an_unrolled_loop, n, 3.0)


def a_name_for_two_loops(n):
    total = 0.0
    for v in (0.5, 1.5):
        total = total + v
    for v in range(n):
        total = total + float(v)
    return total


def test_a_float_may_lend_its_name_to_an_index():
    check(a_name_for_two_loops, 3)
