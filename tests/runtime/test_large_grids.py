"""Grids of 2**31 points and more: every coordinate is an int32, their number need not be one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.runtime import faults
from tilekit.runtime.cpu import CpuKernel

LAST = 2**31 - 1


@tk.kernel
def marked(out: tk.array1d[tk.int32]):
    i = tk.tid()
    if i >= 2147483645:
        out[i - 2147483644] += 1
    if i < 2:
        out[0] += 1


@tk.kernel
def rows(out: tk.array2d[tk.int32]):
    i, j = tk.tid()
    if i >= 65534 and j >= 65534:
        out[i - 65534, j - 65534] += 1


@tk.kernel
def inner(out: tk.array1d[tk.int32]):
    i, j, _k = tk.tid()
    if j >= 2147483646:
        out[i * 2 + j - 2147483646] += 1


@tk.kernel
def block_rows(out: tk.array1d[tk.int32]):
    i, j = tk.tid()
    tk.tile_store(out, tk.tile_full(shape=1, value=i + j, dtype=tk.int32), offset=i - 65534)


def run_part(kernel: Any, dim: Any, out: Any, parts: list[tuple[int, int]], tiled: bool = False) -> None:
    """Only some of the points, as a thread of a launch runs them; all would take seconds."""
    launch = tk.launch_tiled if tiled else tk.launch
    launch(kernel, dim=tuple(min(extent, 1) for extent in dim), inputs=[out])
    out[...] = 0
    (compiled,) = (form for form in kernel.cache.values() if isinstance(form, CpuKernel))
    values = (out.ctypes.data, *out.shape, *out.strides)
    fault = faults.current()
    memory = np.empty(compiled.generated.arena + 64, np.uint8)
    for begin, end in parts:
        address = -(-memory.ctypes.data // 64) * 64
        compiled.entry(compiled._packed(dim, 0, values), begin, end, address, fault.address)
    assert not fault.record.kind


def test_the_greatest_coordinate() -> None:
    out = np.zeros(4, np.int32)
    run_part(marked, (2**31,), out, [(0, 5), (2**31 - 5, 2**31)])
    assert out.tolist() == [2, 1, 1, 1]
    run_part(marked, (2**31,), out, [(LAST, 2**31)])
    assert out.tolist() == [0, 0, 0, 1]


def test_more_points_than_an_int32_counts() -> None:
    out, points = np.zeros((2, 3), np.int32), 65536 * 65537
    run_part(rows, (65536, 65537), out, [(0, 9), (points - 65537 - 4, points)])
    assert out.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_greatest_coordinate_that_is_not_the_last() -> None:
    out = np.zeros(4, np.int32)
    run_part(inner, (2, 2**31, 1), out, [(2**31 - 3, 2**31 + 2), (2**32 - 2, 2**32)])
    assert out.tolist() == [1, 1, 1, 1]


def test_blocks() -> None:
    out, points = np.zeros(2, np.int32), 65536 * 65537
    run_part(block_rows, (65536, 65537), out, [(points - 65537 - 1, points)], tiled=True)
    assert out.tolist() == [65534 + 65536, 65535 + 65536]


@pytest.mark.deep
def test_all_points() -> None:
    out = np.zeros(4, np.int32)
    tk.launch(marked, dim=2**31, inputs=[out])
    assert out.tolist() == [2, 1, 1, 1]


def test_launches_take_them() -> None:
    tk.launch(marked, dim=2**31, inputs=[np.zeros(4, np.int32)], record_cmd=True)
    tk.launch(rows, dim=(65536, 65537), inputs=[np.zeros((2, 3), np.int32)], record_cmd=True)
