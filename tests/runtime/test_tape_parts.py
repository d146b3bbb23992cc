"""Writes, unseen by a tape, between launches that have parts of an array, or the array in another order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.tapes import LIBRARIES, ONES, ZEROS, Make, X, numbers, of_numpy, of_warp
from tilekit.errors import KernelValueError


@tk.kernel
def summed(x: tk.array1d[float], y: tk.array1d[float]):
    i = tk.tid()
    y[i] = y[i] + x[i] * x[i]


@tk.kernel
def cleared(y: tk.array1d[float]):
    i = tk.tid()
    y[i] = 0.0


def go(x: Any, y: Any, **options: Any) -> None:
    tk.launch(summed, dim=x.shape[0], inputs=[x], outputs=[y], **options)


PARTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a part of the whole": (lambda a: a, lambda a: a[:2]),
    "the whole of a part": (lambda a: a[2:], lambda a: a),
    "parts that overlap": (lambda a: a[:3], lambda a: a[1:]),
}


@LIBRARIES
@pytest.mark.parametrize("name", PARTS)
def test_an_array_that_is_set_between_launches_of_its_parts(make: Make, name: str) -> None:
    first, second = PARTS[name]
    x, z, y = make(X), make(X), make(ZEROS, requires_grad=make is of_warp)
    with tk.Tape() as tape:
        go(first(x), first(y))
        y.fill(0.0) if make is of_numpy else y.fill_(0.0)
        go(second(z), second(y))
    with pytest.raises(KernelValueError, match="its argument 'y' is not what kernel 'summed'"):
        tape.backward(grads=[(y, make(ONES, requires_grad=False))])


@LIBRARIES
@pytest.mark.parametrize("name", PARTS)
def test_launches_of_parts_with_nothing_between(make: Make, name: str) -> None:
    first, second = PARTS[name]
    x, y = make(X), make(ZEROS, requires_grad=make is of_warp)
    with tk.Tape() as tape:
        go(first(x), first(y))
        go(second(x), second(y))
    tape.backward(grads=[(y, make(ONES, requires_grad=False))])
    times = np.zeros(4, np.float32)
    for part in (first, second):
        part(times)[...] += 1.0
    assert numbers(tape.gradients[x]) == [2.0 * count * value for count, value in zip(times, X, strict=True)]


def test_the_same_elements_in_another_order() -> None:
    x, y = of_numpy(X), of_numpy(ZEROS)
    with tk.Tape() as tape:
        go(x, y)
        y[:] = 0.0
        go(x, y[::-1])
    with pytest.raises(KernelValueError, match="is not what kernel 'summed'"):
        tape.backward(grads=[(y, of_numpy(ONES))])


def test_the_part_that_is_named_is_one_that_gradients_flow_to() -> None:
    """Of launches that wrote parts of an array, only the first one had something to differentiate."""
    x, y = of_numpy(X), of_numpy(ZEROS)
    with tk.Tape() as tape:
        go(x[:2], y[:2])
        tk.launch(cleared, dim=2, outputs=[y[2:]])
        y[:] = 1.0
        go(x, y)
    with pytest.raises(KernelValueError, match="its argument 'y' is not what kernel 'summed'"):
        tape.backward(grads=[(y, of_numpy(ONES))])


def test_what_a_launch_has_cleared_may_be_set() -> None:
    """No gradient flows past the launch that clears, to what was there before."""
    x, y = of_numpy(X), of_numpy(ZEROS)
    with tk.Tape() as tape:
        go(x, y)
        tk.launch(cleared, dim=4, outputs=[y])
        y[:] = 1.0
        go(x, y)
    tape.backward(grads=[(y, of_numpy(ONES))])
    assert numbers(tape.gradients[x]) == [2.0 * value for value in X]


def test_what_a_recorded_function_stands_for_may_write_its_arrays() -> None:
    x, y = of_numpy(X), of_numpy(ZEROS)

    def backward() -> None:
        tape.get_adjoint(y)[...] *= 3.0

    with tk.Tape() as tape:
        go(x, y)
        y *= 3.0
        tape.record_func(backward, [y])
        go(x, y)
    tape.backward(grads=[(y, of_numpy(ONES))])
    assert numbers(tape.gradients[x]) == [8.0 * value for value in X]


def test_what_a_launch_that_is_recorded_later_has_written() -> None:
    x, y = of_numpy(X), of_numpy(ZEROS)
    with tk.Tape() as tape:
        go(x, y, record_tape=False)
        tape.record_launch(summed, dim=4, inputs=[x], outputs=[y])
        y[:] = 0.0
        go(x, y)
    with pytest.raises(KernelValueError, match="is not what kernel 'summed'"):
        tape.backward(grads=[(y, of_numpy(ONES))])
