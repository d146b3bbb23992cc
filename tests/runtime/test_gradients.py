"""Until kernels have gradients, a tape that has seen a launch and PyTorch's autograd never give zeros for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import FallbackWarning, KernelNotImplementedError, TilekitError
from tilekit.runtime import gradients, launch

wp = pytest.importorskip("warp")

Run = Callable[..., None]


@tk.kernel
def scaled(a: tk.array1d[float], factor: float, out: tk.array1d[float]):
    i = tk.tid()
    out[i] = a[i] * factor


LINE = scaled.function.__code__.co_firstlineno


def arrays(requires_grad: bool = True) -> tuple[Any, Any]:
    return (tk.zeros(8, dtype=float, device="cpu", requires_grad=requires_grad) for _ in range(2))  # type: ignore[return-value]


def go(a: Any, out: Any, device: str | None = "cpu", **options: Any) -> None:
    tk.launch(scaled, dim=8, inputs=[a, 2.0], outputs=[out], device=device, **options)


def recorded(a: Any, out: Any) -> None:
    command = tk.launch(scaled, dim=8, inputs=[a, 2.0], outputs=[out], record_cmd=True)
    assert command is not None
    for _ in range(4):
        command.launch()


def warm(a: Any, out: Any) -> None:
    for _ in range(4):
        go(a, out)


def interpreted(a: Any, out: Any) -> None:
    go(a, out, device="interpret")


WAYS = [go, warm, recorded, interpreted]


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    scaled.cache.clear()
    yield
    scaled.cache.clear()


KEPT = tk.ones(8, dtype=float, device="cpu", requires_grad=True)


@tk.kernel
def of_a_default(out: tk.array1d[float], a: tk.array1d[float] = KEPT):
    i = tk.tid()
    out[i] = a[i] * 2.0


@pytest.mark.parametrize("record_cmd", [False, True])
def test_arrays_that_are_defaults_want_gradients_too(record_cmd: bool) -> None:
    out = np.zeros(8, np.float32)
    with tk.Tape() as tape:
        for _ in range(3):
            command = tk.launch(of_a_default, dim=8, outputs=[out], record_cmd=record_cmd)
            if command is not None:
                command.launch()
    assert out.tolist() == [2.0] * 8
    with pytest.raises(KernelNotImplementedError, match=r"launched here with arrays that require grad \(a\)"):
        tape.backward(grads={})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [lambda: wp.Tape(), lambda: tk.Tape()], ids=["warp", "tilekit"])
def test_backward_through_a_launch_is_refused(make: Callable[[], Any], way: Run) -> None:
    a, out = arrays()
    with make() as tape:
        way(a, out)
    with pytest.raises(KernelNotImplementedError) as caught:
        tape.backward(grads={out: tk.ones(8, dtype=float, device="cpu")})
    assert caught.value.message == (
        f"the tape has no gradient of kernel 'scaled' ({__file__}:{LINE}), launched here with arrays that require grad "
        "(a, out); gradients of kernels come with a later release; if none is to flow through this launch, give it "
        "record_tape=False"
    )
    place = caught.value.location
    assert place is not None and place.file == __file__
    assert "launch(" in place.source_line()


@pytest.mark.parametrize("way", [warm, recorded])
def test_the_tape_is_looked_at_on_launches_like_earlier_ones(way: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    a, out = arrays()
    way(a, out)
    way(a, out)
    monkeypatch.setattr(launch, "_run_anew", None)
    with tk.Tape() as tape:
        way(a, out)
    with pytest.raises(NotImplementedError, match="no gradient of kernel 'scaled'"):
        tape.backward(grads={out: a})


def test_a_tape_that_is_not_asked_stops_nothing() -> None:
    a, out = arrays()
    a.fill_(1.0)
    with tk.Tape() as tape:
        warm(a, out)
        recorded(a, out)
    assert len(tape.launches) == 8 and out.numpy().tolist() == [2.0] * 8
    tape.zero()
    tape.reset()
    go(a, out)
    assert not tape.launches


@pytest.mark.parametrize("way", WAYS)
def test_arrays_without_gradients_stop_nothing(way: Run) -> None:
    a, out = arrays(requires_grad=False)
    other = tk.zeros(8, dtype=float, device="cpu", requires_grad=True)
    with tk.Tape() as tape:
        way(a, out)
        way(np.zeros(8, np.float32), np.zeros(8, np.float32))
    tape.backward(grads={other: tk.ones(8, dtype=float, device="cpu")})


def test_an_array_that_is_given_a_gradient_later_is_noticed() -> None:
    a, out = arrays(requires_grad=False)
    with tk.Tape() as tape:
        go(a, out)
    with pytest.raises(NotImplementedError, match=r"that require grad \(out\)"):
        tape.backward(grads={out: tk.ones(8, dtype=float, device="cpu")})


@pytest.mark.parametrize("tiled", [False, True])
def test_a_launch_that_the_tape_is_not_to_know(tiled: bool) -> None:
    a, out = arrays()
    run = tk.launch_tiled if tiled else tk.launch
    with tk.Tape() as tape:
        for _ in range(4):
            run(scaled, dim=8, inputs=[a, 2.0], outputs=[out], record_tape=False)
        command = run(scaled, dim=8, inputs=[a, 2.0], outputs=[out], record_tape=False, record_cmd=True)
        assert command is not None
        command.launch()
    assert not tape.launches
    tape.backward(grads={out: tk.ones(8, dtype=float, device="cpu")})


def test_a_launch_that_failed_is_not_recorded() -> None:
    a, out = arrays()
    with tk.Tape() as tape, pytest.raises(TilekitError):
        tk.launch(scaled, dim=9, inputs=[a, 2.0], outputs=[out])
    assert not tape.launches


class Moved:
    """Stands for what a later Warp may keep there."""


def test_a_warp_whose_tape_is_elsewhere_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp._src.context, "runtime", Moved())
    gradients.warps_state.cache_clear()
    try:
        with pytest.warns(FallbackWarning) as caught:
            assert gradients.active_tape() is gradients.active_tape() is None
    finally:
        gradients.warps_state.cache_clear()
    assert [str(warning.message) for warning in caught] == [
        f"Warp {wp.__version__} keeps its active tape in a place that is not known; no tape records launches of "
        "tilekit's kernels, so gradients through them are zero; with Warp 1.19 they are an error"
    ]


def test_no_warp_is_loaded_for_it() -> None:
    program = (
        "import sys, numpy as np, tilekit as tk\n"
        "from tilekit.runtime import gradients\n"
        "assert gradients.active_tape() is None and 'warp' not in sys.modules\n"
        "import warp\n"
        "assert gradients.active_tape() is None\n"  # not initialised
        "with tk.Tape() as tape: assert gradients.active_tape() is tape\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
