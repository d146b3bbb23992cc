"""The index of a range has a dtype, also where its loop is unrolled: it computes as at run time, as a constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.frontend.test_weak_literals import DEVICES, store


@tk.kernel
def by_an_index(o: tk.array1d[tk.int64]):
    for k in range(3):
        o[k] = tk.int64(k * 2000000000)
    for k in tk.static_range(3):
        o[3 + k] = k * 2000000000


@pytest.mark.parametrize("unroll", [0, 16])
@pytest.mark.parametrize("device", DEVICES)
def test_an_index_is_an_int32_however_its_loop_is_compiled(device, unroll):
    found = store(by_an_index, np.zeros(6, np.int64), device=device, unroll=unroll)
    assert found.tolist() == [0, 2000000000, -294967296, 0, 2000000000, 4000000000]


def mixed_with_int64(o, x, k):
    o[0] = tk.int64(k) + k


def mixed_with_a_float(o, x, k):
    x[0] = x[0] * k


def mixed_with_a_literal(o, x, k):
    x[0] = tk.float64(k * 0.5)


def compared_with_a_literal(o, x, k):
    if k < 2.5:
        o[0] += tk.int64(1)


def stored_as_float(o, x, k):
    x[k] = k


def raised(o, x, k):
    o[k] = tk.int64(k**2)


def negated(o, x, k):
    o[k] = tk.int64(-(k + 2147483646) - abs(k) + (k << 30) + ~k + min(k, 1) + (k % 2) + k // 2)


def as_a_float(o, x, k):
    x[k] = float(k) * tk.float64(0.1)


def as_a_wider_float(o, x, k):
    x[k] = tk.float64(k) * 0.1 + tk.float64(float(k) / 3.0)


MIXED = (mixed_with_int64, mixed_with_a_float, mixed_with_a_literal, compared_with_a_literal, stored_as_float, raised,
         negated, as_a_float, as_a_wider_float)  # fmt: skip


def outcome(body: Callable[..., Any], count: int, unroll: int, device: str) -> Any:
    @tk.kernel
    def constant(o: tk.array1d[tk.int64], x: tk.array1d[tk.float64], n: int):
        for k in range(count):
            body(o, x, k)

    @tk.kernel
    def run_time(o: tk.array1d[tk.int64], x: tk.array1d[tk.float64], n: int):
        for k in range(n):
            body(o, x, k)

    kernel = run_time if unroll < 0 else constant
    o, x = np.zeros(4, np.int64), np.ones(4)
    try:
        with tk.config.scoped(max_unroll=max(unroll, 0)):
            tk.launch_tiled(kernel, dim=1, inputs=[o, x, count], block_dim=1, device=device)
    except tk.errors.TilekitError as error:
        return type(error), error.message
    return o.tobytes(), x.tobytes()


@pytest.mark.parametrize("body", MIXED, ids=lambda f: f.__name__)
def test_an_index_meets_dtypes_alike_however_its_loop_is_compiled(body):
    wanted = outcome(body, 3, -1, "cpu")
    for unroll in (-1, 0, 16):
        for device in DEVICES:
            assert outcome(body, 3, unroll, device) == wanted, (unroll, device)


@tk.kernel
def indexing(out: tk.array1d[float]):
    taps = (0.25, 0.5, 0.25)
    names = {0: 1.0, 1: 2.0, 2: 3.0}
    tiles = [tk.tile_zeros(2 + k) for k in range(3)]
    for k in range(3):
        ones = tk.tile_ones(k + 1)
        out[k] = taps[k] * names[k] + float(len(tiles[k])) + tk.tile_sum(ones)[0]
        tk.tile_store(out, ones, offset=3)
        for j in range(k, 3):
            out[3 + j] += float(j) * taps[j - k]


@pytest.mark.parametrize("device", DEVICES)
def test_an_unrolled_index_chooses_items_shapes_and_offsets(device):
    found = store(indexing, np.zeros(6, np.float32), device=device)
    assert found.tolist() == [3.25, 6.0, 7.75, 1.0, 1.0, 1.5]
