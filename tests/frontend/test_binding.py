"""Each name has a value of its own: updating one never changes another, whatever expression led to it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tilekit as tk

X = np.arange(1, 13, dtype=np.float32)
A, B, C = X[:4], X[4:8], X[8:]


def run(kernel: Any, *numbers: Any) -> list[list[float]]:
    """The rows that a kernel stores; the same on every device, for every way of rolling the loops."""
    results = []
    for limit in (0, 1000):
        for device in ("cpu", "interpret"):
            out = np.zeros((3, 4), np.float32)
            with tk.config.scoped(max_unroll=limit):
                tk.launch_tiled(kernel, dim=1, inputs=[X, *numbers], outputs=[out], device=device, block_dim=1)
            results.append(out.tolist())
    assert all(result == results[0] for result in results[1:]), results
    return results[0]


def rows(*tiles: Any) -> list[list[float]]:
    return [np.broadcast_to(np.asarray(tile, np.float32), 4).tolist() for tile in tiles]


class Pair(NamedTuple):
    first: Any
    second: Any


def same(t: Any) -> Any:
    return t


def first_of(pair: Any) -> Any:
    return pair[0]


def bump(t: Any) -> None:
    t += 1.0


def test_a_name_that_is_bound_to_a_tile() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array2d[float]):
        a = tk.tile_load(x, shape=4)
        b = a
        b += a
        c = b
        c[0] = 50.0
        a *= 10.0
        tk.tile_store(out[0], a)
        tk.tile_store(out[1], b)
        tk.tile_store(out[2], c)

    assert run(k) == rows(A * 10, A * 2, [50, *(A[1:] * 2)])


def test_a_product_into_a_copy() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array2d[float]):
        a = tk.tile_reshape(tk.tile_load(x, shape=4), (2, 2))
        acc = tk.tile_reshape(tk.tile_load(x, shape=4, offset=4), (2, 2))
        start, into = acc, a
        tk.tile_matmul(a, a, acc)
        tk.tile_matmul(a, a, into)
        tk.tile_store(out[0], tk.tile_reshape(acc, 4))
        tk.tile_store(out[1], tk.tile_reshape(start, 4))
        tk.tile_store(out[2], tk.tile_reshape(into, 4))

    square = (A.reshape(2, 2) @ A.reshape(2, 2)).reshape(4)
    assert run(k) == rows(B + square, B, A + square)


def test_every_way_to_bind() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], n: int, out: tk.array2d[float]):
        a = tk.tile_load(x, shape=4)
        b: Any = a
        c = d = a
        e, f = a, a
        (g, [h, *i]), j = (a, (a, a, a)), a
        pair = (a, a)
        m, listed = pair[0], [a, a]
        o, named = listed[1], Pair(a, a)
        p, q = named.first, same(a)
        r, s = a if n > 0 else b, a if True else b
        u = first_of((a, b))
        known = {"a": a}
        v = known["a"]
        listed.append(a)
        total = tk.tile_zeros(shape=4)
        for t in (b, c, d, e, f, g, h, *i, j, m, o, p, q, r, s, u, v, *pair, *listed, *named, *known.values()):
            t += 1.0
            total += t
        bump(b), bump(c), bump(d), bump(e), bump(f), bump(g), bump(h), bump(i[0]), bump(i[1]), bump(j), bump(m)
        bump(o), bump(p), bump(q), bump(r), bump(s), bump(u), bump(v), bump(pair[0]), bump(pair[1]), bump(listed[0])
        bump(listed[2]), bump(named.second), bump(known["a"])
        tk.tile_store(out[0], a)
        tk.tile_store(out[1], total)
        tk.tile_store(out[2], d + pair[1] + listed[2] + known["a"] + listed[1])

    assert run(k, 1) == rows(A, (A + 1) * 26, A * 5 + 4)


def test_swaps_and_rotations() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], n: int, out: tk.array2d[float]):
        a = tk.tile_load(x, shape=4)
        b = tk.tile_load(x, shape=4, offset=4)
        c = tk.tile_load(x, shape=4, offset=8)
        a, b = b, a
        first = a
        for _ in range(n):
            a, b = b, a
            a += 1.0
        for _ in range(2):
            a, b, c = b, c, a
        a[0:2], a[2:4] = a[2:4], a[0:2]
        a[0], a[1] = a[1], a[0]
        tk.tile_store(out[0], a)
        tk.tile_store(out[1], b)
        tk.tile_store(out[2], c + first)

    for n in (0, 1, 4):
        a, b, c = B.copy(), A.copy(), C.copy()
        for _ in range(n):
            a, b = b, a
            a = a + 1
        for _ in range(2):
            a, b, c = b, c, a
        assert run(k, n) == rows(a[[3, 2, 0, 1]], b, c + B)


def test_views() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], n: int, out: tk.array2d[float]):
        a = tk.tile_load(x, shape=4)
        b = tk.tile_load(x, shape=4, offset=4)
        v = a[0:2]
        w = v
        v += 1.0
        w += 100.0
        p, q = b[0:2], b[2:4]
        b[0] = 50.0
        q *= 2.0
        whole = b[:]
        whole += 1.0
        old, a = v, tk.tile_zeros(shape=4)
        v += 5.0
        c = tk.tile_zeros(shape=4)
        c[0:2] = w
        c[2:4] = old
        b[0:2] = p + v
        tk.tile_store(out[0], a)
        tk.tile_store(out[1], b)
        tk.tile_store(out[2], c)

    a = A.copy()
    b = B.copy()
    b[0] = 50
    b[2:] *= 2
    b += 1
    b[:2] += A[:2] + 6
    assert run(k, 0) == rows(a * 0, b, [*(A[:2] + 100), *(A[:2] + 1)])


def test_a_broadcast_that_was_copied_can_be_written() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array2d[float]):
        one = tk.tile_load(x, shape=1)
        many = tk.tile_broadcast(one, (4,))
        own = many
        own[2] = 9.0
        tk.tile_store(out[0], own)
        tk.tile_store(out[1], many)

    assert run(k) == rows([1, 1, 9, 1], 1, 0)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_where_control_flow_joins_a_name_becomes_a_value(n: int) -> None:
    @tk.kernel
    def k(x: tk.array1d[float], n: int, out: tk.array2d[float]):
        a = tk.tile_load(x, shape=4)
        b = tk.tile_load(x, shape=4, offset=4)
        v = a[0:2]
        if n > 1:
            v = b[0:2]
        v += 100.0
        w = a[2:4]
        for _ in range(n):
            w = w + 1.0
        w += 100.0
        best = a
        for i in range(3):
            b += 1.0
            if i == n:
                best = b
        best += 10.0
        tk.tile_store(out[0], a)
        tk.tile_store(out[1], best)
        a[0:2] = v
        a[2:4] = w
        tk.tile_store(out[2], a)

    best = B + n + 1 if n < 3 else A
    half = B if n > 1 else A
    assert run(k, n) == rows(A, best + 10, [*(half[:2] + 100), *(A[2:] + n + 100)])


def updated(t: Any) -> None:
    t[0] = 50.0
    tk.tile_assign(t, t + 1.0)


def rebound(t: Any, n: int) -> None:
    bump(t)
    t = t * 2.0
    t += 100.0


@pytest.mark.parametrize("n", [0, 3])
def test_parameters_are_the_callers_own_until_they_are_bound(n: int) -> None:
    def bound_in_a_branch(t: Any, n: int) -> Any:
        if n > 1:
            t = t * 2.0
        t += 1.0
        return t

    def bound_in_a_loop(t: Any, n: int) -> Any:
        for _ in range(n):
            t = t + 1.0
        t += 1.0
        return t

    def filled(t: Any, into: Any = None) -> Any:
        if into is None:
            into = tk.tile_zeros(shape=2)
        into += t
        return into

    @tk.kernel
    def k(x: tk.array1d[float], n: int, out: tk.array2d[float]):
        a = tk.tile_load(x, shape=4)
        b = tk.tile_load(x, shape=4, offset=4)
        v = a[2:4]
        updated(a[0:2])
        rebound(v, n)
        c = bound_in_a_branch(b, n) + bound_in_a_loop(b, n)
        bump(b if n > 1 else a)
        bump(same(b))
        acc = tk.tile_zeros(shape=2)
        last = filled(v, acc)
        last += filled(v)
        filled(acc, c[0:2])
        tk.tile_store(out[0], a)
        tk.tile_store(out[1], b)
        tk.tile_store(out[2], c)

    a = np.array([51, 3, 4, 5], np.float32)
    c = (B * 2 if n > 1 else B) + 1 + B + n + 1
    assert run(k, n) == rows(a, B, c + np.array([4, 5, 0, 0]))


def test_items_of_lists_are_values_of_their_own() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], n: int, out: tk.array2d[float]):
        a = tk.tile_load(x, shape=4)
        tiles = [a] * 2
        tiles += [a]
        tiles.insert(0, a)
        tiles[1] = a
        more = tiles[1:]
        copies = [t for t in tiles]
        for i in range(n):
            tiles[0] += 1.0
            bump(more[0])
        bump(copies[1])
        known = {"a": a}
        known["b"] = a
        known.update({"c": a})
        bump(known["b"])
        bump(known["c"])
        tk.tile_store(out[0], a + known["a"])
        tk.tile_store(out[1], tiles[0] + tiles[1] + tiles[2] + tiles[3])
        tk.tile_store(out[2], more[0] + more[1] + copies[0] + copies[1] + known["b"] + known["c"])

    assert run(k, 3) == rows(A * 2, A * 4 + 3, A * 6 + 3 + 1 + 2)


def test_arrays_stay_arrays() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array2d[float]):
        o = out
        o[0, 1] = x[0] + 4.0

    assert run(k)[0] == [0, 5, 0, 0]


def test_copies_of_a_tile_without_elements_yet() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array2d[float]):
        a = tk.tile_empty(shape=4, dtype=float)
        b = a
        for i in range(4):
            b[i] = x[i]
        a[:] = b
        tk.tile_store(out[0], a)

    assert run(k)[0] == A.tolist()

    @tk.kernel
    def reads(x: tk.array1d[float], out: tk.array2d[float]):
        a = tk.tile_empty(shape=4, dtype=float)
        b = a
        a[:] = tk.tile_load(x, shape=4)
        tk.tile_store(out[0], b)

    with pytest.raises(tk.errors.UninitializedError, match="that tile_empty made at line"):
        run(reads)

    @tk.kernel
    def reads_part(x: tk.array1d[float], n: int, out: tk.array2d[float]):
        a = tk.tile_empty(shape=4, dtype=float)
        a[n] = 1.0
        b = a
        a[:] = tk.tile_load(x, shape=4)
        tk.tile_store(out[0], b)

    out = np.zeros((3, 4), np.float32)
    with pytest.raises(tk.errors.UninitializedError, match=r"element \[0\] of a tile<4xf32>"):
        tk.launch_tiled(reads_part, dim=1, inputs=[X, 2], outputs=[out], device="interpret", block_dim=1)
