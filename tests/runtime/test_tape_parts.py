"""Writes, unseen by a tape, between launches that have parts of an array, or the array in another order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.tapes import LIBRARIES, ONES, ZEROS, Make, X, numbers, of_numpy, of_warp
from tilekit.errors import KernelValueError
from tilekit.runtime.arrays import view_of
from tilekit.runtime.guards import Prints


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


UNSEEN: dict[str, Callable[[Any, Any], None]] = {
    "a launch of a part": lambda x, y: tk.launch(cleared, dim=1, outputs=[y[3:]]),
    "a launch of a part that is left out": lambda x, y: tk.launch(cleared, dim=1, outputs=[y[3:]], record_tape=False),
    "a launch of the whole that is left out": lambda x, y: go(x, y, record_tape=False),
}


@LIBRARIES
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("name", UNSEEN)
def test_a_write_that_is_seen_hides_none_that_is_not(make: Make, name: str, before: bool) -> None:
    """A launch writes all, another one a part, and something unseen the rest, before or after that."""
    x, z = make(X), make(X, requires_grad=False)
    y, w = (make(ZEROS, requires_grad=make is of_warp) for _ in range(2))

    def unseen() -> None:
        (y.numpy() if make is of_warp else y)[0] = 7.0

    with tk.Tape() as tape:
        go(x, y)
        if before:
            unseen()
        UNSEEN[name](z, y)
        if not before:
            unseen()
        go(y, w)
    with pytest.raises(KernelValueError, match=r"its argument '[xy]' is not what kernel 'summed'"):
        tape.backward(grads=[(w, make(ONES, requires_grad=False))])


@LIBRARIES
@pytest.mark.parametrize("name", ["a launch of a part", "a launch of a part that is left out"])
def test_a_part_that_is_written_is_no_unseen_write(make: Make, name: str) -> None:
    x, y, w = make(X), make(ZEROS, requires_grad=make is of_warp), make(ZEROS, requires_grad=make is of_warp)
    with tk.Tape() as tape:
        go(x, y)
        UNSEEN[name](x, y)
        go(y, w)
    tape.backward(grads=[(w, make(ONES, requires_grad=False))])
    cubes = [4.0 * value**3 for value in X]
    assert numbers(tape.gradients[x]) == [*cubes[:3], 0.0]


@pytest.mark.parametrize("size", [1, 4096, 4097, 10_000])
@pytest.mark.parametrize("place", ["first", "last"])
def test_checksums_are_of_pieces(size: int, place: str) -> None:
    """What is renewed is what a write touched; a change elsewhere stays one."""
    array = np.arange(size, dtype=np.float32)
    view = view_of(array)
    prints = Prints(view)
    start = view.pointer + 4 * (size // 2)
    array[size // 2] += 1.0
    assert prints.changed(view)
    prints.renew(view, start, start + 4)
    assert not prints.changed(view)
    array[0 if place == "first" else -1] += 1.0
    assert prints.changed(view)
    if size == 10_000:
        prints.renew(view, start, start + 4)
        assert prints.changed(view)
