"""Ctrl-C ends a launch on the CPU inside a block, however long the block is."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import tilekit as tk
from tests.timing import allowed

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="needs signals"),
    pytest.mark.usefixtures("interruptible"),
]


@tk.kernel
def points(n: int, out: tk.array1d[tk.float32]):
    i = tk.tid()
    s = tk.float32(0.0)
    for _k in range(n):
        for _j in range(1000):
            s = s * 0.5 + 1.0
    out[i] = s


@tk.kernel
def stepped(n: int, out: tk.array1d[tk.float32]):
    i = tk.tid()
    s = tk.float32(0.0)
    k = tk.int64(0)
    while k < tk.int64(n) * tk.int64(1000):
        k += tk.int64(1)
        s = s * 0.5 + 1.0
    out[i] = s


@tk.kernel
def tiles(n: int, out: tk.array1d[tk.float32]):
    t = tk.tile_zeros(shape=(64,), dtype=tk.float32)
    for _k in range(n):
        t = t * 0.5 + 1.0
    tk.tile_store(out, t)


@tk.kernel
def counted(n: int, out: tk.array1d[tk.int32]):
    t = tk.tile_zeros(shape=(64,), dtype=tk.int32)
    for k in range(n):
        t[k % 64] = t[(k + 1) % 64] + 1
    tk.tile_store(out, t)


def launch(kernel: tk.Kernel, n: int, blocks: int) -> float:
    out = np.zeros(64, np.float32)
    if kernel is tiles:
        tk.launch_tiled(kernel, dim=blocks, inputs=[n, out], block_dim=32, device="cpu")
    else:
        tk.launch(kernel, dim=blocks, inputs=[n, out], device="cpu")
    return float(out[0])


def press_ctrl_c(after: float) -> threading.Thread:
    timer = threading.Timer(after, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("kernel", [points, stepped, tiles], ids=lambda kernel: kernel.function.__name__)
def test_ctrl_c_inside_a_block(kernel: tk.Kernel, blocks: int) -> None:
    assert launch(kernel, 1, blocks) > 0  # what was short says nothing of the next launch
    start = time.perf_counter()
    timer = press_ctrl_c(0.3)
    with pytest.raises(KeyboardInterrupt):
        launch(kernel, 2_000_000_000, blocks)
    assert time.perf_counter() - start < allowed(2)
    timer.join()
    assert launch(kernel, 1, blocks) > 0


def test_a_handler_that_raises_nothing_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch(points, 1, 1) > 0
    seen: list[int] = []
    kept = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        timer = press_ctrl_c(0.1)
        assert launch(points, 300_000, 1) == 2.0
        timer.join()
    finally:
        signal.signal(signal.SIGINT, kept)
    assert seen == [signal.SIGINT]


def test_what_a_handler_raises_is_raised() -> None:
    class Alarm(Exception):
        pass

    def ring(number: int, frame: object) -> None:
        raise Alarm

    kept = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Alarm):
            launch(tiles, 2_000_000_000, 1)
    finally:
        signal.signal(signal.SIGALRM, kept)
    assert launch(tiles, 1, 1) == 1.0


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_handler_may_launch_kernels(blocks: int, capfd: pytest.CaptureFixture[str]) -> None:
    def count(n: int, blocks: int) -> list[int]:
        out = np.zeros(64, np.int32)
        tk.launch_tiled(counted, dim=blocks, inputs=[n, out], block_dim=32, device="cpu")
        return out.tolist()

    few, inner = count(100, 1), []
    many = count(600_000_000, blocks)
    kept = signal.signal(signal.SIGALRM, lambda number, frame: inner.append((count(100, 1), count(20_000_000, 1))))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert count(600_000_000, blocks) == many
    finally:
        signal.signal(signal.SIGALRM, kept)
    assert [first for first, _ in inner] == [few]
    assert capfd.readouterr().err == ""


def test_other_threads_do_not_take_the_interrupt() -> None:
    results: list[float] = []
    thread = threading.Thread(target=lambda: results.append(launch(points, 300_000, 1)))
    assert launch(points, 1, 1) > 0
    thread.start()
    timer = press_ctrl_c(0.1)
    with pytest.raises(KeyboardInterrupt):
        launch(points, 2_000_000_000, 1)
    thread.join()
    timer.join()
    assert results == [2.0]
