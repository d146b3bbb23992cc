"""``and``, ``or`` and chained comparisons: the operand that Python returns, traced once."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import tilekit as tk
from tests.frontend.running import check
from tilekit.ir.context import Builder


def default(n):
    return (n or 7) * 10


def guarded(n):
    return (n and n + 5) * 2


def middle(a, b):
    return a and b or 3, (a or b) and a - b, a or b or 9, a and b and a * b


def floats(x):
    return (x or 0.5) * 3.0, (x and 1.5) + x


def known_first(n):
    none, one = 0, 1
    return one and n, none or n, (one or n) + 1, none and n, (n and none) + 4, (n or one) + 4


def bools(n):
    low, high = n > 0 and n < 5, n < 0 or n > 9
    return (1 if low else 0), (1 if high else 0), (1 if low or high else 0), (2 if (n > 3 and True) else 1)


def conditions(a, x):
    """Of conditions only the truth is asked: operands may differ in type."""
    found = 0
    if a and x:
        found = found + 1
    if not (a or x):
        found = found + 10
    while a and x < 4.0:
        x = x + 1.0
        found = found + 100
    assert a or x or True
    return found + (1000 if x or a > 2 else 2000)


def in_a_loop(n):
    total = 0
    for i in range(n):
        total = (total or 100) + (i and n)
    return total


@pytest.mark.parametrize("function", [default, guarded, known_first, bools, in_a_loop])
@pytest.mark.parametrize("n", [-3, 0, 2, 12])
def test_of_one_run_time_number(function, n):
    check(function, n)


@pytest.mark.parametrize("a", [-2, 0, 5])
@pytest.mark.parametrize("b", [0, 3])
def test_of_two_run_time_numbers(a, b):
    check(middle, a, b)


@pytest.mark.parametrize("x", [0.0, -0.0, 2.5, float("nan")])
def test_of_floats(x):
    expected = (((x or 0.5) * 3.0), (x and 1.5) + x)
    if x == x:
        check(floats, x, expected=expected)
    else:
        check(lambda x: 1 if x or False else 0, x)


@pytest.mark.parametrize(("a", "x"), [(0, 0.0), (1, 0.0), (1, 2.5), (0, 7.0)])
def test_conditions_ask_for_the_truth_alone(a, x):
    check(conditions, a, x)


@tk.kernel
def of_elements(x: tk.array1d[tk.int32], out: tk.array1d[tk.int32]):
    i = tk.tid()
    out[i] = (x[i] or x[i + 1] or 7) * 10 + (x[i] and x[i + 2])


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_of_elements(device):
    x = np.array([0, 0, 3, 4, 0, 0], np.int32)
    out = np.zeros(4, np.int32)
    tk.launch(of_elements, dim=4, inputs=[x], outputs=[out], device=device)
    a, b, c = x[:4].tolist(), x[1:5].tolist(), x[2:].tolist()
    assert out.tolist() == [(p or q or 7) * 10 + (p and r) for p, q, r in zip(a, b, c, strict=True)]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_the_right_side_runs_only_where_it_is_reached(device):
    @tk.kernel
    def within(x: tk.array1d[tk.int32], out: tk.array1d[tk.int32]):
        i = tk.tid()
        out[i] = tk.int32(i < 3 and x[i] > 0 or i > 4 and x[i - 5] > 0)
        if 0 <= i < 3 and x[i] or i > 4:
            out[i] += 10

    out = np.zeros(8, np.int32)
    tk.launch(within, dim=8, inputs=[np.int32([1, 0, 2])], outputs=[out], device=device)
    assert out.tolist() == [11, 0, 11, 0, 0, 11, 10, 11]


@pytest.mark.parametrize("word", ["and", "or", "<"])
@pytest.mark.parametrize("terms", [16, 20, 40])
def test_each_operand_is_traced_once(word, terms, tmp_path, monkeypatch):
    term = "x[{}]" if word == "<" else "x[{}] > 0"
    text = f" {word} ".join(term.format(i) for i in range(terms))
    path = tmp_path / f"chain_{terms}.py"
    path.write_text(
        "import tilekit as tk\n\n\n@tk.kernel\ndef chain(x: tk.array1d[tk.int32], out: tk.array1d[tk.int32]):\n"
        f"    if {text}:\n        out[0] = 1\n    out[1] = 1 if {text} else 0\n"
    )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, out = np.arange(1, terms + 1, dtype=np.int32), np.zeros(2, np.int32)
    traced, apply = [], Builder.apply
    monkeypatch.setattr(Builder, "apply", lambda self, *given: (traced.append(given[0].name), apply(self, *given))[1])
    tk.launch_tiled(module.chain, dim=1, inputs=[x], outputs=[out])
    assert out.tolist() == [1, 1]
    assert traced.count("element_load") == 2 * terms
