"""Points whose checks are known to pass run without them: same results, and the same first error, as with them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.config import config
from tilekit.errors import TilekitError
from tilekit.runtime.program import compile_kernel


@tk.kernel
def heat(u: tk.array2d[float], o: tk.array2d[float], c: float):
    i, j = tk.tid()
    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        o[i, j] = u[i, j] + c * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])


@tk.kernel
def heat_that_returns(u: tk.array2d[float], o: tk.array2d[float], c: float):
    i, j = tk.tid()
    if i == 0 or j == 0 or i == u.shape[0] - 1 or u.shape[1] - 1 == j:
        return
    o[i, j] = u[i, j] + c * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])


@tk.kernel
def shifted(u: tk.array1d[float], o: tk.array1d[float], n: int, m: int):
    i = tk.tid()
    o[i + n] = u[i - m] + u[n] + u[2 * m + i - 1]


@tk.kernel
def halves(u: tk.array1d[float], o: tk.array1d[float], n: int, m: int):
    i = tk.tid()
    if i < n:
        o[i] = u[i] + 1.0
    else:
        o[i] = u[i - n]
    if i != m + 1 and i + 1 >= 3:
        o[i] = o[i] * 2.0
    if 5 <= i:
        o[i - 5] = o[i] + 1.0


@tk.kernel
def first_and_last(u: tk.array2d[float], o: tk.array2d[float], c: float):
    i, j = tk.tid()
    if j == 0:
        o[i, j] = c
    elif j == o.shape[1] - 1:
        o[i, j] = -c
    else:
        o[i, j] = u[j, i] + u[j - 1, i] * c


@tk.kernel
def wrapping(u: tk.array1d[float], o: tk.array1d[float], n: int, m: int):
    i = tk.tid()
    if i + 2147483647 < n:
        o[i] = u[i] + 1.0
    if i < n + 2147483647:
        o[i] = o[i] + u[i] * 3.0
    if i < m * 1073741824:
        o[i] = o[i] + 0.5


@tk.kernel
def beyond_int32(u: tk.array1d[float], o: tk.array1d[float], n: int, m: int):
    i = tk.tid()
    if i < n + 2147483647:
        o[i] = u[i] * 3.0


@tk.kernel
def above(u: tk.array1d[float], o: tk.array1d[float], n: int, m: int):
    i = tk.tid()
    if i > 2:
        o[i] = u[i] + 1.0


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Points run in order, so that what was stored before an error is the same."""
    with config.scoped(num_threads=1):
        yield


def outcome(kernel: tk.Kernel, dim: Any, arguments: list[Any], device: str) -> tuple[list[Any], str]:
    """What the arrays hold after a launch, and what it raised."""
    given = [np.array(item) if isinstance(item, np.ndarray) else item for item in arguments]
    error = ""
    try:
        tk.launch(kernel, dim=dim, inputs=given, device=device)
    except TilekitError as found:
        error = str(found).partition(", in block")[0]
    return [item for item in given if isinstance(item, np.ndarray)], error


def check(kernel: tk.Kernel, dim: Any, arguments: list[Any]) -> str:
    wanted, error = outcome(kernel, dim, arguments, "interpret")
    found, raised = outcome(kernel, dim, arguments, "cpu")
    assert raised.splitlines()[-1:] == error.splitlines()[-1:]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    return error


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).random(shape, dtype=np.float32)


@pytest.mark.parametrize("kernel", [heat, heat_that_returns, first_and_last])
@pytest.mark.parametrize("grid", [(5, 9), (3, 4), (1, 1), (6, 2), (7, 12)])
def test_rows(kernel: tk.Kernel, grid: tuple[int, int], one_thread: None) -> None:
    errors = 0
    for shape in {grid, (5, 9), (9, 5), (7, 3)}:
        errors += bool(check(kernel, grid, [numbers(*shape), numbers(5, 9), np.float32(0.25)]))
    assert errors > 0 or kernel is not first_and_last or grid == (1, 1)


@pytest.mark.parametrize("kernel", [shifted, halves, wrapping, beyond_int32, above])
def test_lines(kernel: tk.Kernel, one_thread: None) -> None:
    for n, m, size in itertools.product((0, 1, 4, -2), (0, 2, -1), (4, 9)):
        for dim in (1, 3, 8):
            check(kernel, dim, [numbers(size), numbers(9), n, m])


def test_strided_and_reversed_arrays(one_thread: None) -> None:
    for view in (numbers(5, 18)[:, ::2], numbers(5, 9)[:, ::-1], numbers(9, 5).T):
        a, b = np.zeros((5, 9), np.float32), np.zeros((5, 9), np.float32)
        tk.launch(heat, dim=(5, 9), inputs=[view, a, 0.25])
        tk.launch(heat, dim=(5, 9), inputs=[np.ascontiguousarray(view), b, 0.25])
        np.testing.assert_array_equal(a, b)
        assert a.any()


def test_a_checked_stencil_is_code_without_branches_inside() -> None:
    source = compile_kernel(heat, tiled=False).source
    assert source.count("if ((tk::u64)") == 0
    assert source.count("if (Guarded && ") == source.count("tk::record(")
    assert source.count("Inside ? true : ") == 4
