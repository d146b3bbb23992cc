"""Changing the arguments of a recorded launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.runtime import launch


@tk.kernel
def add(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    out[i] = a[i] + b[i]


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (3, IndexError, "kernel 'add' has no parameter 3; its 3 parameters are 0: a, 1: b, 2: out"),
        (-1, IndexError, "kernel 'add' has no parameter -1; its 3 parameters are 0: a, 1: b, 2: out"),
        ("a", TypeError, "the index of a parameter must be an integer, got 'a' (a string)"),
        (1.0, TypeError, "the index of a parameter must be an integer, got 1.0 (a float)"),
    ],
)
def test_a_wrong_index_of_a_recorded_launch(index: Any, error: type[Exception], message: str) -> None:
    a, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    command = tk.launch_tiled(add, dim=1, inputs=[a, a], outputs=[out], record_cmd=True)
    assert command is not None
    with pytest.raises(error) as caught:
        command.set_param_at_index(index, a)
    assert isinstance(caught.value, tk.errors.TilekitError)
    assert caught.value.message == message
    with pytest.raises(TypeError, match=r"kernel 'add' takes 3 arguments \(a, b, out\), got 4"):
        command.set_params([a, a, out, out])
    with pytest.raises(TypeError, match="the arguments must be a list or tuple, got 3"):
        command.set_params(3)  # type: ignore[arg-type]


def test_a_recorded_launch_is_changed_by_its_methods_alone() -> None:
    a, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    command = tk.launch(add, dim=8, inputs=[a, a], outputs=[out], record_cmd=True)
    assert command is not None
    assert command.dim == (8,) and command.params == (a, a, out) and command.kernel is add
    for name in ("kernel", "dim", "params"):
        with pytest.raises(AttributeError, match=f"property '{name}'"):
            setattr(command, name, getattr(command, name))
    with pytest.raises(TypeError, match="does not support item assignment"):
        command.params[0] = out  # type: ignore[index]


def test_a_recorded_launch_whose_array_becomes_one_of_another_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch's ``swap_tensors`` does: it is quick again from the third launch on."""
    kinds = [type(name, (np.ndarray,), {}) for name in ("First", "Second")]
    a, out = np.ones(8, np.float32).view(kinds[0]), np.zeros(8, np.float32)
    command = tk.launch(add, dim=8, inputs=[a, a], outputs=[out], record_cmd=True)
    assert command is not None
    for _ in range(4):
        command.launch()
    a.__class__ = kinds[1]  # type: ignore[assignment]
    long_way: list[Any] = []
    real = launch._run_anew
    monkeypatch.setattr(launch, "_run_anew", lambda *given: (long_way.append(given), real(*given))[1])
    for _ in range(6):
        out[:] = 0
        command.launch()
        assert (out == 2).all()
    assert len(long_way) <= 3


@pytest.mark.parametrize(("block_dim", "message"), [(2000, "at most 1024, got 2000"), ("64", "an int, got '64'")])
def test_the_block_of_a_recorded_launch_is_checked_when_it_is_recorded(block_dim: Any, message: str) -> None:
    a, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    with pytest.raises((TypeError, ValueError), match=f"block_dim must be {message}"):
        tk.launch(add, dim=8, inputs=[a, a], outputs=[out], block_dim=block_dim, record_cmd=True)


def arguments(kind: str) -> Any:
    """What is not a list: an array of Warp, which raises an error of its own when it is iterated over, or else."""
    if kind == "warp":
        return pytest.importorskip("warp").zeros(8, dtype=float, device="cpu")
    return iter([np.zeros(8, np.float32)])


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(("kind", "got"), [("warp", "array"), ("iterator", "an object of class list_iterator")])
def test_outputs_that_are_no_list(kind: str, got: str, recorded: bool) -> None:
    a = np.ones(8, np.float32)
    with pytest.raises(TypeError, match=f"outputs of kernel 'add' must be a list or tuple of arguments, got .*{got}"):
        tk.launch(add, dim=8, inputs=[a, a], outputs=arguments(kind), record_cmd=recorded)
    with pytest.raises(TypeError, match=f"inputs of kernel 'add' must be a list or tuple of arguments, got .*{got}"):
        tk.launch(add, dim=8, inputs=arguments(kind), outputs=[a], record_cmd=recorded)


@tk.kernel
def read_at(a: tk.array1d[float], i: int, out: tk.array1d[float]):
    out[0] = a[i]


def test_a_recorded_launch_runs_under_the_options_that_hold_then() -> None:
    memory, out = np.arange(4, dtype=np.float32), np.zeros(1, np.float32)
    with tk.config.scoped(index_checks=False):
        command = tk.launch_tiled(read_at, dim=1, inputs=[memory[:2], 3], outputs=[out], device="cpu", record_cmd=True)
    with tk.config.scoped(index_checks=True), pytest.raises(IndexError):
        command.launch()
