"""Kernels compute the same whatever their caller has set for its floating-point unit, also where NumPy stands in."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import tilekit as tk
from tilekit.ir.float_state import ieee_state, is_ieee

UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}
"""C's FE_UPWARD."""


@tk.kernel
def sums(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    out[i] = a[i] + b[i]


@tk.kernel
def tiles(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]):
    x, y = tk.tile_load(a, shape=8), tk.tile_load(b, shape=8)
    tk.tile_store(out, x * y + x)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("kernel", [sums, tiles], ids=lambda kernel: kernel.key)
def test_a_thread_that_rounds_upwards(kernel: tk.Kernel, device: str) -> None:
    a, b = np.linspace(1, 2, 8, dtype=np.float32), np.full(8, 2.0**-30, np.float32)
    want, got = np.zeros_like(a), np.zeros_like(a)
    library, mode = ctypes.CDLL(None), UPWARD.get(platform.machine(), 0)

    def launch(out: np.ndarray) -> None:
        if kernel is sums:
            tk.launch(kernel, dim=8, inputs=[a, b], outputs=[out], device=device)
        else:
            tk.launch_tiled(kernel, dim=1, inputs=[a, b], outputs=[out], block_dim=8, device=device)

    with tk.config.scoped(num_threads=1):
        launch(want)
        assert library.fesetround(mode) == 0
        try:
            launch(got)
            assert library.fegetround() == mode
        finally:
            library.fesetround(0)
    np.testing.assert_array_equal(got, want)
    assert (want == a).all()


FLUSHING = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
"""Where fenv_t has the control register, and the bits in it that flush subnormals."""
STATES = {"upward": (0x800, 0), "downward": (0x400, 0), "to zero": (0xC00, 0), "flushing": (0, 1), "both": (0x800, 1)}


@contextmanager
def state(name: str) -> Iterator[None]:
    """The thread's state is another one inside; outside of x86 what is known of it."""
    library, outer = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    rounding, flushes = STATES[name]
    library.fegetenv(outer)
    if platform.machine() == "aarch64":
        rounding = {0x800: 0x400000, 0x400: 0x800000, 0xC00: 0xC00000}.get(rounding, 0)
    library.fesetround(rounding)
    if flushes:
        found = ctypes.create_string_buffer(256)
        library.fegetenv(found)
        place, bits = FLUSHING[platform.machine()]
        register = ctypes.c_uint32.from_buffer(found, place)
        register.value |= bits
        library.fesetenv(found)
    try:
        yield
        assert library.fegetround() == rounding
    finally:
        library.fesetenv(outer)


@pytest.mark.parametrize("name", STATES)
def test_every_other_state_is_told_by_computing(name: str) -> None:
    with state(name):
        found = is_ieee()
        with ieee_state():
            inside = is_ieee()
        after = is_ieee()
    assert (found, inside, after) == (False, True, False)
    assert is_ieee()


def constants() -> tk.Kernel:
    """A kernel that no test has compiled."""

    @tk.kernel
    def kernel(a: tk.array1d[float], out: tk.array1d[float], pairs: tk.array1d[tk.uint64], x: float, tiny: float):
        t = tk.tile_load(a, shape=4)
        tk.tile_apply("fma.rn.f32", t, t, 0.7, tk.float32(1e-40))
        out[0] = t[0]
        out[1] = x
        out[2] = tiny
        out[3] = tk.fma(tk.float32(0.7), tk.float32(1e-40), tk.float32(0.3))
        pairs[0] = tk.pack2(0.7, 1e-40, tk.float32)

    return kernel


WANTED = [f"{int(bits):08x}" for bits in np.float32([1e-40, 0.7, 1e-40, 0.3]).view(np.uint32)]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("name", STATES)
def test_constants_and_arguments_are_the_same_bits_in_every_state(name: str, device: str) -> None:
    a, kernel = np.zeros(4, np.float32), constants()
    out, pairs = np.zeros(4, np.float32), np.zeros(1, np.uint64)
    for _ in range(6):  # the later ones are launched as the earlier ones were
        out[:] = 0
        with state(name):
            tk.launch_tiled(kernel, dim=1, inputs=[a, out, pairs, 0.7, 1e-40], block_dim=32, device=device)
        assert [f"{int(bits):08x}" for bits in out.view(np.uint32)] == WANTED
    assert f"{int(pairs[0]):x}" == "116c23f333333"


@pytest.mark.parametrize("name", STATES)
def test_numbers_outside_of_kernels(name: str) -> None:
    with state(name):
        found = tk.pack2(0.7, 1e-40, tk.float32), tk.float32(0.7).view(np.uint32), tk.float32(1e-40).view(np.uint32)
        fused = tk.fma(tk.float32(2.0**-100), tk.float32(2.0**-49), 0.0)
        source = tk.compile(constants(), device="cpu").source
    assert (*map(int, found), float(fused)) == (0x116C23F333333, 0x3F333333, 0x116C2, 2.0**-149)
    assert source == tk.compile(constants(), device="cpu").source
