"""Parameters with defaults: a launch may leave them out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.runtime import launch


@tk.kernel
def scaled(a: tk.array1d[float], out: tk.array1d[float], factor: float = 2.0, shift: int = 1):
    i = tk.tid()
    out[i] = a[i] * factor + float(shift)


TABLE = np.float32([10, 20, 30, 40])


@tk.kernel
def chosen(out: tk.array1d[float], table: tk.array1d[float] = TABLE, more: tk.array1d[float] = None, n: Any = 2):  # type: ignore[assignment]
    i = tk.tid()
    if more is not None:
        out[i] = more[i]
    else:
        out[i] = table[i] + float(n)


A = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize(("given", "expected"), [((), 2 * A + 1), ((3.0,), 3 * A + 1), ((3.0, 5), 3 * A + 5)])
def test_the_last_arguments_may_be_left_out(given: tuple[Any, ...], expected: Any, device: str) -> None:
    for _ in range(4):  # the third one like it is warm
        out = np.zeros(4, np.float32)
        tk.launch(scaled, dim=4, inputs=[A, out, *given], device=device)
        assert np.array_equal(out, expected)
        out = np.zeros(4, np.float32)
        tk.launch(scaled, dim=4, inputs=[A], outputs=[out, *given], device=device)
        assert np.array_equal(out, expected)
    command = tk.launch(scaled, dim=4, inputs=[A, out, *given], record_cmd=True, device=device)
    assert command is not None and len(command.params) == 4
    for _ in range(4):
        command.launch()
    assert np.array_equal(out, expected)
    command.set_param_by_name("shift", 7)
    command.launch()
    assert np.array_equal(out, expected + 7 - (given[1] if len(given) > 1 else 1))


def test_launches_that_leave_arguments_out_become_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled.cache.clear()
    out = np.zeros(4, np.float32)
    for _ in range(3):
        tk.launch(scaled, dim=4, inputs=[A], outputs=[out])
        tk.launch(scaled, dim=4, inputs=[A], outputs=[out, 5.0])
    monkeypatch.setattr(launch, "_run_anew", None)
    tk.launch(scaled, dim=4, inputs=[A], outputs=[out])
    assert np.array_equal(out, 2 * A + 1)
    tk.launch(scaled, dim=4, inputs=[A], outputs=[out, 6.0])
    assert np.array_equal(out, 6 * A + 1)


def test_arrays_none_and_numbers_of_any_type() -> None:
    for _ in range(4):
        out = np.zeros(4, np.float32)
        tk.launch(chosen, dim=4, outputs=[out])
        assert np.array_equal(out, TABLE + 2)
        tk.launch(chosen, dim=4, inputs=[out, A, None, 0.5])
        assert np.array_equal(out, A + 0.5)
        tk.launch(chosen, dim=4, inputs=[out, A, 2 * A])
        assert np.array_equal(out, 2 * A)


def test_the_others_may_not() -> None:
    with pytest.raises(TypeError) as caught:
        tk.launch(scaled, dim=4, inputs=[A])
    assert str(caught.value) == "kernel 'scaled' takes 2 to 4 arguments (a, out, factor, shift), got 1"
    with pytest.raises(TypeError) as caught:
        tk.launch(scaled, dim=4, inputs=[A, A, 1.0, 1, 1])
    assert str(caught.value) == "kernel 'scaled' takes 2 to 4 arguments (a, out, factor, shift), got 5"


@tk.kernel
def wrong(out: tk.array1d[float], n: int = 2.5):  # type: ignore[assignment]
    out[0] = float(n)


def test_a_default_that_does_not_fit() -> None:
    with pytest.raises(TypeError) as caught:
        tk.launch(wrong, dim=1, outputs=[np.zeros(1, np.float32)])
    assert str(caught.value) == "argument 'n' of kernel 'wrong': expects int32, got 2.5 of type float; use int(...)"


def test_a_compile_leaves_them_out_as_well() -> None:
    compiled = tk.compile(chosen, args=[tk.array1d[float], tk.array1d[float]], tiled=False, device="cpu")
    assert "more" not in str(compiled.launches) and compiled.ir
    assert tk.compile(scaled, args=[tk.array1d[float], tk.array1d[float]], tiled=False, device="cpu").ir
