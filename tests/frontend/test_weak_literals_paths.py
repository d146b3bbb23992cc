"""Literals that are chosen at one place of the source on several ways there have a dtype on each."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk

DEVICES = ("cpu", "interpret")


class Method:
    def __call__(self, c):
        return 0.1 if c else 0.3


method = Method()


@tk.kernel
def of_two_dtypes(n: int, x: tk.float64, y: tk.float32, out: tk.array1d[tk.float64], small: tk.array1d[float]):
    pick = lambda c: 0.1 if c else 0.3  # noqa: E731
    out[0] = x * pick(n > 2)
    small[0] = y * pick(n > 2)
    each = [(0.1 if n > i else 0.3) for i in range(2)]
    out[1] = x * each[0]
    small[1] = y * each[1]
    named = {i: (0.1 if n > i else 0.3) for i in (0, 1)}
    out[2] = x * named[0]
    small[2] = y * named[1]
    wide, narrow = tk.tile_full(2, x), tk.tile_full(2, y)
    scaled = lambda v: v * (0.1 if n > 2 else 0.3)  # noqa: E731
    out[3] = tk.tile_map(scaled, wide)[0]
    small[3] = tk.tile_map(scaled, narrow)[1]
    out[4] = x * method(n > 2)
    small[4] = y * method(n > 2)
    p, q = 1 if n > 2 else 2, 1 if n > 2 else 2
    for _ in range(n):
        p, q = p + 0.1, q + 0.3
    out[5] = x * p
    small[5] = y * q


@pytest.mark.parametrize("unroll", [0, 16])
@pytest.mark.parametrize("device", DEVICES)
def test_places_that_are_passed_twice_have_a_dtype_each_time(device, unroll):
    out, small = np.zeros(6), np.zeros(6, np.float32)
    with tk.config.scoped(max_unroll=unroll):
        for n in (1, 3):
            arguments = [n, np.float64(3), np.float32(3)]
            tk.launch_tiled(of_two_dtypes, dim=1, inputs=arguments, outputs=[out, small], block_dim=1, device=device)
            for found, dtype in ((out, np.float64), (small, np.float32)):
                of_0, of_1, last = (dtype(0.1 if n > i else 0.3) for i in range(3))
                one, three = dtype(1 if n > 2 else 2), dtype(3)
                for _ in range(n):
                    one = one + dtype(0.1 if dtype is np.float64 else 0.3)
                item = of_0 if dtype is np.float64 else of_1
                assert found.tolist() == [three * v for v in (last, item, item, last, last, one)]
