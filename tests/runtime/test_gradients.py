"""Launches under a tape of Warp's and of tilekit's, in every way of launching."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelNotImplementedError, TilekitError
from tilekit.runtime import gradients, launch, warm as warm_module

wp = pytest.importorskip("warp")

Run = Callable[..., None]


@tk.kernel
def scaled(a: tk.array1d[float], factor: float, out: tk.array1d[float]):
    i = tk.tid()
    tk.tile_store(out, factor * tk.tile_load(a, shape=8, offset=8 * i), offset=8 * i)


def arrays(requires_grad: bool = True) -> tuple[Any, Any]:
    return (tk.zeros(8, dtype=float, device="cpu", requires_grad=requires_grad) for _ in range(2))  # type: ignore[return-value]


def go(a: Any, out: Any, device: str | None = "cpu", **options: Any) -> None:
    tk.launch_tiled(scaled, dim=1, block_dim=32, inputs=[a, 2.0], outputs=[out], device=device, **options)


def recorded(a: Any, out: Any) -> None:
    command = tk.launch_tiled(scaled, dim=1, block_dim=32, inputs=[a, 2.0], outputs=[out], record_cmd=True)
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
    tk.tile_store(out, 2.0 * tk.tile_load(a, shape=8, offset=8 * i), offset=8 * i)


@pytest.mark.parametrize("record_cmd", [False, True])
def test_arrays_that_are_defaults_want_gradients_too(record_cmd: bool) -> None:
    out = np.zeros(8, np.float32)
    with tk.Tape() as tape:
        for _ in range(3):
            command = tk.launch_tiled(of_a_default, dim=1, block_dim=32, outputs=[out], record_cmd=record_cmd)
            if command is not None:
                command.launch()
    assert out.tolist() == [2.0] * 8
    tape.backward(grads=[(out, np.ones(8, np.float32))])
    assert KEPT.grad.numpy().tolist() == [2.0] * 8
    tape.zero()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [lambda: wp.Tape(), lambda: tk.Tape()], ids=["warp", "tilekit"])
def test_backward_goes_through_launches(make: Callable[[], Any], way: Run) -> None:
    a, out = arrays()
    with make() as tape:
        way(a, out)
    tape.backward(grads={out: tk.ones(8, dtype=float, device="cpu")})
    assert a.grad.numpy().tolist() == [2.0] * 8
    assert tape.gradients[a] is a.grad


@pytest.mark.parametrize("way", [warm, recorded])
def test_the_tape_is_looked_at_on_launches_like_earlier_ones(way: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    a, out = arrays()
    way(a, out)
    way(a, out)
    with monkeypatch.context() as patch, tk.Tape() as tape:
        patch.setattr(launch, "_run_anew", None)
        way(a, out)
    assert len(tape.launches) == 4
    tape.backward(grads={out: tk.ones(8, dtype=float, device="cpu")})
    assert a.grad.numpy().tolist() == [2.0] * 8


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


def test_a_launch_that_the_tape_is_not_to_know() -> None:
    a, out = arrays()
    run = tk.launch_tiled
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
        tk.launch_tiled(scaled, dim=-1, inputs=[a, 2.0], outputs=[out])
    assert not tape.launches


def test_a_warp_whose_tape_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its tape records is not known; tilekit's does."""
    a, out = arrays()
    warm(a, out)
    for module in (gradients, warm_module):
        monkeypatch.setattr(module, "warps_state", lambda: None)
    scaled.cache.clear()
    warm_module._attempts.clear()
    try:
        with pytest.raises(KernelNotImplementedError) as caught:
            go(a, out)
        for _ in range(4):
            go(a, out, record_tape=False)
        with pytest.raises(KernelNotImplementedError):
            go(a, out)
        with tk.Tape() as tape:
            warm(a, out)
    finally:
        warm_module._attempts.clear()
    assert caught.value.message == (
        f"argument 'a' of kernel 'scaled' requires grad, but Warp {wp.__version__} does not say whether a tape "
        "records; launch under tk.Tape(), which records Warp's launches too, or with record_tape=False"
    )
    tape.backward(grads={out: tk.ones(8, dtype=float, device="cpu")})
    assert a.grad.numpy().tolist() == [2.0] * 8


def test_no_warp_is_loaded_for_it() -> None:
    program = (
        "import sys, numpy as np, tilekit as tk\n"
        "from tilekit.runtime import gradients\n"
        "assert gradients.active_tape() is None and 'warp' not in sys.modules\n"
        "import warp\n"
        "assert gradients.active_tape() is None\n"  # not initialised
        "with tk.Tape() as tape: assert gradients.watch.tape is tape\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
