"""Stale caches: what changed must be seen, what did not must not be built again; threads must not mix."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tilekit as tk
from tests.cases.everywhere import everywhere, launch
from tests.nvrtc import needs_nvrtc
from tilekit.errors import TilekitError

ROOT = Path(__file__).parents[2]
FACTOR = 2.0


@tk.kernel
def scaled(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(2, FACTOR))


def run(kernel: tk.Kernel, device: str = "cpu") -> list[float]:
    out = np.zeros(2, np.float32)
    launch(kernel, device, outputs=[out], block_dim=32)
    return out.tolist()


@everywhere
def test_a_changed_global_is_seen(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    assert run(scaled, device) == [2.0, 2.0]
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 5.0)
    assert run(scaled, device) == [5.0, 5.0]
    monkeypatch.undo()
    assert run(scaled, device) == [2.0, 2.0]


def make(value: float, helper: object) -> tk.Kernel:
    @tk.kernel
    def made(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_full(2, helper(value)))

    return made


@everywhere
def test_kernels_of_one_factory_are_told_apart(device: str) -> None:
    kernels = [make(value, helper) for value in (1.5, 2.5) for helper in (lambda x: x + 1.0, lambda x: x * 4.0)]
    for _ in range(2):
        assert [run(kernel, device)[0] for kernel in kernels] == [2.5, 6.0, 3.5, 10.0]


SCRIPT = """
import numpy as np, tilekit as tk, sys
from tilekit.runtime.toolchain import Toolchain
built = []
compile = Toolchain.compile
Toolchain.compile = lambda self, *a, **k: (built.append(1), compile(self, *a, **k))[1]

def make(value):
    @tk.kernel
    def made(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_load(a, shape=4) * value + {"x": 1.0, "y": 2.0}["x"])
    return made

out = np.zeros(4, np.float32)
for value in (2.0, 3.0):
    tk.launch_tiled(make(value), dim=1, inputs=[np.ones(4, np.float32)], outputs=[out], block_dim=32)
    print(out[0], end=" ")
print(len(built))
"""


def test_a_second_process_builds_nothing_and_mixes_nothing(tmp_path: Path) -> None:
    """Also where string hashes are salted differently: names in the cache must not come from them."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace('{"x": 1.0, "y": 2.0}["x"]', "1.0"))
    printed = []
    for seed in ("1", "2"):
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "TILEKIT_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=True)
        printed.append(done.stdout.split())
    assert printed[0][:2] == printed[1][:2] == ["3.0", "4.0"]
    assert int(printed[0][2]) >= 2 and int(printed[1][2]) == 0


@tk.kernel
def broken(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(2, 1.0))
    tk.tile_store(out, tk.tile_full((2, 2), 1.0))


@everywhere
def test_a_wrong_kernel_fails_at_every_launch(device: str) -> None:
    out = np.zeros(2, np.float32)
    for _ in range(3):
        with pytest.raises(TilekitError, match="tile_store"):
            launch(broken, device, outputs=[out], block_dim=32)
        assert out.tolist() == [0.0, 0.0]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("edited_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCE = """import tilekit as tk

@tk.kernel
def constant(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(2, 1.0))
"""


def test_a_file_edited_after_import_does_not_change_its_kernels(tmp_path: Path) -> None:
    """What was imported runs, or the change is reported; other lines of the new file must not be taken for it."""
    path = tmp_path / "edited.py"
    path.write_text(SOURCE)
    module = load(path)
    path.write_text(SOURCE.replace("1.0", "3.0"))
    os.utime(path, (1, 1))
    try:
        assert run(module.constant) == [1.0, 1.0]
    except TilekitError as error:
        assert "chang" in str(error)


@tk.func
def shared_helper(x: float, y: float):
    return x * y + 1.0


@everywhere
def test_threads_compile_kernels_that_share_a_helper(device: str) -> None:
    def kernel_of(value: float) -> tk.Kernel:
        @tk.kernel
        def threaded(a: tk.array1d[float], out: tk.array1d[float]):
            tk.tile_store(out, tk.tile_map(shared_helper, tk.tile_load(a, shape=4), value))

        return threaded

    def work(number: int) -> list[float]:
        out = np.zeros(4, np.float32)
        kernel = kernel_of(float(number % 4))
        launch(kernel, device, [np.full(4, number, np.float32)], [out], block_dim=32)
        return out.tolist()

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(work, range(16)))
    assert found == [[float(n * (n % 4) + 1)] * 4 for n in range(16)]


def test_an_error_in_one_thread_reaches_that_thread() -> None:
    def work(number: int) -> str:
        try:
            run(broken if number % 2 else scaled)
            return "ran"
        except TilekitError:
            return "failed"

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == ["ran", "failed"] * 4


@needs_nvrtc
def test_threads_compile_code_for_gpus_from_kernels_that_share_a_helper() -> None:
    def kernel_of(value: float) -> tk.Kernel:
        @tk.kernel
        def threaded(a: tk.array1d[float], out: tk.array1d[float]):
            tk.tile_store(out, tk.tile_map(shared_helper, tk.tile_load(a, shape=4), value))

        return threaded

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: tk.compile(kernel_of(float(number % 4)), arch=80).source, range(16)))
    one_by_one = [tk.compile(kernel_of(float(number)), arch=80).source for number in range(4)]
    assert found == one_by_one * 4
    assert len(set(found)) == 4
