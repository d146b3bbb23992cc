"""The benchmark of a layer in one kernel: the kernel, and how long it takes to compile."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests import on_gpu
from tests.bench.test_elementwise import has_torch
from tests.on_gpu import GPUS
from tilekit.bench.epilogue import GELUS, OURS, linear
from tilekit.bench.formats import ARITHMETIC, FORMATS, largest_error
from tilekit.runtime.program import compile_kernel

RNG = np.random.default_rng(8)
TILE = (16, 16, 16)


def layer(gelu: str, x: np.ndarray, w: np.ndarray, bias: np.ndarray, residual: np.ndarray) -> np.ndarray:
    t = x @ w + bias
    if gelu == "erf":
        return t * (1 + np.vectorize(math.erf)(t / 2**0.5)) / 2 + residual
    return t * (1 + np.tanh((2 / np.pi) ** 0.5 * (t + 0.044715 * t**3))) / 2 + residual


@pytest.mark.parametrize("gelu", GELUS)
@pytest.mark.parametrize("device", ["interpret", pytest.param("cpu", marks=pytest.mark.deep)])
def test_the_kernel(gelu: str, device: str) -> None:
    x, w, residual = RNG.standard_normal((3, 32, 32))
    bias, out = RNG.standard_normal(32), np.zeros((32, 32))
    kernel = linear(tk.float64, tk.float64, TILE, gelu)
    tk.launch_tiled(kernel, dim=(2, 2), inputs=[x, w, bias, residual, 2], outputs=[out], device=device)
    np.testing.assert_allclose(out, layer(gelu, x, w, bias, residual), rtol=1e-12, atol=1e-14)


@pytest.mark.gpu
@pytest.mark.parametrize("gelu", GELUS)
def test_the_kernel_on_a_gpu(gelu: str) -> None:
    given = [RNG.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((32, 32), (32, 32), 32, (32, 32))]
    out = np.zeros_like(given[0])
    on_gpu.launch_tiled(linear(tk.bfloat16, tk.float32, TILE, gelu), (2, 2), [*given, 2], [out])
    exact = layer(gelu, *(x.astype(np.float64) for x in given))
    size = abs(given[0].astype(np.float64)) @ abs(given[1].astype(np.float64)) + 10
    assert largest_error([out.astype(np.float64)], [(exact, size)], FORMATS["bf16"].unit, ARITHMETIC) < 1


@pytest.mark.parametrize("gelu", GELUS)
def test_the_product_is_on_tensor_cores(gelu: str) -> None:
    kernel = linear(tk.bfloat16, tk.float32, (128, 128, 32), gelu, module_options={"gemm": "mma"})
    found = compile_kernel(kernel, device="cuda", arch="90a")
    assert [plan.backend for plan in found.plans] == ["mma"]


@pytest.mark.gpu
@pytest.mark.skipif(not (GPUS and has_torch()), reason="needs a CUDA device and PyTorch")
def test_it_runs(tmp_path: Path) -> None:
    cli = importlib.import_module("tilekit.cli")
    where = ["--size", "256", "--rounds", "1", "--peers", "torch", "--json", str(tmp_path / "epilogue.json")]
    assert cli.main(["bench", "epilogue", *where]) == 0
    found = json.loads((tmp_path / "epilogue.json").read_text())["rows"]
    assert len([row for row in found if row["by"] == OURS and not row["note"]]) == 2
