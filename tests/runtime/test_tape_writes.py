"""Which writes after a launch ``backward`` refuses."""

from __future__ import annotations

from typing import Any

import pytest

import tilekit as tk
from tests.runtime.tapes import (
    LIBRARIES,
    ONES,
    ZEROS,
    Make,
    X,
    doubled,
    go,
    numbers,
    of_numpy,
    of_torch,
    of_warp,
    squares,
    total,
)
from tilekit.errors import KernelValueError


def line_of(place: Any) -> str:
    return str(place.source_line()).strip()


def at(tape: tk.Tape) -> str:
    """The place of the first launch."""
    place = tape.launches[0].place
    assert place is not None and line_of(place).startswith("tk.launch_tiled(kernel")
    return f"{place.file}:{place.line}"


@LIBRARIES
def test_an_array_that_a_launch_has_overwritten_since(make: Make) -> None:
    x, y, w = make(X), make(ZEROS), make(X)
    with tk.Tape() as tape:
        go(squares, x, y)
        for _ in range(3):
            tk.launch_tiled(doubled, dim=1, inputs=[w], outputs=[x], block_dim=32)
    with pytest.raises(KernelValueError) as caught:
        tape.backward(grads=[(y, make(ONES, requires_grad=False))])
    assert caught.value.message.startswith(
        "backward through kernel 'squares' reads its argument 'x' again, but kernel 'doubled' as 'y' has written that "
        f"array since, at {__file__}:"
    )
    assert caught.value.message.endswith("; write to another array, pass a copy to the launch, or go backward before")
    assert "tk.launch_tiled(kernel, dim=1" in line_of(caught.value.location)


def with_numpy(x: Any) -> None:
    x[2] = 5.0


def with_warp(x: Any) -> None:
    x.fill_(100.0)


def with_torch(x: Any) -> None:
    x.detach().mul_(2.0)


def with_torch_unseen(x: Any) -> None:
    x.data[1] = 5.0


@pytest.mark.parametrize(
    ("make", "write", "why"),
    [
        (of_numpy, with_numpy, "its contents have changed since, by nothing that the tape has seen"),
        (of_warp, with_warp, "its contents have changed since, by nothing that the tape has seen"),
        (of_torch, with_torch, "an operation of PyTorch has written that tensor since"),
        (of_torch, with_torch_unseen, "its contents have changed since, by nothing that the tape has seen"),
    ],
)
def test_an_array_that_something_else_has_overwritten_since(make: Make, write: Any, why: str) -> None:
    x, y = make(X), make(ZEROS)
    with tk.Tape() as tape:
        go(squares, x, y)
    write(x)
    with pytest.raises(KernelValueError) as caught:
        tape.backward(grads=[(y, make(ONES, requires_grad=False))])
    assert caught.value.message == (
        f"backward through kernel 'squares' reads its argument 'x' again, but {why}; write to another array, pass a "
        "copy to the launch, or go backward before"
    )


@LIBRARIES
def test_an_array_that_something_else_writes_between_two_launches(make: Make) -> None:
    """What the second one reads is not what the first one wrote."""
    x, y, loss = make(X), make(ZEROS, requires_grad=make is of_warp), make([0.0], requires_grad=make is of_warp)
    with tk.Tape() as tape:
        go(squares, x, y)
        y.fill_(2.0) if make is of_warp else y.__imul__(2.0)
        go(total, y, loss)
    with pytest.raises(KernelValueError) as caught:
        tape.backward(loss)
    assert caught.value.message == (
        "backward through kernel 'total': its argument 'x' is not what kernel 'squares', at "
        f"{at(tape)}, wrote, since something that the tape has not seen has written it between the two "
        "launches; write to another array, or record what writes it as a launch"
    )


@tk.kernel
def added(x: tk.array1d[float], total: tk.array1d[float]):
    tk.tile_atomic_add(total, tk.tile_load(x, shape=4))


@tk.kernel
def tripled(total: tk.array1d[float]):
    i = tk.tid()
    total[i] = 3.0 * total[i]


def reset(make: Make, array: Any) -> None:
    """By something that no tape sees."""
    array.fill(0.0) if make is of_numpy else array.fill_(0.0) if make is of_warp else array.detach().zero_()


@LIBRARIES
def test_a_sum_that_something_else_sets_between_two_launches(make: Make) -> None:
    x, z, y = make(X), make(X), make(ZEROS, requires_grad=make is of_warp)
    with tk.Tape() as tape:
        go(added, x, y)
        reset(make, y)
        go(added, z, y)
    with pytest.raises(KernelValueError) as caught:
        tape.backward(grads=[(y, make(ONES, requires_grad=False))])
    assert caught.value.message == (
        "backward through kernel 'added': its argument 'total' is not what kernel 'added', at "
        f"{at(tape)}, wrote, since something that the tape has not seen has written it between the two "
        "launches; write to another array, or record what writes it as a launch"
    )
    tape.zero()
    tape.backward(grads=[(y, make(ZEROS, requires_grad=False))])  # nothing flows, so nothing is wrong
    assert numbers(tape.gradients[z]) == ZEROS


@LIBRARIES
def test_an_array_that_something_else_sets_between_launches_that_store_all_of_it(make: Make) -> None:
    x, z, y = make(X), make(X), make(ZEROS, requires_grad=make is of_warp)
    with tk.Tape() as tape:
        go(squares, x, y)
        reset(make, y)
        go(doubled, z, y)
    tape.backward(grads=[(y, make(ONES, requires_grad=False))])
    assert numbers(tape.gradients[z]) == [2.0] * 4


