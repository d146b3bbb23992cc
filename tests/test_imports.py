"""``import tilekit`` is quick and loads nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

HEAVY = ("warp", "torch", "jax", "cupy", "cuda", "ziglang", "sklearn", "matplotlib", "ml_dtypes")
OF_NUMPYS_TIME = 0.6


def run(code: str, environment: Mapping[str, str] | None = None) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


@pytest.mark.parametrize("module", ["tilekit", "tilekit.config", "tilekit.runtime.cache", "tilekit.runtime.toolchain"])
def test_no_heavy_package_is_loaded(module: str) -> None:
    loaded = run(f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})").split()
    assert "tilekit" in loaded
    assert not set(HEAVY) & set(loaded)


def test_importing_is_quick(tmp_path: Path) -> None:
    """Beside NumPy, which it stands on: how fast a machine is now, and its neighbours, are the same for both.

    With compiled bytecode, as an installed package has it, and in CPU time.
    """
    code = """
        from time import process_time as now
        start = now()
        import numpy
        middle = now()
        import tilekit
        print((now() - middle) / (middle - start))
    """
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    assert min(float(run(textwrap.dedent(code), environment)) for _ in range(6)) < OF_NUMPYS_TIME


def test_importing_prints_and_warns_nothing() -> None:
    command = [sys.executable, "-W", "error", "-c", "import tilekit"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
