"""Lanes in the interpreter: threads that take turns."""

from __future__ import annotations

import signal
import sys
import threading
import time
import traceback

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.interpreting import line_of
from tilekit.errors import KernelAssertionError, KernelIndexError, KernelValueError, UninitializedError
from tilekit.runtime.turns import Arrival, Turns

LANES = 6


def interpret(kernel, *arguments, dim=1):
    tk.launch_tiled(kernel, dim=dim, inputs=arguments, block_dim=LANES, device="interpret")


@tk.kernel
def neighbours(out: tk.array1d[tk.int32]):
    _block, lane = tk.tid()
    mine = lane * lane
    t = tk.tile(mine)
    other = t[(lane + 1) % 6]
    if lane == 4:
        breakpoint()  # a lane stops
    t[lane] = other
    tk.tile_store(out, t)


def test_a_breakpoint_in_one_lane(monkeypatch):
    seen = []

    def hook():
        frame = sys._getframe(1)
        values = {name: str(frame.f_locals[name]) for name in ("lane", "mine", "other")}
        # What a debugger computes must not let the other lanes go on.
        doubled = eval("(t + t)[3]", frame.f_globals, frame.f_locals)
        seen.append((frame.f_lineno, values, int(doubled)))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    out = np.zeros(LANES, np.int32)
    interpret(neighbours, out)
    assert seen == [(line_of(__file__, "a lane stops"), {"lane": "4", "mine": "16", "other": "25"}, 18)]
    assert out.tolist() == [1, 4, 9, 16, 25, 0]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, LookupError])
def test_what_a_lane_raises_ends_all(monkeypatch, kind):
    def hook():
        raise kind("stop")

    monkeypatch.setattr(sys, "breakpointhook", hook)
    before = set(threading.enumerate())
    with pytest.raises(kind) as caught:
        interpret(neighbours, np.zeros(LANES, np.int32))
    assert set(threading.enumerate()) <= before
    lines = [entry.lineno for entry in traceback.extract_tb(caught.value.__traceback__) if entry.filename == __file__]
    assert line_of(__file__, "a lane stops") in lines
    if kind is LookupError:
        assert caught.value.__notes__ == ["in block 0, lane 4 of kernel 'neighbours'"]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_lane_that_runs_and_not_one_that_it_wakes():
    """Threads switch at every chance here, as they do where other programs keep the processors busy."""
    reached = []

    def body(lane, turns):
        turns.meet(lane, Arrival("tile_load", None))
        if lane == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            for _ in range(3000):
                time.sleep(0.01)
            reached.append(lane)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(10):
            with pytest.raises(KeyboardInterrupt):
                Turns(64, body).run()
    finally:
        sys.setswitchinterval(interval)
    assert not reached


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_a_lane_that_goes_on_for_ever(monkeypatch):
    def hook():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        for _ in range(3000):
            time.sleep(0.01)
        seen.append("never interrupted")

    seen = []
    monkeypatch.setattr(sys, "breakpointhook", hook)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        interpret(neighbours, np.zeros(LANES, np.int32))
    assert set(threading.enumerate()) <= before
    assert not seen


@tk.kernel
def lane_reads_outside(a: tk.array1d[tk.int32], out: tk.array1d[tk.int32]):
    _block, lane = tk.tid()
    x = a[lane]  # outside for some lanes
    tk.tile_store(out, tk.tile(x))


@tk.kernel
def lane_reads_unwritten(out: tk.array1d[tk.int32]):
    _block, lane = tk.tid()
    t = tk.tile_empty(shape=6, dtype=tk.int32)
    if lane != 3:
        t[lane] = lane
    tk.tile_store(out, t)  # one lane did not write


@tk.kernel
def lane_asserts(n: int, out: tk.array1d[tk.int32]):
    _block, lane = tk.tid()
    assert lane < n, "too many lanes"
    tk.tile_store(out, tk.tile(lane))


