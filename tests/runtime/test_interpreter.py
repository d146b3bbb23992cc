"""``device="interpret"``: kernels as Python code, under a debugger."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.runtime.interpreting import interpret, line_of, places
from tilekit.errors import FallbackWarning, TilekitWarning
from tilekit.runtime import interpreter

SCRIPT = Path(__file__).with_name("interpreted_script.py")


# The same results.


@tk.kernel
def gemm(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    i, j = tk.tid()
    total = tk.tile_zeros(shape=(4, 8), dtype=float)
    for k in range((a.shape[1] + 2) // 3):
        left = tk.tile_load(a, shape=(4, 3), offset=(i * 4, k * 3))
        right = tk.tile_load(b, shape=(3, 8), offset=(k * 3, j * 8))
        tk.tile_matmul(left, right, total)
    tk.tile_store(out, total, offset=(i * 4, j * 8))


def test_a_product_as_on_the_cpu_and_in_numpy():
    rng = np.random.default_rng(0)
    a, b = rng.random((9, 10), np.float32), rng.random((10, 17), np.float32)
    results = {}
    for device in ("cpu", "interpret"):
        results[device] = np.zeros((9, 17), np.float32)
        tk.launch_tiled(gemm, dim=(3, 3), inputs=[a, b, results[device]], block_dim=32, device=device)
    assert results["cpu"].tobytes() == results["interpret"].tobytes()
    np.testing.assert_allclose(results["interpret"], a @ b, rtol=1e-5)


@tk.kernel
def pointwise(x: tk.array1d[tk.bfloat16], scale: float, extra: tk.array2d[float], out: tk.array1d[tk.bfloat16]):
    i = tk.tid()
    value = float(x[i]) * scale
    if extra:
        value += extra[i, 1]
    if value > 10.0 and i % 2 == 0:
        value = -value
    out[i] = tk.bfloat16(value)


@pytest.mark.parametrize("given", [False, True])
def test_views_of_memory_of_every_kind(given):
    """Strides of any sign, bfloat16 as its bits, arrays that are not given."""
    bits = (np.arange(1, 21, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    extra = np.arange(60, dtype=np.float32).reshape(20, 3)[::-2, ::-1] if given else None
    results = {}
    for device in ("cpu", "interpret"):
        x = bfloat16_array(bits[::-2])
        out = bfloat16_array(np.zeros(20, np.uint16)[::2])
        tk.launch(pointwise, dim=10, inputs=[x, 1.5, extra], outputs=[out], device=device)
        results[device] = np.asarray(out).view(np.uint16).tolist()
    assert results["cpu"] == results["interpret"]
    assert any(results["cpu"])


def bfloat16_array(bits):
    return bits.view(ml_dtypes.bfloat16)


def offset_by(amount):
    @tk.kernel
    def shifted(a: tk.array1d[float], out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        tk.tile_store(out, tk.tile_map(lambda x: halved(x) + amount, t))

    return shifted


@tk.func
def halved(x: float):
    return x * 0.5


def test_helpers_closures_and_lambdas():
    out = np.zeros(4, np.float32)
    a = np.arange(4, dtype=np.float32)
    interpret(offset_by(3.0), 1, a, out)
    assert out.tolist() == [3.0, 3.5, 4.0, 4.5]
    interpret(offset_by(5.0), 1, a, out)
    assert out.tolist() == [5.0, 5.5, 6.0, 6.5]


# Debuggers.


@tk.kernel
def stopping(a: tk.array1d[float], n: int, out: tk.array1d[float]):
    i = tk.tid()
    t = tk.tile_load(a, shape=4)
    total = tk.float32(0.0)
    for k in range(n):
        total += t[k]
        if k == 2 and i == 1:
            breakpoint()  # the stop
        total = total * 2.0
    out[i] = total


def test_breakpoint_sees_the_line_and_the_values(monkeypatch):
    seen = []

    def hook(*args, **kwargs):
        frame = sys._getframe(1)
        shown = {name: str(frame.f_locals[name]) for name in ("i", "n", "k", "total", "t")}
        seen.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, shown))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    out = np.zeros(2, np.float32)
    interpret(stopping, 2, np.arange(4, dtype=np.float32), 4, out)
    values = {"i": "1", "n": "4", "k": "2", "total": "4.0", "t": "tile<4xf32>\n[0. 1. 2. 3.]"}
    assert seen == [(__file__, line_of(__file__, "the stop"), "stopping", values)]
    assert out.tolist() == [22.0, 22.0]


def test_breakpoints_have_no_effect_in_compiled_kernels(monkeypatch):
    monkeypatch.setattr(sys, "breakpointhook", lambda: pytest.fail("stopped while tracing"))
    out = np.zeros(2, np.float32)
    stopping.cache.clear()
    with pytest.warns(TilekitWarning, match="device='interpret'") as caught:
        tk.launch_tiled(stopping, dim=2, inputs=[np.arange(4, dtype=np.float32), 4, out], block_dim=32, device="cpu")
    assert (caught[0].filename, caught[0].lineno) == (__file__, line_of(__file__, "the stop"))
    assert out.tolist() == [22.0, 22.0]


@tk.func
def stops(x: float):
    breakpoint()  # in a mapped function
    return x + 1.0


@tk.kernel
def maps(out: tk.array1d[float]):
    t = tk.tile_zeros(shape=2)
    tk.tile_store(out, tk.tile_map(stops, t))


def test_breakpoints_have_no_effect_in_mapped_functions(monkeypatch):
    monkeypatch.setattr(sys, "breakpointhook", lambda: pytest.fail("stopped while tracing"))
    out = np.zeros(2, np.float32)
    with pytest.warns(TilekitWarning, match="mapped over tiles; call them on one element") as caught:
        interpret(maps, 1, out)
    assert (caught[0].filename, caught[0].lineno) == (__file__, line_of(__file__, "in a mapped function"))
    assert out.tolist() == [1.0, 1.0]


def test_an_error_of_the_debugger_leaves_the_kernel_with_a_note(monkeypatch):
    def hook():
        raise LookupError("quit")

    monkeypatch.setattr(sys, "breakpointhook", hook)
    with pytest.raises(LookupError) as caught:
        interpret(stopping, 2, np.arange(4, dtype=np.float32), 4, np.zeros(2, np.float32))
    assert caught.value.__notes__ == ["in block 1 of kernel 'stopping'"]
    assert (__file__, line_of(__file__, "the stop")) in places(caught.value)


def test_keyboard_interrupt_leaves_the_kernel(monkeypatch):
    def hook():
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "breakpointhook", hook)
    with pytest.raises(KeyboardInterrupt):
        interpret(stopping, 2, np.arange(4, dtype=np.float32), 4, np.zeros(2, np.float32))


def test_tracing_is_hidden_from_debuggers():
    """A breakpoint at a line stops with values only, never while the kernel is traced."""
    seen = []
    start, end = stopping.function.__code__.co_firstlineno, line_of(__file__, "the stop") + 2

    def tracer(frame, event, argument):
        if frame.f_code.co_filename == __file__ and start < frame.f_lineno <= end:
            seen.append((event, frame.f_lineno))
        return tracer

    stopping.cache.clear()
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        interpret(stopping, 1, np.arange(4, dtype=np.float32), 2, np.zeros(2, np.float32))
    finally:
        sys.settrace(before)
    first = start + 2
    body = [first + 4, first + 5, first + 7]
    lines = [first, first + 1, first + 2, first + 3, *body, first + 3, *body, first + 3, first + 8]
    assert [line for event, line in seen if event == "line"] == lines


class Monitoring:
    """What debuggers use since Python 3.12, as far as the interpreter asks it."""

    DEBUGGER_ID = 0

    def __init__(self, tool):
        self.tool = tool
        self.events = 32
        self.past = []

    def get_tool(self, number):
        return self.tool if number == self.DEBUGGER_ID else None

    def get_events(self, number):
        return self.events

    def set_events(self, number, events):
        self.events = events
        self.past.append(events)


@pytest.mark.parametrize(("tool", "past"), [("debugger", [0, 32]), (None, [])])
def test_tracing_is_hidden_from_monitoring(monkeypatch, tool, past):
    monitoring = Monitoring(tool)
    monkeypatch.setattr(sys, "monitoring", monitoring, raising=False)
    stopping.cache.clear()
    interpret(stopping, 1, np.arange(4, dtype=np.float32), 2, np.zeros(2, np.float32))
    assert monitoring.past == past


def run_pdb(*commands):
    options = [part for command in commands for part in ("-c", command)]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[2]), "PYTHONIOENCODING": "utf-8"}
    finished = subprocess.run(
        [sys.executable, "-m", "pdb", *options, str(SCRIPT)],
        env=environment, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return finished.stdout


def test_pdb_with_a_condition():
    line = 1 + SCRIPT.read_text(encoding="utf-8").splitlines().index("        before = after")
    inner = 1 + SCRIPT.read_text(encoding="utf-8").splitlines().index("    return total / 2.0")
    output = run_pdb(
        f"b {SCRIPT}:{line}, i == 2 and k == 7",
        "c",
        "p int(i), int(k), float(before)",
        "p a",
        "w",
        "n",
        "w",
        f"b {inner}",
        "c",
        "p float(total), float(y)",
        "w",
        "q",
    )
    assert f"{SCRIPT}({line})smooth()" in output
    assert f"{SCRIPT}({line - 2})smooth()" in output, "one step on is the head of the loop"
    before = np.float32(2.0)
    for k in range(7):
        before = (before + np.float32(k)) / np.float32(2.0)
    after = (before + np.float32(7)) / np.float32(2.0)
    assert f"(2, 7, {float(before)})" in output
    assert "array1d<f32> a" in output
    assert f"{SCRIPT}({inner})blend()" in output
    assert f"({float(after + np.float32(8))}, 8.0)" in output


# Printing.


@tk.kernel
def prints(a: tk.array1d[float], n: int):
    i = tk.tid()
    t = tk.tile_load(a, shape=2)
    x = a[i] / 3.0
    print("block", i, x, t)
    if i == n:
        print(n, "is last")


def test_print_writes_what_the_compiled_kernel_writes(capsys):
    a = np.arange(3, dtype=np.float32)
    texts = []
    for device in ("cpu", "interpret"):
        tk.launch_tiled(prints, dim=3, inputs=[a, 2], block_dim=32, device=device)
        texts.append(capsys.readouterr().out)
    assert texts[1] == texts[0]
    assert texts[1].startswith("block 0 0.0 ")


# No compiler.


def test_without_a_compiler_the_interpreter_runs(monkeypatch):
    @tk.kernel
    def fill(out: tk.array1d[float], value: float):
        out[tk.tid()] = value

    monkeypatch.setattr(interpreter, "find_toolchain", lambda: None)
    monkeypatch.setattr(interpreter, "_told", False)
    out = np.zeros(2, np.float32)
    with pytest.warns(FallbackWarning, match="install g") as caught:
        tk.launch(fill, dim=2, inputs=[out, 3.0], device="cpu")  # launched without a compiler
    assert (caught[0].filename, caught[0].lineno) == (__file__, line_of(__file__, "launched without a compiler"))
    assert out.tolist() == [3.0, 3.0]
    fill.cache.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tk.launch(fill, dim=2, inputs=[out, 4.0], device="cpu")
    assert out.tolist() == [4.0, 4.0]
