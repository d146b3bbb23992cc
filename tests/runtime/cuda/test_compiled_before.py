"""What ``tk.compile`` compiles is what a launch runs: it finds the code in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tests.runtime.cuda.fake_driver import FakeLibrary, fake as fake
from tests.runtime.cuda.test_cuda_launch import on_gpu
from tilekit.runtime.compile import prepare
from tilekit.runtime.cuda import nvrtc

pytestmark = needs_nvrtc


@tk.kernel
def moved(a: tk.array2d[float], n: int, out: tk.array2d[float]):
    i, j = tk.tid()
    tk.tile_store(out, tk.tile_load(a, shape=(16, 32), offset=(i * 16, j * 32)) + float(n), offset=(i * 16, j * 32))


@tk.kernel
def points(a: tk.array2d[float], n: int, out: tk.array2d[float]):
    i, j = tk.tid()
    out[i, j] = a[i, j] + float(n)


@tk.kernel
def lanes(a: tk.array2d[float], n: int, out: tk.array2d[float]):
    i, j, lane = tk.tid()
    out[i, lane] = a[i, j + lane] + float(n)


def arrays(columns: int, transposed: bool) -> list[Any]:
    made = [aligned(columns) for _ in range(2)]
    a, out = ((array.T if transposed else array) for array in made)
    return [on_gpu(a), 3, on_gpu(out)]


def aligned(columns: int) -> Any:
    """An array that begins at a multiple of 16 bytes."""
    memory = np.zeros(16 * columns + 4, np.float32)
    start = -memory.ctypes.data % 16 // 4
    return memory[start : start + 16 * columns].reshape(16, columns)


@pytest.mark.parametrize(("columns", "transposed"), [(32, False), (33, False), (32, True)])
@pytest.mark.parametrize(
    ("kernel", "tiled"), [(moved, True), (points, False), (lanes, True)], ids=["tiles", "points", "lanes"]
)
def test_a_launch_compiles_nothing_more(
    kernel: tk.Kernel, tiled: bool, columns: int, transposed: bool, fake: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.cache.clear()
    given = arrays(columns, transposed)
    compiled = tk.compile(kernel, given, dim=(2, 2), arch="90a", block_dim=64, tiled=tiled)

    def refused(*_: Any) -> Any:
        raise AssertionError("a launch compiles what tk.compile has compiled")

    monkeypatch.setattr(nvrtc, "compile_cubin", refused)
    launch = tk.launch_tiled if tiled else tk.launch
    launch(kernel, dim=(2, 2), inputs=given[:2], outputs=given[2:], block_dim=64)
    assert fake.launches[-1].grid == (compiled.blocks, 1, 1)
    assert fake.launches[-1].block == (compiled.threads, 1, 1)
    with pytest.raises(AssertionError, match="a launch compiles"):
        launch(kernel, dim=(2, 2), inputs=given[:2], outputs=given[2:], block_dim=128)


def test_a_description_stands_for_an_array_of_its_class() -> None:
    described = prepare(moved, [tk.spec(float, 2), int, tk.spec(float, shape=(16, 33))], arch="90a")
    a, n, out = arrays(32, False)[0], 3, arrays(33, False)[2]
    given = prepare(moved, [a, n, out], arch="90a")
    assert given.source == described.source
    assert given.assumptions == described.assumptions
    assert given.target.arrays["a"].aligned > given.target.arrays["out"].aligned
