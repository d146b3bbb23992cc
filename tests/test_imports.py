"""``import tilekit`` is quick and loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("warp", "torch", "jax", "cupy", "cuda", "ziglang", "sklearn", "matplotlib", "ml_dtypes")
SECONDS = 0.2


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("module", ["tilekit", "tilekit.config", "tilekit.runtime.cache", "tilekit.runtime.toolchain"])
def test_no_heavy_package_is_loaded(module: str) -> None:
    loaded = run(f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})").split()
    assert "tilekit" in loaded
    assert not set(HEAVY) & set(loaded)


def test_importing_is_quick() -> None:
    code = "import time; t = time.perf_counter(); import tilekit; print(time.perf_counter() - t)"
    assert min(float(run(code)) for _ in range(5)) < SECONDS


def test_importing_prints_and_warns_nothing() -> None:
    command = [sys.executable, "-W", "error", "-c", "import tilekit"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
