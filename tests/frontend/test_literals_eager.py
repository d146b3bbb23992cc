"""Eager execution computes the same bits as the compiled form where literals take dtypes that control flow decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilekit as tk
from tests.frontend.running import compiled


def literal_through_loop(n):
    x = 0
    for i in range(n):
        x += tk.float32(i) * 0.1
    return x


def literal_after_no_iteration(n):
    x = 16777217
    for i in range(n):
        x += tk.float32(i)
    return x


def wraps_in_loop(n):
    x = 1
    for _ in range(n):
        x *= 3
    return x


def reset_in_loop(n):
    x = tk.float32(0.0)
    total = 0
    for i in range(n):
        if i % 2 == 0:
            x = 0
        x += 0.1
        total += x
    return total, x


def literal_in_branch(n):
    x = 0.1 if n > 2 else 1
    return tk.float64(x) * 3.0


def literals_in_branches(n):
    if n > 2:
        x = 1
    elif n > 1:
        x = 0.1
    else:
        x = 7
    return x / 2, x


def branch_then_float(n):
    x = 3
    if n > 1:
        x = tk.float32(n) / 3.0
    return x / 2


def division_changes(n):
    x = 1
    k = 0
    while x / 2 < 3:
        x += 0.5
        k += 1
        if k > n:
            break
    return x, k


def nested_loops(n):
    best = 0
    count = 0
    for i in range(n):
        row = 0
        for j in range(i, n):
            row += tk.float32(i * j) * 0.3
            if row > 5:
                count += 1
                break
        if row > best:
            best = row
    return best, count


def break_keeps_literal(n):
    x = 0
    for i in range(100):
        if i == n:
            break
        x = 0.1
    return x / 4


def break_in_unrolled(n):
    x = 0
    for i in (1, 2, 3, 4):
        if n == i:
            break
        x = x + 0.1
    return x / 4


def break_sets_in_unrolled(n):
    x = 5
    for i in (1, 2, 3):
        if n == i:
            x = 7
            break
        if n == i + 10:
            x = 0.5
    return x / 2


def continue_with_literal(n):
    x = 0
    for i in range(n):
        if i % 3 == 0:
            x = 1
            continue
        x = x / 2 + tk.float32(0.25)
    return x


def early_return(n):
    if n > 5:
        return 1
    if n > 3:
        return 0.1
    for i in range(n):
        if i == 2:
            return 7.5
    return 0.7


def halve(x):
    return x / 2


def helper_twice(n):
    a = 3
    b = 3
    if n > 1:
        a = 5
        b = 0.5
    return halve(a), halve(b), halve(3), halve(tk.float32(n))


def pick(flag, a, b):
    r = a
    if flag:
        r = b
    return r / 2


def helper_with_kinds(n):
    flag = n > 2
    return pick(flag, 1, 2), pick(flag, 1, 0.3), pick(flag, 0.3, tk.float64(0.1)), pick(flag, n, 7)


def tuple_of_literals(n):
    pair = (1, 0.1)
    if n > 2:
        pair = (2, 3)
    return pair[0] / 2, pair[1] / 2


def and_or_values(n):
    a = (n and 3) / 2
    b = (n or 7) / 2
    c = 0 or n > 1
    return tk.float32(a), tk.float32(b), tk.float32(c), tk.float32(not n)


def comparison_chain(n):
    return tk.float32(1 < n < 5), tk.float32(0 <= n <= 2 <= 3)


def remainders(n):
    x = -7
    if n > 100:
        x = 7
    return x / 2, x // 2, x % 3, (-n) % 3, (-n) // 2, (-n) / 2


def index_types(n):
    total = 0
    for i in range(n):
        total += i * 100000007
    for i in range(50):
        if i > n:
            break
        total += i * 30000007
    return total


def while_with_literals(n):
    x, steps = 1, 0
    while x < 1000 and steps < n:
        x = x * 3 if steps % 2 else x + 1
        steps += 1
    return x, steps


def literal_float_becomes_float64(n):
    x = 0.1
    for i in range(n):
        x = x + tk.float64(i)
    return x


def return_inside_two_loops(n):
    for i in range(n):
        for j in range(n):
            if i * j == 6:
                return tk.float32(i) / 3.0
    return 0.1


PROGRAMS: list[Callable[..., Any]] = [
    value
    for value in list(globals().values())
    if getattr(value, "__module__", "") == __name__ and value.__code__.co_varnames[:1] == ("n",)
]


@pytest.mark.parametrize(
    ("program", "unroll"),
    [
        pytest.param(program, unroll, marks=[pytest.mark.deep] * ((number + at) % 2))
        for number, program in enumerate(PROGRAMS)
        for at, unroll in enumerate((0, 1000))
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_same_bits(program, unroll):
    with tk.config.scoped(max_unroll=unroll):
        for n in (0, 1, 2, 3, 4, 11):
            wanted = compiled(program, n)
            found = compiled(program, n, device="interpret")
            assert [x.hex() for x in found] == [x.hex() for x in wanted], n