def test_errors_name_the_lane():
    out = np.zeros(LANES, np.int32)
    with pytest.raises(KernelIndexError) as caught:
        interpret(lane_reads_outside, np.zeros(4, np.int32), out)
    assert caught.value.message == (
        "index 4 is out of bounds for axis 0 of a, which has extent 4, "
        "in block 0, lane 4 of kernel 'lane_reads_outside'"
    )
    assert caught.value.location.line == line_of(__file__, "outside for some lanes")
    with pytest.raises(KernelAssertionError, match="too many lanes, in block 0, lane 5 of kernel"):
        interpret(lane_asserts, 5, out)


def test_errors_of_what_lanes_do_together_name_none():
    with pytest.raises(UninitializedError, match=r"element \[3\] of a tile<6xi32>.*, in block 0 of kernel") as caught:
        interpret(lane_reads_unwritten, np.zeros(LANES, np.int32))
    assert caught.value.location.line == line_of(__file__, "one lane did not write")


@tk.kernel
def divergent(n: int, out: tk.array1d[tk.int32]):
    _block, lane = tk.tid()
    t = tk.tile_zeros(shape=6, dtype=tk.int32)
    t[lane] = lane + 1
    for k in range(lane):
        if k == n:
            break
        t[lane] += t[lane] * k
    x = t[lane] if lane > 2 else 7
    if lane > 1 and t[lane] > 4:
        t[0] += x
    y = 0
    while y < lane:
        y += 2
        if y == 4:
            continue
        t[(lane + y) % 6] += 1
    t[lane] = t[(lane + 1) % 6] + x
    tk.tile_store(out, t)


def test_lanes_on_ways_of_their_own():
    for n in (1, 9):
        results = []
        for device in ("cpu", "interpret"):
            out = np.zeros(LANES, np.int32)
            tk.launch_tiled(divergent, dim=1, inputs=[n, out], block_dim=LANES, device=device)
            results.append(out.tolist())
        assert results[0] == results[1]


@tk.kernel
def prints_tiles(out: tk.array1d[tk.int32]):
    _block, lane = tk.tid()
    t = tk.tile_zeros(shape=6, dtype=tk.int32)
    t[lane] = lane + 1
    print(lane, t)
    if lane == 2:
        t[0] = 9
        print("inside", t[0:2])
    print(lane, t[0:3])
    tk.tile_store(out, t)


def test_lanes_print_what_all_have_written(capsys):
    texts = []
    for device in ("cpu", "interpret"):
        out = np.zeros(LANES, np.int32)
        tk.launch_tiled(prints_tiles, dim=1, inputs=[out], block_dim=LANES, device=device)
        texts.append(capsys.readouterr().out.splitlines())
    assert texts[0] == texts[1]
    assert "0 [1 2 3 4 5 6]" in texts[1]


@tk.kernel
def points(a: tk.array2d[float], out: tk.array2d[float]):
    i, j = tk.tid()
    t = tk.tile(a[i, j])
    out[i, j] = tk.untile(t * 2.0) + tk.float32(i)


def test_launch_makes_blocks_of_points():
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    out = np.zeros((4, 3), np.float32)
    tk.launch(points, dim=(4, 3), inputs=[a, out], block_dim=6, device="interpret")
    np.testing.assert_array_equal(out, a * 2 + np.arange(4, dtype=np.float32)[:, None])


def test_lanes_that_come_to_different_places():
    def body(lane, turns):
        turns.meet(lane, Arrival("tile_load", None))
        if lane != 2:
            turns.meet(lane, Arrival("tile_store", None))

    turns = Turns(4, body)
    with pytest.raises(KernelValueError, match="lane 0 has reached tile_store, but lane 2 has ended"):
        turns.run()
    assert turns.failed is None


def test_each_lane_gets_what_all_did():
    found = []

    def body(lane, turns):
        total = turns.meet(lane, Arrival("sum", None, lambda all: sum(a.given["x"] for a in all), {"x": lane}))
        found.append((lane, total))

    Turns(5, body).run()
    assert found == [(lane, 10) for lane in range(5)]