@LIBRARIES
def test_a_sum_that_was_set_before_and_that_a_launch_clears(make: Make) -> None:
    x, zeros, y = make(X), make(ZEROS, requires_grad=False), make(X, requires_grad=make is of_warp)
    with tk.Tape() as tape:
        reset(make, y)
        go(added, x, y)
        go(doubled, zeros, y)
        go(added, x, y)
    tape.backward(grads=[(y, make(ONES, requires_grad=False))])
    assert numbers(tape.gradients[x]) == ONES


def test_what_was_set_in_place_between_two_launches_is_no_gradient_of_what_it_was() -> None:
    a = of_numpy(X)
    with tk.Tape() as tape:
        tk.launch(tripled, dim=4, inputs=[a])
        a[:] = 1.0
        tk.launch(tripled, dim=4, inputs=[a])
    with pytest.raises(KernelValueError, match="its argument 'total' is not what kernel 'tripled'"):
        tape.backward(grads=[(a, of_numpy(ONES))])


def test_a_tensor_that_has_other_memory_since() -> None:
    x, y = of_torch(X), of_torch(ZEROS)
    with tk.Tape() as tape:
        go(squares, x, y)
    x.data = of_torch(ONES, requires_grad=False)
    with pytest.raises(KernelValueError) as caught:
        tape.backward(grads={y: of_torch(ONES, requires_grad=False)})
    assert caught.value.message == (
        "backward through kernel 'squares': its argument 'x' has other memory, another shape or other strides than at "
        "this launch, as after x.data = ... or x.resize_(...); go backward before"
    )


def test_a_gradient_that_a_backward_launch_has_written() -> None:
    x, y, g = of_numpy(X), of_numpy(ZEROS), of_numpy(ONES)
    with tk.Tape(verify=False) as tape:
        go(squares, x, y)
    tk.launch_tiled(doubled, 1, [g], [y], adj_inputs=[x], adj_outputs=[g], adjoint=True)
    with pytest.raises(KernelValueError, match="a backward launch of kernel 'doubled' as 'x' has written that array"):
        tape.backward(grads=[(y, of_numpy(ONES))])


def test_a_backward_that_has_failed_leaves_no_whole_gradients() -> None:
    x, y, loss = of_numpy(X), of_numpy(ZEROS), of_numpy([0.0])
    with tk.Tape() as tape:
        go(squares, x, y)
        go(total, y, loss)
    x[0] = 7.0
    with pytest.raises(KernelValueError, match="its contents have changed since"):
        tape.backward(loss)
    x[0] = X[0]
    with pytest.raises(KernelValueError) as caught:
        tape.backward(loss)
    assert caught.value.message == (
        "an earlier backward of this tape has failed and left gradients that are not whole; call tape.zero() before "
        "the next"
    )
    tape.zero()
    tape.backward(loss)
    assert numbers(tape.gradients[x]) == [2 * value for value in X]


@LIBRARIES
def test_writes_that_backward_does_not_mind(make: Make) -> None:
    """To an array that no adjoint reads, to another part of one that an adjoint reads, and to what was only written."""
    x, y, z, loss = make(X), make([0.0] * 8), make(ZEROS), make([0.0])
    with tk.Tape() as tape:
        go(doubled, x, y[:4])
        go(squares, y[:4], z)
        go(doubled, z, y[4:])
        go(total, y[4:], loss)
        go(doubled, z, y[4:], record_tape=make is of_torch)
    x.detach().zero_() if make is of_torch else x.fill(7.0) if make is of_numpy else x.fill_(7.0)
    if make is of_torch:
        tape.launches.pop()
    tape.backward(loss)
    assert numbers(tape.gradients[x]) == [16 * value for value in X]


def test_a_tape_that_does_not_verify_keeps_no_checksum() -> None:
    x, y = of_numpy(X), of_numpy(ZEROS)
    with tk.Tape(verify=False) as tape:
        go(squares, x, y)
    x[:] = 1.0
    tape.backward(grads=[(y, of_numpy(ONES))])
    assert numbers(tape.gradients[x]) == [2.0] * 4


FACTOR = 2.0


@tk.kernel
def scaled(x: tk.array1d[float], y: tk.array1d[float]):
    tk.tile_store(y, FACTOR * tk.tile_load(x, shape=4))


def test_an_outer_value_that_has_changed_since(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = of_numpy(X), of_numpy(ZEROS)
    with tk.Tape() as tape:
        go(scaled, x, y)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    with pytest.raises(KernelValueError) as caught:
        tape.backward(grads=[(y, of_numpy(ONES))])
    assert caught.value.message == (
        "an outer value that kernel 'scaled' reads has changed since this launch, so its gradient would be another "
        "one; pass what changes as an argument"
    )
    monkeypatch.undo()
    tape.backward(grads=[(y, of_numpy(ONES))])
    assert numbers(tape.gradients[x]) == [2.0] * 4


def test_backward_runs_under_the_options_of_the_launch() -> None:
    x, y = of_numpy(X), of_numpy(ZEROS)
    scaled.cache.clear()
    with tk.config.scoped(checked=True), tk.Tape() as tape:
        go(scaled, x, y)
    tape.backward(grads=[(y, of_numpy(ONES))])
    assert len({key[4] for key in scaled.cache}) == 1, "the options' number in the keys of launch and adjoint"


def test_arrays_without_elements() -> None:
    x, y = of_numpy([]), of_numpy([])
    with tk.Tape() as tape:
        go(squares, x, y)
    tape.backward(grads=[(y, of_numpy([]))])
    assert numbers(tape.gradients[x]) == []
