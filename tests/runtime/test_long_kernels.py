"""Kernels of thousands of lines and hundreds of branches: the same results, in time that grows with their size."""

from __future__ import annotations

import linecache
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.timing import allowed
from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.ir.nesting import MOST_NESTED, nesting
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.runtime.program import compile_kernel

HEAD = "def k(a: tk.array1d[float], o: tk.array1d[float], n: int):\n    i = tk.tid()\n"


def kernel(body: str) -> tk.Kernel:
    """A kernel of this body."""
    text, name = f"@tk.kernel\n{HEAD}{body}", f"<long {len(linecache.cache)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"tk": tk, "__name__": "long"}
    exec(compile(text, name, "exec"), names)
    return names["k"]  # type: ignore[no-any-return]


def elifs(count: int) -> str:
    tests = "".join(f"    {'el' if j else ''}if n == {j}:\n        v = a[i] * {j}.0\n" for j in range(count))
    return f"    v = a[i]\n{tests}    o[i] = v\n"


def returns(count: int) -> str:
    return "".join(f"    if n == {j}:\n        return\n    o[i] = o[i] + a[i]\n" for j in range(count))


def continues(count: int) -> str:
    guards = "".join(f"        if j == {j}:\n            continue\n        v = v + {j}.0\n" for j in range(count))
    return f"    v = a[i]\n    for j in range(n):\n{guards}    o[i] = v\n"


def lines(count: int) -> str:
    return "    o[i] = o[i] + a[i] * 0.5\n" * count


def result(k: tk.Kernel, n: int, device: str) -> float:
    a, o = np.ones(4, np.float32), np.zeros(4, np.float32)
    tk.launch(k, dim=4, inputs=[a, o, n], device=device)
    assert (o == o[0]).all()
    return float(o[0])


WANTED: list[Any] = [
    (elifs, 199, 199.0),
    (returns, 150, 150.0),
    pytest.param(
        *(continues, 4, 1.0 + sum(sum(range(j)) for j in range(4))),  # iteration j ends at guard j
        marks=pytest.mark.deep,
    ),
]


@pytest.mark.parametrize("device", ["cpu", pytest.param("interpret", marks=pytest.mark.deep)])
@pytest.mark.parametrize(("body", "n", "wanted"), WANTED)
def test_five_hundred_branches(body: Callable[[int], str], n: int, wanted: float, device: str) -> None:
    limit = sys.getrecursionlimit()
    assert result(kernel(body(500 if device == "cpu" else 250)), n, device) == wanted
    assert sys.getrecursionlimit() == limit


def test_passes_take_time_in_proportion_to_the_branches() -> None:
    took = {}
    for count in (60, 240):
        k = kernel(continues(count))
        start = time.process_time()
        compile_kernel(k, tiled=False)
        took[count] = time.process_time() - start
    assert took[240] < allowed(16 * took[60]), took  # it was a hundred and more


def test_branches_that_nest_without_end_are_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_NESTED == 1000
    monkeypatch.setattr("tilekit.ir.context.MOST_NESTED", 20)
    k = kernel(returns(21))
    with pytest.raises(KernelNotImplementedError) as caught:
        compile_kernel(k, tiled=False)
    assert caught.value.message == (
        "branches and loops nest more than 20 deep; compute what is chosen, or load it from an array"
    )
    assert caught.value.location is not None


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_a_thousand_lines_compute_what_one_loop_does(device: str) -> None:
    count = 1000 if device == "cpu" else 100
    assert result(kernel(lines(count)), 1, device) == count / 2


def test_an_index_is_checked_once_where_it_was_checked_before() -> None:
    """In braces that are left nothing is known; a name that changes was not checked."""
    body = "    o[i] = o[i] + a[i]\n    if n > 0:\n        o[n] = a[n]\n    o[n] = a[n]\n"
    source = compile_kernel(kernel(body), tiled=False).source
    assert source.count("tk::kIndexError") == 2 + 2 + 2
    changing = "    j = 0\n    while j < n:\n        o[j] = a[j]\n        j = j + 1\n        o[j] = 2.0\n"
    assert compile_kernel(kernel(changing), tiled=False).source.count("tk::kIndexError") == 3


def test_what_only_carries_itself_goes_at_any_depth() -> None:
    inner = "    for j in range(n):\n        v = v + 1.0\n        for l in range(n):\n            w = w + v\n"
    k = kernel(f"    v = 0.0\n    w = 0.0\n{inner}    o[i] = a[i]\n")
    function = k.trace(k.default_types(None), LaunchForm(False, 1, 256))
    assert nesting(function.body) == 3
    cleaned = eliminate_dead_code(function)
    assert not any(op.blocks for op in walk(cleaned.body))
    assert eliminate_dead_code(cleaned) is cleaned
