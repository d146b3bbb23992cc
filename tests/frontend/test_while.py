"""while loops mean what they mean in Python, with run-time and with constant operands."""

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


@on((27,), (1,))
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@on((5,), (1,))
def while_true(n):
    i = 0
    while True:
        i += 1
        if i * i > n:
            break
    return i


@on((20,))
def while_true_return(n):
    i = 0
    while True:
        i += 1
        if i * i > n:
            return i


@on((10,), (0,))
def while_continue(n):
    total = 0
    while n > 0:
        n -= 1
        if n % 2 == 0:
            continue
        total += n
    return total


@on((48, 18), (7, 13))
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@on((3, 10))
def while_and(n, m):
    i = 0
    while i < m and i * i <= n:
        i += 1
    return i


@on((3,))
def while_false(n):
    while False:
        n += 1
    return n


@on((4,))
def while_in_for(n):
    total = 0
    for i in range(n):
        j = i
        while j > 0:
            total += j
            j -= 1
    return total


@on((3,), (0,))
def while_true_with_a_value_that_is_returned(n):
    x = 3
    while True:
        if n <= 0:
            return x
        x = x * 2
        n -= 1


@on((3,), (7,))
def temporaries_of_branches_in_a_loop(n):
    total = 0
    for i in range(n):
        if i % 2 == 0:
            t = 2
            total += t * i
        else:
            t = (i, n)
            total += t[0] + t[1]
    return total


@on((12,))
def sieve_like(n):
    count = 0
    for p in range(2, n):
        prime = True
        d = 2
        while d * d <= p:
            if p % d == 0:
                prime = False
                break
            d += 1
        if prime:
            count += 1
    return count


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[f"{f.__name__}{a}" for f, a in CASES])
def test_as_in_python(function, arguments):
    check(function, *arguments)


def divides_by_what_it_carries(n):
    w = 0
    while w < n and 7 / w < 5:
        w += 1
    return w


def divides_a_float(n):
    w, x = 0.0, 1.0
    while n > 0 and x / w > 5.0 and 7 % w != 1.0:
        w += 1.0
        n -= 1
    return w


def floor_of_what_it_carries(n):
    w = 0
    while 7 // w < 9 and w < n:
        w += 1
    return w


@pytest.mark.parametrize(
    ("function", "expected"),
    [(divides_by_what_it_carries, 1), (divides_a_float, 1.0), (floor_of_what_it_carries, 3)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_first_test_divides_as_the_next_ones_do(function, expected):
    check(function, 3, expected=expected)
