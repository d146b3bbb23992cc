"""Tiles through branches, loops, helpers and tuples: carried by name, and updated in place."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk

UNROLL = (0, 1000)
DATA = np.arange(1, 17, dtype=np.float32)


def run(kernel, *numbers, size=4):
    """The output for every way of rolling the loops; all are the same."""
    results = []
    for limit in UNROLL:
        for device in ("cpu", "interpret"):
            out = np.zeros(size, np.float32)
            with tk.config.scoped(max_unroll=limit):
                inputs = [DATA.copy(), *numbers]
                tk.launch_tiled(kernel, dim=1, inputs=inputs, outputs=[out], device=device, block_dim=1)
            results.append(out)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    return results[0].tolist()


def test_software_pipeline():
    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        total = tk.tile_zeros(shape=4)
        current = tk.tile_load(a, shape=4)
        for i in range(n):
            following = tk.tile_load(a, shape=4, offset=(i + 1) * 4)
            total += current
            current = following
        tk.tile_store(out, total + current)

    assert run(k, 3) == DATA.reshape(4, 4).sum(axis=0).tolist()


def test_tiles_that_change_places():
    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        u = tk.tile_load(a, shape=4, offset=4)
        for _ in range(n):
            t, u = u, t + u
        tk.tile_store(out, u)

    t, u = DATA[:4], DATA[4:8]
    for _ in range(5):
        t, u = u, t + u
    assert run(k, 5) == u.tolist()


def test_constant_trips():
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        for i in range(3):
            t = t * 2.0 + float(i)
        tk.tile_store(out, t)

    assert run(k) == (DATA[:4] * 8 + 4).tolist()


@pytest.mark.parametrize("n", [0, 1, 5])
def test_updated_in_place_in_branches(n):
    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        other = t
        if n > 3:
            t += 1.0
        elif n > 0:
            other *= 10.0
        tk.tile_store(out, t)
        tk.tile_store(out, other, offset=4)

    first, second = DATA[:4] + (n > 3), DATA[:4] * (10 if 0 < n <= 3 else 1)
    assert run(k, n, size=8) == [*first, *second]


def test_updated_in_place_by_helpers_and_through_tuples():
    def add(t, value):
        t += value

    def add_all(tiles, value):
        for t in tiles:
            add(t, 1e6)  # a value of its own
        add(tiles[0], value)
        add(tiles[1], value)

    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        u = tk.tile_load(a, shape=4, offset=4)
        pair = (t, u)
        for i in range(n):
            add_all(pair, float(i))
            add(pair[1], 100.0)
        tk.tile_store(out, t + pair[0])
        tk.tile_store(out, u + pair[1], offset=4)

    assert run(k, 3, size=8) == [*(DATA[:4] * 2 + 3), *(DATA[4:8] * 2 + 303)]


def test_views_write_to_their_tile_inside_loops():
    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        half = t[0:2]
        for i in range(n):
            half += 1.0
            t[3] = t[3] + t[0]
        tk.tile_store(out, t)

    t = DATA[:4].copy()
    for _ in range(3):
        t[:2] += 1
        t[3] += t[0]
    assert run(k, 3) == t.tolist()


def test_early_return_of_a_kernel():
    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        for i in range(4):
            if i == n:
                return
            t += 1.0
            tk.tile_store(out, t)
        tk.tile_store(out, t * 100.0)

    assert run(k, 2) == (DATA[:4] + 2).tolist()
    assert run(k, 9) == ((DATA[:4] + 4) * 100).tolist()


def test_helpers_return_tiles_from_loops_and_branches():
    def first_large(a, limit):
        for i in range(4):
            t = tk.tile_load(a, shape=4, offset=i * 4)
            if t[0] > limit:
                return t, i
        return tk.tile_zeros(shape=4), -1

    @tk.kernel
    def k(a: tk.array1d[float], limit: float, out: tk.array1d[float]):
        t, i = first_large(a, limit)
        t += float(i)
        tk.tile_store(out, t)

    assert run(k, 6.0) == (DATA[8:12] + 2).tolist()
    assert run(k, 60.0) == [-1.0] * 4


def test_a_chosen_tile_has_storage_of_its_own():
    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        u = tk.tile_load(a, shape=4, offset=4)
        chosen = t if n > 2 else u
        tk.tile_store(out, chosen + 1.0)

    assert run(k, 3) == (DATA[:4] + 1).tolist()
    assert run(k, 1) == (DATA[4:8] + 1).tolist()


def test_updating_a_chosen_tile_leaves_those_it_was_chosen_from():
    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        u = tk.tile_load(a, shape=4, offset=4)
        chosen = t if n > 2 else u
        chosen += 1.0
        tk.tile_store(out, t + u * 100.0)
        tk.tile_store(out, chosen, offset=4)

    assert run(k, 3, size=8) == [*(DATA[:4] + DATA[4:8] * 100), *(DATA[:4] + 1)]
    assert run(k, 1, size=8) == [*(DATA[:4] + DATA[4:8] * 100), *(DATA[4:8] + 1)]


# Elements of arrays and what decides whether they are read.


def test_and_reads_no_element_that_the_left_side_excludes():
    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        count = 0
        i = 0
        while i < n and a[i] < 100.0:
            if i + 1 < a.shape[0] and a[i + 1] > 3.0:
                count += 1
            i += 1
        if n < 0 or n > 100 or a[n - 1] > 0.0:
            count += 1000
        out[0] = float(count)
        out[1] = a[i] if i < a.shape[0] else -1.0

    assert run(k, 16)[:2] == [1013.0, -1.0]


def test_elements_in_loops():
    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        for i in range(n - 1, -1, -1):
            out[n - 1 - i] = a[i]
            if i == 1:
                break

    assert run(k, 4) == [4.0, 3.0, 2.0, 0.0]


def test_a_chain_of_comparisons_reads_no_element_that_its_beginning_excludes():
    @tk.kernel
    def k(a: tk.array1d[float], n: int, out: tk.array1d[float]):
        for i in range(-2, n):
            if 0 <= i < 16 and 2.0 < a[i] <= 5.0:
                out[0] += 1.0
            if 0 <= i < int(a[i] * 0.5):
                out[1] += 1.0

    assert run(k, 16)[:2] == [3.0, 0.0]
