"""Rows about matrix products."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.from_warp.rows import A, row, run
from tilekit.bench.kernels import product_loop
from tilekit.errors import KernelTypeError, PrecisionWarning
from tilekit.runtime.compiled import Compiled
from tilekit.runtime.program import compile_kernel

TILE = (64, 64, 16)


def compiled(precision: str = "default") -> Compiled:
    kernel = product_loop(tk, tk.float32, tk.float32, TILE, precision)
    return compile_kernel(kernel, device="cuda", arch="90a")


@row('`precision="tf32x3"`')
def _() -> None:
    assert compiled("tf32x3").plans[0].reason == "3 x mma.m16n8k8.f32.tf32.tf32.f32"

    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(4, 4))
        tk.tile_store(out, tk.tile_matmul(t, t, precision="tf32x3"))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        assert np.array_equal(run(k, A, size=(4, 4)), A @ A)


@row("`enable_mathdx_gemm=False` takes tensor cores away from all products")
def _() -> None:
    with tk.config.scoped(enable_mathdx_gemm=False):
        assert compiled("tf32").plans[0].backend == "mma"


@row("`tile_matmul(a, b)` of bfloat16 tiles is refused, as a bfloat16 `out` is")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[tk.bfloat16], out: tk.array2d[tk.bfloat16]):
        t = tk.tile_load(a, shape=(4, 4))
        tk.tile_store(out, tk.tile_matmul(t, t))

    a = (A + 1).astype(ml_dtypes.bfloat16)
    wanted = (a.astype(np.float32) @ a.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert np.array_equal(run(k, a, size=(4, 4), dtype=ml_dtypes.bfloat16), wanted)

    @tk.kernel
    def into(a: tk.array2d[tk.bfloat16], out: tk.array2d[tk.bfloat16]):
        t, acc = tk.tile_load(a, shape=(4, 4)), tk.tile_zeros(shape=(4, 4), dtype=tk.bfloat16)
        tk.tile_matmul(t, t, acc)

    with pytest.raises(KernelTypeError, match="out is bfloat16, which cannot accumulate"):
        run(into, a, size=(4, 4), dtype=ml_dtypes.bfloat16)


@row("`tile_matmul` takes no integers")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[tk.int8], out: tk.array2d[int]):
        t = tk.tile_load(a, shape=(4, 4))
        tk.tile_store(out, tk.tile_matmul(t, t))

    a = (A * 8).astype(np.int8)
    assert np.array_equal(run(k, a, size=(4, 4), dtype=np.int32), a.astype(int) @ a.astype(int))


SCRIPT = """
import numpy as np
import tilekit as tk

@tk.kernel
def k(a: tk.array2d[float], out: tk.array2d[float]):
    t = tk.tile_load(a, shape=(4, 4))
    tk.tile_store(out, tk.tile_matmul(t, t, precision="tf32"))

a, out = np.eye(4, dtype=np.float32), np.zeros((4, 4), np.float32)
for _ in range(3):
    tk.launch_tiled(k, dim=1, inputs=[a], outputs=[out], block_dim=32)
assert np.array_equal(out, a)
"""


@row("what `tile_matmul` warns of is said when a kernel is compiled, not when it comes from the cache")
def _() -> None:
    with TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(SCRIPT)
        environment = {**os.environ, "TILEKIT_CACHE_DIR": folder, "PYTHONPATH": str(Path(tk.__file__).parents[1])}
        for _ in range(2):  # the second time the kernel comes from the cache
            command = [sys.executable, str(script)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            assert done.stderr.count("PrecisionWarning") == 1
        assert len(list(Path(folder).rglob("kernel.cpp"))) == 1
