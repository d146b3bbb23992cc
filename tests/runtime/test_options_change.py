"""Options that another thread changes while a kernel compiles: a launch uses those that it began with."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.config import config

change: dict[str, Any] = {}
"""What the other thread sets while a kernel is traced."""


def other_thread() -> float:
    def work() -> None:
        for name, value in change.items():
            setattr(config, name, value)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return 0.0


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    yield
    change.clear()
    config.reset()


def made() -> Any:
    """A kernel of its own, so that nothing is compiled yet."""

    @tk.kernel
    def reads(a: tk.array1d[float], i: int, out: tk.array1d[float]):
        out[0] = a[i] + tk.static(other_thread())

    return reads


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_index_checks_are_those_of_the_launch(device: str) -> None:
    kernel = made()
    change["index_checks"] = False
    memory = np.arange(4, dtype=np.float32)
    for index in (0, 3):
        config.index_checks = True
        arguments: dict[str, Any] = {"inputs": [memory[:2], index], "outputs": [np.zeros(1, np.float32)]}
        if index:
            with pytest.raises(IndexError):
                tk.launch_tiled(kernel, dim=1, device=device, **arguments)
        else:
            tk.launch_tiled(kernel, dim=1, device=device, **arguments)


def test_each_set_of_options_has_its_own_form() -> None:
    kernel = made()
    change["index_checks"] = True
    memory, out = np.arange(4, dtype=np.float32), np.zeros(1, np.float32)
    config.index_checks = False
    tk.launch_tiled(kernel, dim=1, inputs=[memory[:2], 3], outputs=[out])
    assert out[0] == 3.0
    with pytest.raises(IndexError):  # the other thread has set index_checks
        tk.launch_tiled(kernel, dim=1, inputs=[memory[:2], 3], outputs=[out])


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_loops_are_unrolled_as_the_launch_asks(device: str) -> None:
    @tk.kernel
    def adds(out: tk.array1d[tk.int32]):
        total = tk.int32(0)
        unchanged = tk.static(other_thread())
        for i in range(4):
            total += (1, 2, 3, 4)[i]  # which a loop that stays a loop cannot index
        out[0] = total + int(unchanged)

    change["max_unroll"] = 1
    out = np.zeros(1, np.int32)
    tk.launch_tiled(adds, dim=1, outputs=[out], device=device)
    assert out[0] == 10


def test_a_kernels_own_max_unroll() -> None:
    def add(out: tk.array1d[tk.int32]):
        total = tk.int32(0)
        for i in range(4):
            total += i
        out[0] = total

    types = {"out": tk.ir.types.ArrayType(tk.int32, 1)}
    form = tk.ir.context.LaunchForm(True, 1, 32)
    rolled = tk.kernel(add, module_options={"max_unroll": 2}).trace(types, form)
    assert "for_range" in str(rolled)
    assert "for_range" not in str(tk.kernel(add, module_options={}).trace(types, form))
    with pytest.raises(ValueError, match="max_unroll"):
        tk.kernel(add, module_options={"max_unroll": "all"}).trace(types, form)


def test_a_snapshot_is_of_one_moment() -> None:
    fresh = tk.config.__class__()
    stop, seen = threading.Event(), {}

    def work() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            fresh.max_unroll = number

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for count in itertools.count():
            version, values = fresh.snapshot()
            assert seen.setdefault(version, values["max_unroll"]) == values["max_unroll"]
            if count >= 2000 and len(seen) > 10:  # the other thread had its turns
                break
    finally:
        stop.set()
        thread.join()
