"""Gradients through views, elements and sums, against central differences."""

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.passes.finite_differences import check_gradient, gradients, traced
from tilekit.errors import KernelNotImplementedError
from tilekit.passes.differentiate import differentiate

rng = np.random.default_rng(9)


@tk.kernel
def through(a: tk.array2d[tk.float64], b: tk.array1d[tk.float64], i: int, out: tk.array2d[tk.float64]):
    t = tk.tile_load(a, shape=(4, 6))
    bias = tk.tile_load(b, shape=6)
    u = t * 2.0 + tk.tile_broadcast(bias, (4, 6)) * t
    u[i] = t[0] * t[-1]
    u[1, i] = t[2, i] * bias[i]
    u[2:, ::-2] += t[:2, 1::2]
    u[3, 1:3] = bias[0] * t[i, 4]
    v = tk.tile_reshape(u, (2, 12))
    w = tk.tile_squeeze(tk.tile_view(u.T, offset=(i, 0), shape=(1, 4)))
    tk.tile_store(out, u)
    tk.tile_store(out, tk.tile_reshape(tk.tile_sum(v * v, axis=1), (1, 2)), offset=(4, 0))
    tk.tile_store(out, tk.tile_reshape(tk.tile_sum(w) * tk.tile_sum(bias), (1, 1)), offset=(5, 0))


def test_gradients_through_views_elements_broadcasts_and_sums():
    for i in (0, 3):
        arguments = {"a": rng.standard_normal((4, 6)), "b": rng.standard_normal(6), "i": i, "out": np.zeros((6, 6))}
        check_gradient(through, arguments, ("out",))


def test_the_gradient_of_an_extreme_goes_to_the_first_element_that_it_is() -> None:
    """A NaN is passed over, and where there is nothing else the first has it."""
    nan = np.nan

    @tk.kernel
    def extremes(a: tk.array2d[float], out: tk.array2d[float], least: tk.array1d[float]):
        t = tk.tile_load(a, shape=(3, 4))
        tk.tile_store(out, tk.tile_max(t, axis=1, keepdims=True))
        tk.tile_store(least, tk.tile_min(t) * 5.0)

    a = np.array([[1, 7, 7, 0], [nan, 2, -3, 2], [nan, nan, nan, nan]], np.float32)
    arguments = {"a": a, "out": np.zeros((3, 1), np.float32), "least": np.zeros(1, np.float32)}
    seeds = {"out": np.array([[1], [2], [3]], np.float32), "least": np.ones(1, np.float32)}
    found = gradients(traced(extremes, arguments), arguments, seeds, (1,))
    np.testing.assert_array_equal(found["a"], [[0, 1, 0, 0], [0, 2, 5, 0], [3, 0, 0, 0]])


@tk.kernel
def elements(
    a: tk.array2d[tk.float64], b: tk.array1d[tk.float64], out: tk.array2d[tk.float64], total: tk.array1d[tk.float64]
):
    i = tk.tid()
    x = a[i, 1] * b[i]
    row = a[i]
    out[i, 0] = x * row[0]
    written = out[i]
    written[1] = b[0] * x
    out[i, 2] = x
    if x > 0.0:
        out[i, 2] = x * x
    tk.atomic_add(total, 0, x * b[i])
    total[1] -= b[i] * b[i]


def test_gradients_through_elements_of_arrays() -> None:
    """Also of parts of arrays, where an element is stored twice, and where every block adds to one."""
    a, b = rng.standard_normal((5, 2)), rng.standard_normal(5)
    check_gradient(elements, {"a": a, "b": b, "out": np.zeros((5, 3)), "total": np.zeros(2)}, ("out", "total"), (5,))


@tk.kernel
def greatest(a: tk.array1d[float], total: tk.array1d[float]):
    tk.atomic_max(total, 0, a[tk.tid()])


