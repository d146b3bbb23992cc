"""The benchmark measures what it says, and notices wrong results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tilekit.bench import gemm_cpu

ROOT = Path(__file__).parents[2]


def test_as_a_program() -> None:
    command = [sys.executable, "-m", "tilekit.bench.gemm_cpu", "--size", "128", "--rounds", "1", "--dtypes", "float32"]
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Prescott"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = [
        line.split()[0] for line in done.stdout.splitlines() if line.startswith(("tilekit  ", "NumPy  ", "Warp  "))
    ]
    assert names == ["tilekit", "NumPy", "Warp", "tilekit", "Warp"]
    assert "OPENBLAS_CORETYPE unset" in done.stdout
    assert "WRONG" not in done.stdout


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_wrong_result_is_noticed(dtype: type, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((32, 32)).astype(dtype) for _ in range(2))
    product = a @ b
    assert gemm_cpu._is_right("ours", product, a, b)
    product[3, 5] += 100 * np.finfo(dtype).eps * np.abs(a[3]) @ np.abs(b[:, 5])
    assert not gemm_cpu._is_right("ours", product, a, b)
    assert capsys.readouterr().out.startswith("ours: WRONG RESULT, ")
    product[3, 5] = np.nan
    assert not gemm_cpu._is_right("ours", product, a, b)


@pytest.mark.parametrize("arguments", [["--size", "100"], ["--size", "0"], ["--rounds", "0"], ["--dtypes", "int8"]])
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        gemm_cpu.main(arguments)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err
