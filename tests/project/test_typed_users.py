"""Users' kernels under a type checker: annotations by tilekit's names are types, and what kernels do is accepted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tilekit as tk
from tilekit.ir.types import DTYPES

PROGRAM = """
from typing import Any

import tilekit as tk


@tk.func
def half(x: tk.float32) -> tk.float32:
    if x < 0.0:
        return 0.0
    return x / 2.0


@tk.kernel
def kernel(a: tk.array1d[tk.float32], b: tk.array2d[float], c: tk.array[Any], n: tk.int32, s: tk.float64) -> None:
    i = tk.tid()
    total = s
    total = 0.0
    for k in range(n):
        a[i] = half(a[i]) + 1.0
        b[i, k] += tk.exp(a[i]) * tk.float32(k)
    t = tk.tile_load(a, shape=4, offset=i)
    tk.tile_matmul(t, t.T, tk.tile_zeros(shape=(4, 4), dtype=tk.float32))


held = tk.zeros(4, dtype=tk.float32)
tk.launch(kernel, dim=4, inputs=[held, held, held, 3, 0.5], device="cpu")
tk.launch_tiled(kernel, dim=[1], inputs=[held], block_dim=64)
"""


def test_mypy_accepts_kernels_whose_annotations_name_dtypes(tmp_path: Path) -> None:
    shown = [name.rstrip("_") for name in DTYPES]
    every = [f"def of_{d}(x: tk.{d}, a: tk.array4d[tk.{d}]) -> tk.{d}: ..." for d in shown]
    (tmp_path / "program.py").write_text("\n".join([PROGRAM, *every]), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--disable-error-code=empty-body", "program.py"]
    environment = {**os.environ, "MYPYPATH": str(Path(tk.__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "Success: no issues found in 1 source file\n", done.stdout + done.stderr
