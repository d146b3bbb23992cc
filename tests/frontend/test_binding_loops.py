"""Names that are bound to tiles in branches and loops: updating one never changes another."""

import numpy as np
import pytest

import tilekit as tk


def run(kernel, *arguments, device="cpu"):
    out = np.zeros(4, np.float32)
    tk.launch_tiled(kernel, dim=1, inputs=list(arguments), outputs=[out], block_dim=32, device=device)
    return out.tolist()


@tk.kernel
def chosen_by_elif(c: int, out: tk.array1d[float]):
    a = tk.tile_zeros(shape=4, dtype=float)
    b = tk.tile_ones(shape=4, dtype=float)
    e = tk.tile_full(shape=4, value=5.0, dtype=float)
    if c == 0:
        x = a
    elif c == 1:
        x = b
    else:
        x = e
    x += 1.0
    tk.tile_store(out, b)


@tk.kernel
def bound_in_the_loop(n: int, out: tk.array1d[float]):
    a = tk.tile_zeros(shape=4, dtype=float)
    b = tk.tile_ones(shape=4, dtype=float)
    for _ in range(n):
        b += 1.0
        b = a
    tk.tile_store(out, a)


@tk.kernel
def two_names_after_an_iteration(n: int, out: tk.array1d[float]):
    a = tk.tile_zeros(shape=4, dtype=float)
    b = tk.tile_ones(shape=4, dtype=float)
    total = tk.tile_zeros(shape=4, dtype=float)
    for _ in range(n):
        a += 1.0
        total += b
        a = tk.tile_zeros(shape=4, dtype=float)
        b = a
    tk.tile_store(out, total)


@tk.kernel
def updated_in_the_iteration_before(n: int, out: tk.array1d[float]):
    a = tk.tile_zeros(shape=4, dtype=float)
    b = tk.tile_ones(shape=4, dtype=float)
    total = tk.tile_zeros(shape=4, dtype=float)
    x = a if n > 2 else b
    for _ in range(n):
        total += a
        x += 1.0
    tk.tile_store(out, total)


@tk.kernel
def swapped(n: int, out: tk.array1d[float]):
    a = tk.tile_zeros(shape=4, dtype=float)
    b = tk.tile_ones(shape=4, dtype=float)
    first = b
    for _ in range(n):
        a, b = b, a
    a += 1.0
    tk.tile_store(out, first)


@tk.kernel
def found_by_the_loop(n: int, out: tk.array1d[float]):
    a = tk.tile_zeros(shape=4, dtype=float)
    for _ in range(100):
        x = a
    x += 1.0
    tk.tile_store(out, a)


RIGHT = {
    chosen_by_elif: 1.0,
    bound_in_the_loop: 0.0,
    two_names_after_an_iteration: 1.0,
    updated_in_the_iteration_before: 0.0,
    swapped: 1.0,
    found_by_the_loop: 0.0,
}


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("kernel", RIGHT, ids=lambda kernel: kernel.key)
def test_tiles_that_two_names_were_bound_to(kernel, n):
    for device in ("cpu", "interpret"):
        assert run(kernel, n, device=device) == [RIGHT[kernel]] * 4


@tk.kernel
def double_buffer(n: int, out: tk.array1d[float]):
    total = tk.tile_zeros(shape=4, dtype=float)
    now = tk.tile_full(shape=4, value=1.0, dtype=float)
    later = tk.tile_zeros(shape=4, dtype=float)
    for i in range(n):
        tk.tile_assign(later, tk.tile_full(shape=4, value=float(i + 2), dtype=float))
        total += now
        now, later = later, now
    tk.tile_store(out, total)


@tk.kernel
def rotated(n: int, out: tk.array1d[float]):
    a = tk.tile_full(shape=4, value=1.0, dtype=float)
    b = tk.tile_full(shape=4, value=2.0, dtype=float)
    c = tk.tile_full(shape=4, value=3.0, dtype=float)
    total = tk.tile_zeros(shape=4, dtype=float)
    for _ in range(n):
        a += 10.0
        total += b * 100.0 + c
        a, b, c = b, c, a
    tk.tile_store(out, total + a)


@tk.kernel
def one_branch_updates(c: int, out: tk.array1d[float]):
    a = tk.tile_zeros(shape=4, dtype=float)
    b = tk.tile_ones(shape=4, dtype=float)
    x = a if c > 0 else b
    if c > 5:
        x += 1.0
    else:
        tk.tile_store(out, a + 3.0)


@pytest.mark.parametrize("kernel", [double_buffer, rotated], ids=lambda kernel: kernel.key)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_tiles_that_change_places_stay_apart(kernel, n):
    out = np.zeros(4, np.float32)
    if kernel is double_buffer:
        expected = sum(range(1, n + 1))
    else:
        a, b, c, total = 1.0, 2.0, 3.0, 0.0
        for _ in range(n):
            a += 10.0
            total += b * 100.0 + c
            a, b, c = b, c, a
        expected = total + a
    for device in ("cpu", "interpret"):
        tk.launch_tiled(kernel, dim=1, inputs=[n], outputs=[out], block_dim=32, device=device)
        assert out.tolist() == [expected] * 4


def test_what_one_branch_updates_the_other_may_read():
    assert run(one_branch_updates, 1) == [3.0] * 4


def bump(t):
    t += 1.0
    return True


@tk.kernel
def updates_in_a_condition(n: int, out: tk.array1d[float]):
    t = tk.tile_zeros(shape=4, dtype=float)
    if n > 0 and bump(t):
        t += 10.0
    tk.tile_store(out, t)


def test_an_operand_of_and_may_update_a_tile():
    assert run(updates_in_a_condition, 1) == [11.0] * 4
    assert run(updates_in_a_condition, 0) == [0.0] * 4
