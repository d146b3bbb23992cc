"""Compiled kernels on the CPU: their memory, what the host sets for its threads, and calls back into Python."""

import ctypes
import platform
import sys

import numpy as np
import pytest

import tilekit as tk
from tilekit.runtime.cpu import CpuKernel
from tilekit.runtime.program import compile_kernel


@tk.kernel
def halved(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    out[i] = a[i] * 0.5


@tk.kernel
def swapped(a: tk.array2d[tk.float64], b: tk.array2d[tk.float64], times: int):
    x = tk.tile_load(a, shape=(1024, 1024))
    y = tk.tile_load(b, shape=(1024, 1024))
    for _ in range(times):
        x, y = y, x
    tk.tile_store(a, x)
    tk.tile_store(b, y)


@tk.kernel
def sevens(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(shape=4096, value=7.0))


@tk.kernel
def copied(a: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_load(a, shape=4096)
    print("copying")
    tk.tile_store(out, t)


@tk.kernel
def counted():
    i = tk.tid()
    print(i)


@tk.kernel
def checked(a: tk.array1d[float], limit: float):
    i = tk.tid()
    assert a[i] < limit, f"{a[i]} is too large"


@tk.kernel
def positive(a: tk.array1d[float]):
    i = tk.tid()
    assert a[i] > 0.0, "not positive"


@tk.kernel
def summed(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k]
    out[i] = total


@tk.kernel
def compacted(a: tk.array1d[tk.int32], out: tk.array1d[tk.int32], count: tk.array1d[tk.int32]):
    i = tk.tid()
    if a[i] > 0:
        out[tk.atomic_add(count, 0, 1)] = a[i]


@tk.kernel
def tallied(a: tk.array1d[tk.int32], count: tk.array1d[tk.int32]):
    i = tk.tid()
    tk.atomic_add(count, a[i], 1)


class Stream:
    """Stands in for ``sys.stdout`` and does something at each write."""

    def __init__(self, act):
        self.act = act
        self.texts = []

    def write(self, text):
        if text:
            self.texts.append(text)
            self.act()
        return len(text)

    def flush(self):
        pass


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="fenv_t is laid out otherwise elsewhere"
)
def test_subnormals_whatever_the_host_has_set():
    """A library built with -ffast-math, or torch.set_flush_denormal, may flush them in some threads only."""
    a = np.full(1 << 20, 1.2e-38, np.float32)
    out = np.ones_like(a)
    libm = ctypes.CDLL("libm.so.6")
    environment = (ctypes.c_uint32 * 8)()
    libm.fegetenv(ctypes.byref(environment))
    outer = environment[7]
    environment[7] = outer | 0x8040 | 0x6000  # flush to zero, denormals are zero, round towards zero
    libm.fesetenv(ctypes.byref(environment))
    try:
        tk.launch(halved, dim=a.size, inputs=[a], outputs=[out])
        libm.fegetenv(ctypes.byref(environment))
        during = environment[7]
    finally:
        environment[7] = outer
        libm.fesetenv(ctypes.byref(environment))
    assert during & 0xFFC0 == (outer | 0xE040) & 0xFFC0, "the host's own settings are as before"
    assert np.all(out == np.float32(6e-39))


def test_large_tiles_never_lie_on_the_stack():
    a, b = np.zeros((1024, 1024)), np.ones((1024, 1024))
    tk.launch_tiled(swapped, dim=1, inputs=[a, b, 3], block_dim=1)
    assert np.all(a == 1) and np.all(b == 0)
    assert compile_kernel(swapped).arena_bytes >= 2 * a.nbytes


def test_a_launch_from_where_a_kernel_prints_has_tiles_of_its_own(monkeypatch):
    a, out, other = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32), np.zeros(4096, np.float32)
    tk.launch_tiled(sevens, dim=1, outputs=[other], block_dim=1)
    stream = Stream(lambda: tk.launch_tiled(sevens, dim=1, outputs=[other], block_dim=1))
    monkeypatch.setattr(sys, "stdout", stream)
    tk.launch_tiled(copied, dim=1, inputs=[a], outputs=[out], block_dim=1)
    assert stream.texts == ["copying\n"]
    assert np.array_equal(out, a)


def fails():
    raise OSError("the pipe is broken")


def test_what_printing_raises_ends_the_launch(monkeypatch):
    stream = Stream(fails)
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(OSError, match="the pipe is broken"):
        tk.launch(counted, dim=1000)
    assert stream.texts == ["0\n"]


def test_an_error_in_a_launch_from_where_a_kernel_prints_is_its_own(monkeypatch):
    def caught():
        with pytest.raises(OSError, match="the pipe is broken"), monkeypatch.context() as inner:
            inner.setattr(sys, "stdout", Stream(fails))
            tk.launch(counted, dim=2)

    stream = Stream(caught)
    monkeypatch.setattr(sys, "stdout", stream)
    tk.launch(counted, dim=3)
    assert stream.texts == ["0\n", "1\n", "2\n"]


def test_a_failed_assertion_says_what_it_shows():
    a = np.arange(8, dtype=np.float32)
    with pytest.raises(AssertionError, match=r"5\.0 is too large, in block 5"):
        tk.launch(checked, dim=8, inputs=[a, 5.0])
    tk.launch(checked, dim=8, inputs=[a, 9.0])


def test_what_atomic_updates_find_is_the_same_for_any_number_of_threads():
    """Blocks run in order where the old value is used, and only there."""
    assert compile_kernel(compacted, tiled=False).generated.serial
    assert not compile_kernel(tallied, tiled=False).generated.serial
    a = np.arange(-5000, 5000, dtype=np.int32)
    out, count = np.zeros(5000, np.int32), np.zeros(1, np.int32)
    with tk.config.scoped(num_threads=4):
        tk.launch(compacted, dim=a.size, inputs=[a], outputs=[out, count])
    assert count[0] == 4999
    assert np.array_equal(out[:4999], np.arange(1, 5000))


def test_code_names_python_lines_unless_told_not_to():
    assert '#line 17 "' in compile_kernel(halved).source
    with tk.config.scoped(line_directives=False):
        assert "#line" not in compile_kernel(halved).source


@pytest.mark.parametrize("points", [1, 4])
def test_an_interrupted_launch_leaves_no_error_for_the_next(monkeypatch: pytest.MonkeyPatch, points: int) -> None:
    good, bad = np.ones(points, np.float32), np.zeros(points, np.float32)
    tk.launch(positive, dim=points, inputs=[good])
    (compiled,) = positive.cache.values()
    real = compiled.entry

    def interrupted(*given: object) -> None:
        real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(compiled, "entry", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tk.launch(positive, dim=points, inputs=[bad])
    out = np.zeros(points, np.float32)
    tk.launch(halved, dim=points, inputs=[good], outputs=[out])
    assert out.tolist() == [0.5] * points


def test_short_launches_do_not_keep_long_ones_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of arrays of other shapes may take far longer."""
    asked: list[int] = []
    real = CpuKernel._run_shared
    monkeypatch.setattr(CpuKernel, "_run_shared", lambda *given: (asked.append(1), real(*given))[1])

    def asks_the_pool(size: int) -> bool:
        asked.clear()
        tk.launch(summed, dim=2, inputs=[np.ones(size, np.float32), np.zeros(2, np.float32)])
        return bool(asked)

    long_ones = []
    for _ in range(6):
        assert any(not asks_the_pool(4) for _ in range(300))
        long_ones.append(asks_the_pool(1 << 20))
    assert all(long_ones[3:])
