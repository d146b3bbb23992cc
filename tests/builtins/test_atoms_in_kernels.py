"""Kernels of atoms on the CPU and in the interpreter: the oracle's bits, in whatever state the host's thread is."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins import atom_cases
from tests.builtins.atom_cases import operands_of, wrong

N = 256


def kernel_of(atom: Any, dtype: Any) -> tk.Kernel:
    """The atom applied to tiles of three operands, of two, or of one."""
    count = len(atom.slots) - 1

    @tk.kernel
    def applied(a: tk.array1d[Any], b: tk.array1d[Any], c: tk.array1d[Any], out: tk.array1d[Any]):
        i = tk.tid()
        x = tk.tile_load(a, shape=N, offset=i * N)
        y = tk.tile_load(b, shape=N, offset=i * N)
        z = tk.tile_load(c, shape=N, offset=i * N)
        r = tk.tile_empty(shape=N, dtype=dtype)
        if count == 3:
            tk.tile_apply(atom, r, x, y, z)
        elif count == 2:
            tk.tile_apply(atom, r, x, y)
        else:
            tk.tile_apply(atom, r, x)
        tk.tile_store(out, r, offset=i * N)

    return applied


MASKS = {"upwards": 2 << 13, "downwards": 1 << 13, "to zero": 3 << 13, "flushing": 0x8040}
"""Bits of x86's MXCSR."""


@contextmanager
def host_state(name: str) -> Iterator[None]:
    """The thread's floating-point state of that name, by what C's library calls the environment."""
    library = ctypes.CDLL(None)
    outer, changed = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
    library.fegetenv(outer)
    library.fegetenv(changed)
    # glibc's fenv_t ends in MXCSR.
    words = (ctypes.c_uint32 * 8).from_buffer(changed)
    words[7] |= MASKS[name]
    library.fesetenv(changed)
    try:
        yield
        after = ctypes.create_string_buffer(256)
        library.fegetenv(after)
        state = (ctypes.c_uint32 * 8).from_buffer(after)[7]
    finally:
        library.fesetenv(outer)
    assert state & 0xE040 == words[7] & 0xE040, "left as it was found"


ATOMS = [
    *(f"fma.{mode}.{type}" for mode in ("rn", "rz", "rm", "rp") for type in ("f32", "f64")),
    "add.rm.ftz.f32", "mul.rp.ftz.f32", "sub.rz.f64", "div.rp.f32", "sqrt.rm.f32", "rcp.rz.f64", "min.f32",
]  # fmt: skip
X86 = platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("state", [None, *(MASKS if X86 else ())])
@pytest.mark.parametrize("spelling", ATOMS)
def test_kernels(spelling: str, state: str | None, device: str) -> None:
    atom = tk.ptx[spelling]
    types = [slot.ptx_type for slot in atom.slots]
    given = [bits[: 4 * N] for bits in operands_of(types[1:], 5 * N)]
    arrays = [atom_cases.registers(bits, type) for bits, type in zip(given, types[1:], strict=True)]
    arrays += [arrays[0]] * (3 - len(arrays))
    out = np.zeros(4 * N, arrays[0].dtype)
    kernel = kernel_of(atom, tk.float32 if types[0] == "f32" else tk.float64)
    with tk.config.scoped(num_threads=1):
        if state is None:
            tk.launch_tiled(kernel, dim=4, inputs=arrays, outputs=[out], block_dim=32, device=device)
        else:
            with host_state(state):
                tk.launch_tiled(kernel, dim=4, inputs=arrays, outputs=[out], block_dim=32, device=device)
    assert not wrong(spelling, given, atom_cases.bits_of(out))


@pytest.mark.skipif(not X86, reason="knows the state of x86 with glibc")
def test_the_states_are_what_they_are_called() -> None:
    one, least, half = np.float32([1]), np.float32([2.0**-126]), np.float32([0.5])
    with host_state("upwards"):
        assert (one + np.float32(2.0**-30))[0] > 1
    with host_state("flushing"):
        assert (least * half)[0] == 0
    assert (least * half)[0] != 0


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_fma_with_ftz(device: str) -> None:
    """Used to be refused. What is rounded up to the least normal number stays, what is subnormal is zero."""
    a, b, c = np.tile(np.uint32([
        [0x04F9659D, 0xB1282000, 0x0080000A],
        [0x3F7FFFFF, 0x00800000, 0],
        [0x3F800000, 0x80400000, 0x80800000],
        [0x3F800000, 0x80400000, 0x80000001],
    ]), (N // 4, 1)).T.copy().view(np.float32)  # fmt: skip
    out = np.ones_like(a)
    kernel = kernel_of(tk.ptx["fma.rn.ftz.f32"], tk.float32)
    tk.launch_tiled(kernel, dim=1, inputs=[a, b, c], outputs=[out], block_dim=32, device=device)
    np.testing.assert_array_equal(out.view(np.uint32), [0x00800000, 0, 0x80800000, 0x80000000] * (N // 4))
