"""Compiled kernels that nothing holds leave the process; those that run stay."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.runtime.cpu import CpuKernel
from tilekit.runtime.libraries import load_library
from tilekit.runtime.program import compile_kernel

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc/self/maps")


def loaded(folder: Path | str = "kernel.so") -> int:
    """Memory maps of libraries there."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        return sum(str(folder) in line for line in lines)


def made(constant: float) -> tk.Kernel:
    @tk.kernel
    def fill(out: tk.array1d[float]) -> None:
        i = tk.tid()
        out[i] = constant

    return fill


def filled(kernel: tk.Kernel, launches: int = 4) -> float:
    out = np.zeros(3, np.float32)
    for _ in range(launches):
        tk.launch(kernel, dim=3, inputs=[out], device="cpu")
    return float(out[0])


def test_a_kernel_that_dies_releases_its_library() -> None:
    gc.collect()
    before = loaded()
    kernels = [made(float(number)) for number in range(3)]
    assert [filled(kernel) for kernel in kernels] == [0.0, 1.0, 2.0]
    held = loaded()
    assert held > before
    del kernels[1:]
    gc.collect()
    assert before < loaded() < held
    assert filled(kernels[0]) == 0.0
    kernels.clear()
    gc.collect()
    assert loaded() == before


def test_three_hundred_specialisations_leave_nothing(tmp_path: Path) -> None:
    compiled = compile_kernel(made(7.0), tiled=False)
    out = np.zeros(1, np.float32)
    values = [out.ctypes.data, 1, 4]
    kept: list[Any] = []
    for number in range(300):
        path = tmp_path / f"{number}.so"
        shutil.copy(compiled.library, path)
        kept.append(CpuKernel(compiled.generated, path, compiled.target))
        kept[-1].run(values, (1,), 1)
        del kept[:-2]
        if number % 50 == 49:
            gc.collect()  # ctypes' functions refer to themselves
            assert 0 < loaded(tmp_path) <= 2 * 7
    assert out[0] == 7.0
    kept.clear()
    gc.collect()
    assert loaded(tmp_path) == 0


def test_a_library_stays_while_it_runs(tmp_path: Path) -> None:
    @tk.kernel
    def slow(out: tk.array1d[float], n: int) -> None:
        i = tk.tid()
        for _ in range(n):
            out[i] = out[i] * 0.5 + 1.0

    compiled = compile_kernel(slow, tiled=False)
    path = tmp_path / "slow.so"
    shutil.copy(compiled.library, path)
    out = np.zeros(2, np.float32)
    kernels = [CpuKernel(compiled.generated, path, compiled.target)]
    run = kernels.pop().run
    thread = threading.Thread(target=run, args=([out.ctypes.data, 2, 4, 100_000_000], (2,), 2))
    thread.start()
    del run
    while not loaded(path):
        time.sleep(0.001)
    gc.collect()
    assert thread.is_alive() and loaded(path)
    thread.join()
    assert out.tolist() == [2.0, 2.0]


def test_a_library_whose_file_was_written_to_stays(tmp_path: Path) -> None:
    """What the file has lost would be a bus error where its last code runs."""
    library = tmp_path / "written.so"
    shutil.copyfile(compile_kernel(made(1.0), tiled=False, ndim=1).library, library)
    held = load_library(library)
    os.truncate(library, 64)
    del held
    gc.collect()
    assert loaded(library)
