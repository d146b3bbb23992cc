"""Gradients of kernels that read an array and write it: exact where all reads and writes are at one place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.passes.finite_differences import traced
from tilekit.errors import KernelNotImplementedError
from tilekit.passes.differentiate import differentiate
from tilekit.runtime.adjoint import launch_adjoint

A1 = tk.array1d[tk.float64]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(4).standard_normal(shape)


def gradients(kernel: Any, dim: int, **arguments: Any) -> dict[str, np.ndarray]:
    """For a seed of the first array, on the CPU, as on the interpreter."""
    found = []
    for device in ("cpu", "interpret"):
        given = {name: np.zeros_like(value) for name, value in arguments.items()}
        given["a"][...] = np.arange(1.0, 1.0 + given["a"].size)
        launch_adjoint(kernel, dim, list(arguments.values()), given, device=device)
        found.append(given)
    for name, value in found[0].items():
        np.testing.assert_allclose(value, found[1][name], rtol=1e-12)
    return found[0]


@tk.kernel
def added(a: A1, b: A1):
    """What the array held counts three times, what is added once for each block and iteration."""
    i = tk.tid()
    for k in range(3):
        old = tk.tile_load(a, shape=4, offset=i * 4)
        tk.tile_store(a, old + tk.tile_load(b, shape=4, offset=k), offset=i * 4)
    tk.tile_store(a, tk.tile_load(a, shape=4, offset=i * 4) * 3.0, offset=i * 4)


def test_an_array_that_is_updated_in_place() -> None:
    found = gradients(added, 2, a=normal(8), b=normal(6))
    seed = np.arange(1.0, 9.0)
    np.testing.assert_allclose(found["a"], 3 * seed)
    total = 3 * (seed[:4] + seed[4:])
    np.testing.assert_allclose(found["b"], sum(np.pad(total, (k, 2 - k)) for k in range(3)))


@tk.kernel
def counted_twice(a: A1, n: int):
    """The place is counted by two loops that do the same."""
    first, second = 0, 0
    for k in range(n):
        first = first * 2 + k
    a[first] = a[first] * 5.0
    for k in range(n):
        second = second * 2 + k
    a[second] = a[first] * 2.0


def test_a_place_that_loops_compute_alike() -> None:
    a, seed = normal(6), np.arange(6.0)
    launch_adjoint(counted_twice, 1, [a, 3], {"a": seed}, device="cpu")
    np.testing.assert_array_equal(seed, [0.0, 1.0, 2.0, 3.0, 40.0, 5.0])


@tk.kernel
def elements(a: A1, b: A1):
    i = tk.tid()
    a[i] = a[i] * 2.0 + b[i]
    a[i] = b[i + 1] + a[i]


def test_elements_that_are_updated_in_place() -> None:
    found = gradients(elements, 4, a=normal(4), b=normal(5))
    seed = np.arange(1.0, 5.0)
    np.testing.assert_allclose(found["a"], 2 * seed)
    np.testing.assert_allclose(found["b"], np.pad(seed, (0, 1)) + np.pad(seed, (1, 0)))


@tk.kernel
def read_back(a: A1, b: A1):
    """What is read after the only write is there to be read again."""
    x = tk.tile_load(b, shape=4)
    tk.tile_store(a, x * x)
    y = tk.tile_load(a, shape=4)
    tk.tile_store(b, y * y, offset=4)


def test_what_was_written_is_read_back() -> None:
    with pytest.raises(KernelNotImplementedError, match="array 'b' is read at line"):
        differentiate(traced(read_back, {"a": normal(4), "b": normal(8)}))

    @tk.kernel
    def apart(a: A1, b: A1, c: A1):
        x = tk.tile_load(b, shape=4)
        tk.tile_store(c, x * x)
        y = tk.tile_load(c, shape=4)
        tk.tile_store(a, y * y)

    b = normal(4)
    found = gradients(apart, 1, a=np.zeros(4), b=b, c=b * b)
    np.testing.assert_allclose(found["b"], np.arange(1.0, 5.0) * 4 * b**3)
    assert not found["a"].any() and not found["c"].any()


@tk.kernel
def multiplied(a: A1, b: A1):
    i = tk.tid()
    a[i] *= b[i]


@tk.kernel
def counted(a: A1):
    i = tk.tid()
    x = a[i]
    a[i] += x


@tk.kernel
def shifted(a: A1):
    i = tk.tid()
    x = tk.tile_load(a, shape=4, offset=i * 4 + 4)
    tk.tile_store(a, x * 2.0, offset=i * 4)


def message(kernel: Any, **arguments: Any) -> str:
    with pytest.raises(KernelNotImplementedError) as caught:
        differentiate(traced(kernel, arguments))
    assert caught.value.location is not None
    first = kernel.function.__code__.co_firstlineno
    text = caught.value.message
    for line in range(first, first + 8):
        text = text.replace(f"line {line}", f"line +{line - first}")
    return text


def test_old_contents_that_are_gone_are_refused_with_both_lines() -> None:
    assert message(multiplied, a=normal(4), b=normal(4)) == (
        "the gradient needs what array 'a' held when line +3 read it, but line +3 writes it; write to another array"
    )
    assert message(counted, a=normal(4)) == (
        "cannot differentiate 'counted': array 'a' is read at line +3 and updated atomically at line +4, which other "
        "blocks may do as well, so its old contents may be gone; write to another array"
    )
    assert message(shifted, a=normal(8)) == (
        "cannot differentiate 'shifted': array 'a' is read at line +3 and written at line +4, perhaps in another "
        "place, so its old contents may be gone; write to another array"
    )


@tk.kernel
def written_in_each_iteration(a: A1, b: A1, c: A1):
    total = tk.tile_zeros(shape=4, dtype=tk.float64)
    for k in range(3):
        x = tk.tile_load(b, shape=4, offset=k)
        tk.tile_store(a, x * x)
        y = tk.tile_load(a, shape=4)
        total += y * y
    tk.tile_store(c, total)


def test_what_the_next_iteration_overwrites_is_gone() -> None:
    assert message(written_in_each_iteration, a=normal(4), b=normal(6), c=normal(4)) == (
        "the gradient needs what array 'a' held when line +6 read it, but line +5 writes it; write to another array"
    )


def test_stores_to_one_of_two_rows_are_left_out_with_the_array() -> None:
    @tk.kernel
    def rows(a: A1, b: A1, out: tk.array2d[tk.float64]):
        i = tk.tid()
        if a[0] > 0.0:
            row = out[0]
            b[i] = a[i] * 2.0
        else:
            row = out[1]
        row[i] = a[i]

    found = {"a": np.zeros(3), "b": np.arange(1.0, 4.0)}
    launch_adjoint(rows, 3, [np.ones(3), np.zeros(3), np.zeros((2, 3))], found, device="cpu", tiled=False)
    np.testing.assert_array_equal(found["a"], [2.0, 4.0, 6.0])
