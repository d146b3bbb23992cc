"""Branches, returns and names mean what they mean in Python, with run-time and with constant operands."""

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


# Branches.


@on((-3,), (0,), (4,))
def sign(n):
    if n < 0:
        s = -1
    elif n == 0:
        s = 0
    else:
        s = 1
    return s


@on((1,), (5,), (12,))
def only_then(n):
    x = 1
    if n > 3:
        x = 2
        if n > 10:
            x += 40
    return x


@on((1, 2), (2, 1))
def swap(a, b):
    if a > b:
        a, b = b, a
    return a, b


@on((1,), (3,), (9,))
def early_return(n):
    if n < 2:
        return 10
    if n < 5:
        return 20
    return 30


@on((1,), (3,), (9,))
def return_in_both(n):
    if n < 2:
        x = n * 2
    else:
        if n > 8:
            return n, -1
        x = n * 3
    return x, n


@on((0,), (1,), (7,))
def falls_through(n):
    x = 5
    if n == 0:
        return x
    elif n == 1:
        x = 6
    else:
        x = 7
    x = x * 10
    return x


@on((3,), (-3,))
def conditional_expression(n):
    return n if n > 0 else -n


@on((0,), (2,), (4,))
def nested_conditional_expressions(n):
    return (1 if n < 1 else 2 if n < 3 else 3) + (10 if n == 2 else 20)


@on((0, 1), (1, 1), (1, 0), (0, 0))
def logic(a, b):
    x = 1 if a == 1 and b == 1 else 0
    y = 1 if a == 1 or b == 1 else 0
    z = 1 if not (a == 1) else 0
    w = 1 if not a and b or a and not b else 0
    return x, y, z, w


@on((-1,), (0,), (3,), (9,), (10,))
def chained(n):
    return (1 if 0 <= n < 10 else 0), (1 if 0 < n <= 3 != 4 else 0)


@on((3,), (7,), (0,))
def membership(n):
    a = 1 if n in (1, 3, 5) else 0
    b = 1 if n not in (1, 3, 5) else 0
    c = 1 if n in (n + 1, 2 * n) else 0
    return a, b, c


@on((3,), (-7,))
def any_and_all(n):
    a = 1 if any([n > 2, n < -100]) else 0
    b = 1 if all(n > x for x in (0, 1, 2)) else 0
    return a, b


@on((7, 2), (2, 7))
def chained_swap(a, b):
    if 0 < a < b < 10:
        return b
    return a


# Names that the rewriting uses itself.


@on((3,))
def names(index):
    chosen = 0
    item = 1
    for body in range(index):
        if body > 1:
            chosen += item
        else:
            item += chosen if chosen > 0 else body
    then_1 = chosen
    result = then_1 + item
    names = result
    stop = names if names > 0 else 2
    return stop, chosen, item


@on((3,))
def assigned_after_use_in_branch(n):
    x = 0
    if n > 1:
        y = n
        x = y + 1
    return x


@on((6,))
def deep(n):
    total = 0
    if n > 0:
        if n > 1:
            for i in range(n):
                if i > 1:
                    while i > 0:
                        if i > 2:
                            if i > 3:
                                total += 1
                            else:
                                total += 2
                        else:
                            for j in range(i):
                                if j > 0:
                                    total += j
                                else:
                                    total += 3
                        i -= 1
    return total


@on((3,), (8,))
def statement_after_guarded_loop(n):
    total = 0
    for i in range(5):
        if i == n:
            return total
        total += i
    total *= 2
    for i in range(n):
        total += 1
        if total > 25:
            break
    return total + 1000


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[f"{f.__name__}{a}" for f, a in CASES])
def test_as_in_python(function, arguments):
    check(function, *arguments)