@tk.kernel
def numbered(a: tk.array1d[float], total: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    out[i] = tk.atomic_add(total, 0, a[i]) * 2.0


@tk.kernel
def replaced(a: tk.array1d[float], total: tk.array1d[float]):
    tk.atomic_cas(total, 0, 0.0, a[tk.tid()])


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            greatest,
            "'tk.atomic_max(total, 0, a[tk.tid()])': which number tk.atomic_max leaves "
            "depends on the order in which lanes and blocks run",
        ),
        (
            numbered,
            "'tk.atomic_add(total, 0, a[i])': what it returns depends on the order in which lanes and blocks run",
        ),
        (
            replaced,
            "'tk.atomic_cas(total, 0, 0.0, a[tk.tid()])': what it finds and writes "
            "depends on the order in which lanes and blocks run",
        ),
    ],
)
def test_atomics_whose_gradient_depends_on_an_order_are_refused(kernel: Any, message: str) -> None:
    arguments = {name: np.zeros(4, np.float32) for name in kernel.parameters}
    with pytest.raises(KernelNotImplementedError) as caught:
        differentiate(traced(kernel, arguments))
    assert caught.value.message == f"cannot differentiate through {message}"
    assert "tk.atomic_" in caught.value.location.source_line()


@tk.func
def bent(v: tk.float64, w: tk.float64, slope: tk.float64):
    if v > 0.0:
        return w * v * v
    return tk.tanh(v * slope)


@tk.kernel
def captures(a: tk.array1d[tk.float64], b: tk.array2d[tk.float64], out: tk.array1d[tk.float64], n: int):
    x = tk.tile_load(a, shape=5)
    factor, shift = x[0] * b[0, 0], b[1, 1]
    for k in range(n):
        bias = b[k, 0] * factor
        y = tk.tile_map(lambda v, i: bent(v, b[k][i % 3] * factor, bias) * shift, x, tk.tile_arange(5, dtype=int))  # noqa: B023
        tk.tile_store(out, y, offset=5 * k)


def test_gradients_of_what_a_function_of_elements_captures() -> None:
    """Numbers of the kernel around it, in and out of a loop, and elements of arrays that it reads by itself."""
    arguments = {"a": rng.standard_normal(5), "b": rng.standard_normal((3, 3)), "out": np.zeros(10), "n": 2}
    check_gradient(captures, arguments, ("out",))


@tk.func
def spread(a: tk.float64, b: tk.float64, weight: tk.float64):
    if a > b:
        return a + weight * a * b
    return b + a * b


@tk.kernel
def reductions(a: tk.array2d[tk.float64], b: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    t, weight = tk.tile_load(a, shape=(3, 41)), b[0]
    tk.tile_store(out, tk.tile_reduce(lambda x, y: spread(x, y, weight), t))
    tk.tile_store(out, tk.tile_reduce(lambda x, y: spread(x, y, weight), t * t, axis=1), offset=1)
    tk.tile_store(out, tk.tile_reduce(lambda x, y: x * y, t, axis=0), offset=4)


def test_gradients_of_reductions_by_a_function_are_those_of_their_steps() -> None:
    """Also of a function that is not associative, which branches, and captures a number."""
    arguments = {"a": rng.uniform(0.1, 0.3, (3, 41)), "b": rng.uniform(0.1, 0.3, 1), "out": np.zeros(45)}
    check_gradient(reductions, arguments, ("out",))


def test_the_gradient_of_a_long_reduction_by_a_function_is_refused() -> None:
    @tk.kernel
    def long(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_reduce(tk.mul, tk.tile_load(a, shape=1025)))

    with pytest.raises(KernelNotImplementedError) as caught:
        differentiate(traced(long, {"a": np.zeros(1025, np.float32), "out": np.zeros(1, np.float32)}))
    assert caught.value.message == (
        "cannot differentiate through 'tk.tile_reduce(tk.mul, tk.tile_load(a, shape=1025))': its gradient repeats "
        "each step of the order, and 1025 elements take more than 32 steps; reduce along one axis first"
    )
