"""Threads that read what others of their block write in arrays and tiles wait for them: kernels on the emulator."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.emulator import EmulatedKernels
from tilekit.runtime.program import compile_kernel

A1 = tk.array1d[float]
A2 = tk.array2d[float]


@tk.kernel
def stored_then_read(a: A1, b: A1):
    tk.tile_store(b, tk.tile_load(a, shape=96) * 2.0)
    tk.tile_store(a, tk.tile_load(b, shape=96, offset=1))


@tk.kernel
def read_then_stored(a: A1, b: A1):
    tk.tile_store(a, tk.tile_load(a, shape=96, offset=1))
    tk.tile_store(b, tk.tile_load(b, shape=96), offset=1)


@tk.kernel
def added_then_read(a: A1, b: A1):
    tk.tile_atomic_add(b, tk.tile_load(a, shape=96))
    tk.tile_store(a, tk.tile_load(b, shape=96, offset=1))


@tk.kernel
def stored_twice(a: A1, b: A1):
    x = tk.tile_load(a, shape=96)
    tk.tile_store(b, x)
    tk.tile_store(b, x + 1.0, offset=1)


@tk.kernel
def element_then_tile(a: A1, b: A1):
    b[70] = a[3]
    tk.tile_store(a, tk.tile_load(b, shape=96))


@tk.kernel
def viewed(a: A2, b: A2):
    x = tk.tile_load(a, shape=(8, 12))
    y = x.T
    tk.tile_store(b, y + 1.0)
    y *= 0.5
    tk.tile_store(a, x)


@tk.kernel
def shifted_sums(a: A2, b: A2):
    """What is added to the sums is read where it is added, after threads have waited for the factors."""
    added = tk.tile_load(b, shape=(48, 48))
    x = tk.tile_load(a, shape=(48, 16)) * 2.0
    y = tk.tile_load(a, shape=(16, 48), offset=(0, 16)) * 0.5
    tk.tile_store(b, tk.tile_matmul(x, y) + added, offset=(1, 1))


def wanted(kernel: tk.Kernel, a: Any, b: Any) -> tuple[Any, Any]:
    """What the arrays hold after the kernel, whose ops are done one after the other."""
    a, b = a.copy(), b.copy()
    if kernel is stored_then_read:
        b[:96] = a[:96] * 2
        a[:96] = b[1:97]
    elif kernel is read_then_stored:
        a[:96], b[1:97] = a[1:97].copy(), b[:96].copy()
    elif kernel is added_then_read:
        b[:96] += a[:96]
        a[:96] = b[1:97]
    elif kernel is stored_twice:
        b[0], b[1:97] = a[0], a[:96] + 1
    elif kernel is element_then_tile:
        b[70] = a[3]
        a[:96] = b[:96]
    elif kernel is viewed:
        b[...] = a.T + 1
        a *= 0.5
    else:
        b[1:49, 1:49] = a[:, :16] @ a[:16, 16:] + b[:48, :48]
    return a, b


KERNELS = [stored_then_read, read_then_stored, added_then_read, stored_twice, element_then_tile, viewed, shifted_sums]
SHAPES = {viewed: ((8, 12), (12, 8)), shifted_sums: ((48, 64), (49, 49))}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> EmulatedKernels:
    found = [compile_kernel(kernel, device="cuda", arch="90a", block_dim=32) for kernel in KERNELS]
    assert re.search(r"fused_elements\(\) {\n.*tile_load", str(found[-1].ir))
    return EmulatedKernels([each.generated for each in found], tmp_path_factory.mktemp("waits"))


@pytest.mark.parametrize("first", ["0", "last"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
def test_it_does_one_thing_after_the_other(
    kernel: tk.Kernel, first: str, kernels: EmulatedKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever thread of the block has the first turn."""
    monkeypatch.delenv("TILEKIT_EMULATOR_REVERSED", raising=False)
    if first == "last":
        monkeypatch.setenv("TILEKIT_EMULATOR_REVERSED", "1")
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in SHAPES.get(kernel, ((97,), (97,))))
    expected = wanted(kernel, a, b)
    kernels.launch(KERNELS.index(kernel), (1,), {"a": a, "b": b})
    np.testing.assert_array_equal(a, expected[0])
    np.testing.assert_array_equal(b, expected[1])
