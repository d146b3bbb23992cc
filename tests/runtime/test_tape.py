"""``tk.Tape``: gradients through launches of tilekit's and Warp's, and which writes it refuses."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
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
from tilekit.errors import KernelNotImplementedError, KernelTypeError, KernelValueError, TilekitError
from tilekit.runtime.gradients import watch


@LIBRARIES
@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_gradients_of_a_chain(make: Make, device: str) -> None:
    """The array between has no gradient of its own; the launches are cold, warm and recorded ones."""
    gc.collect()
    earlier = watch.records  # of tapes that other tests still hold
    x, loss = make(X), make([0.0])
    y, z = make(ZEROS, requires_grad=False), make(ZEROS, requires_grad=False)
    with tk.Tape() as tape:
        for _ in range(3):
            go(squares, x, y, device=device)
            command = tk.launch_tiled(doubled, dim=1, inputs=[y], outputs=[z], block_dim=32, record_cmd=True)
            assert command is not None
            command.launch()
        go(total, z, loss, device=device)
    go(doubled, x, z, device=device) if make is not of_torch else None
    tape.backward(loss=loss)
    assert numbers(tape.gradients[x]) == [4.0, 8.0, 12.0, 16.0]
    tape.backward(loss=loss)
    assert numbers(tape.get_adjoint(x)) == [8.0, 16.0, 24.0, 32.0], "a second backward adds"
    tape.zero()
    assert numbers(tape.gradients[x]) == ZEROS
    tape.reset()
    gc.collect()
    assert not tape.launches and len(watch.records) <= len(earlier) and watch.busy == bool(watch.records)
    if make is of_torch:
        assert x.grad is None, "which is PyTorch's alone"


@LIBRARIES
def test_a_seed_is_neither_consumed_nor_aliased(make: Make) -> None:
    x, y, seed = make(X), make(ZEROS), make([3.0] * 4, requires_grad=False)
    with tk.Tape() as tape:
        go(squares, x, y)
    for times in (1, 2, 3):
        tape.backward(grads=[(y, seed)] if make is of_numpy else {y: seed})
        assert numbers(seed) == [3.0] * 4
        assert numbers(tape.gradients[x]) == [times * 6 * value for value in X]


@LIBRARIES
def test_only_the_gradient_of_the_last_value_flows(make: Make) -> None:
    x, other, y, loss = make(X), make(X), make(ZEROS), make([0.0])
    with tk.Tape() as tape:
        go(squares, x, y)
        go(doubled, other, y)
        go(total, y, loss)
    tape.backward(loss)
    assert numbers(tape.gradients[other]) == [2.0] * 4
    if make is of_warp:
        assert numbers(tape.gradients[x]) == ZEROS
    else:
        assert numbers(tape.gradients[x]) == ZEROS


@LIBRARIES
def test_a_view_shares_the_gradient_of_its_array(make: Make) -> None:
    x, y, loss = make([*X, *X]), make([0.0] * 8), make([0.0])
    with tk.Tape() as tape:
        go(squares, x[4:], y[2:6])
        go(total, y[2:6], loss)
    tape.backward(loss)
    assert numbers(tape.gradients[x]) == [*ZEROS, 2.0, 4.0, 6.0, 8.0]


@LIBRARIES
def test_a_launch_in_place_by_two_names(make: Make) -> None:
    x, loss = make(X), make([0.0])
    with tk.Tape() as tape:
        go(doubled, x, x)
        go(doubled, x, x)
        go(total, x, loss)
    tape.backward(loss)
    assert numbers(tape.gradients[x]) == [4.0] * 4


@LIBRARIES
def test_gradients_that_are_retained(make: Make) -> None:
    x, y, loss = make(X), make(ZEROS), make([0.0])
    with tk.Tape() as tape:
        go(squares, x, y)
        go(total, y, loss)
    if make is of_warp:
        tape.backward(loss)
        assert numbers(y.grad) == ZEROS
        y.retain_grad = True
        tape.zero()
    else:
        tape.backward(loss)
        with pytest.raises(KernelValueError) as caught:
            tape.gradients[y]
        assert caught.value.message == (
            "the gradient of this array has gone on through kernel 'squares', which wrote it; call "
            "tape.retain_grad(array) before backward"
        )
        tape.zero()
        tape.retain_grad(y)
    for times in (1, 2, 3):
        tape.backward(loss)
        assert numbers(tape.gradients[y]) == [times] * 4
        assert numbers(tape.gradients[x]) == [2 * times * value for value in X]


# Functions, scopes, drawings.


def test_parts_of_an_array_that_is_retained() -> None:
    x, y, loss = of_numpy(X), of_numpy([0.0] * 8), of_numpy([0.0])
    with tk.Tape() as tape:
        go(squares, x, y[4:])
        go(total, y[4:], loss)
    tape.retain_grad(y)
    tape.backward(loss)
    assert numbers(tape.gradients[y]) == [*ZEROS, *ONES]
    with tape:
        go(squares, x, y[2:6])
        go(squares, x, y[4:])
    with pytest.raises(KernelNotImplementedError) as caught:
        tape.backward(grads=[(y, of_numpy([1.0] * 8))])
    assert caught.value.message == (
        "retain_grad of an array whose parts launches wrote one over the other, as kernel 'squares' did here; pass "
        "them arrays of their own"
    )


def test_a_function_goes_backward_in_its_turn() -> None:
    x, y, z = of_numpy(X), of_numpy(ZEROS), of_numpy(ZEROS)
    with tk.Tape() as tape:
        go(squares, x, y)
        z[:] = 3 * y  # what the function stands for

        def backward() -> None:
            tape.get_adjoint(y)[...] += 3 * tape.get_adjoint(z)

        tape.record_func(backward, [y, z])
    tape.backward(grads=[(z, of_numpy(ONES))])
    assert numbers(tape.gradients[x]) == [6 * value for value in X]
    with pytest.raises(KernelTypeError, match="record_func takes a function of no arguments, got 3"):
        tape.record_func(3, [])  # type: ignore[arg-type]
    with pytest.raises(KernelTypeError, match="record_func: an array of int32 has no gradient"):
        tape.record_func(backward, [np.zeros(1, np.int32)])
    with pytest.raises(KernelTypeError, match="record_func takes a list of arrays, got None"):
        tape.record_func(backward, None)  # type: ignore[arg-type]
    with pytest.raises(KernelTypeError, match="record_launch takes a kernel of tilekit's or Warp's, got the function"):
        tape.record_launch(backward, 1)


def test_a_launch_that_was_not_recorded_can_be_added() -> None:
    x, y = of_numpy(X), of_numpy(ZEROS)
    go(squares, x, y)
    tape = tk.Tape()
    tape.record_launch(squares, 1, inputs=[x], outputs=[y], block_dim=32, tiled=True)
    tape.backward(grads=[(y, of_numpy(ONES))])
    assert numbers(tape.gradients[x]) == [2.0, 4.0, 6.0, 8.0]


def test_a_drawing(tmp_path: Any) -> None:
    x, y, loss = of_numpy(X), of_numpy(ZEROS), of_numpy([0.0])
    with tk.Tape() as tape:
        tape.record_scope_begin("empty")
        tape.record_scope_end()
        tape.record_scope_begin('the "layer"')
        go(squares, x, y)
        tape.record_scope_end()
        go(total, y, loss)
        with pytest.raises(KernelValueError, match="record_scope_end: no scope has begun"):
            tape.record_scope_end()
    text = tape.visualize(str(tmp_path / "tape.dot"), array_labels=[(x, "the input")])
    assert text == (tmp_path / "tape.dot").read_text(encoding="utf-8")
    assert (
        text
        == r"""digraph tape {
  rankdir=LR;
  subgraph cluster0 {
    label="the \"layer\"";
    launch0 [shape=box, label="squares"];
  }
  launch1 [shape=box, label="total"];
  array0 [shape=ellipse, label="the input"];
  array1 [shape=ellipse, label="y: float32[4]"];
  array2 [shape=ellipse, label="loss: float32[1]"];
  array0 -> launch0;
  launch0 -> array1;
  array1 -> launch1;
  launch1 -> array2;
}
"""
    )


# What is refused.


def recorded() -> tuple[tk.Tape, Any, Any]:
    x, y = of_numpy(X), of_numpy(ZEROS)
    with tk.Tape() as tape:
        go(squares, x, y)
    return tape, x, y


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda tape, x, y: tape.backward(y), "backward(loss=...) takes an array of one float, got float32 of shape "
         "(4,); give the gradients of a larger array by grads={array: gradient}"),
        (lambda tape, x, y: tape.backward(1.0), "backward(loss=...): the number 1.0 is not an array; pass an array of "
         "one element, such as np.array([x])"),
        (lambda tape, x, y: tape.backward(np.zeros(1, np.float32)), "backward(loss=...): nothing on this tape has "
         "written that array"),
        (lambda tape, x, y: tape.backward(of_warp([1.0], False)), "backward(loss=...) takes an array made with "
         "requires_grad=True"),
        (lambda tape, x, y: tape.backward(grads=[(y, np.zeros(3, np.float32))]), "backward(grads=...): the gradient of "
         "an array of float32 of shape (4,) on 'cpu' must be like it, got float32 of shape (3,) on 'cpu'"),
        (lambda tape, x, y: tape.backward(), "backward() needs a gradient to start from: loss=, an array of one "
         "float, or grads={array: gradient}"),
        (lambda tape, x, y: tape.backward(grads=1.0), "backward(grads=...) takes a dict, or a list of pairs of an "
         "array and its gradient, got 1.0 (a float)"),
        (lambda tape, x, y: tape.visualize(array_labels=[x]), "visualize(array_labels=...) takes a dict, or a list of "
         "pairs of an array and its name, got a list"),
        (lambda tape, x, y: tape.visualize(graph_direction="up"), "visualize: graph_direction must be 'LR' or 'TB', "
         "got 'up'"),
        (lambda tape, x, y: tape.gradients[x], "the tape has no gradient of this array: backward has not come to a "
         "launch that reads it, or it does not require grad"),
    ],
)  # fmt: skip
def test_what_is_refused(ask: Any, message: str) -> None:
    with pytest.raises(TilekitError) as caught:
        ask(*recorded())
    assert caught.value.message == message
