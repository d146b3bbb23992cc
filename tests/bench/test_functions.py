"""The benchmark of elementary functions: right kernels, without calls; it says where it has nothing to measure."""

import math

import numpy as np
import pytest

import tilekit as tk
from tests.bench.test_elementwise import has_torch
from tests.native.mma_source import instructions, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tests.on_gpu import GPUS
from tilekit.bench import functions

UNITS = {"exp": 1, "exp2": 1, "log": 0, "tanh": 2, "erf": 1, "gelu": 1, "gelu tanh": 2}
"""Instructions of a GPU's special function units for an element."""
SINGLE = {"exp": math.exp, "exp2": math.exp2, "log": lambda x: math.log(abs(x)), "tanh": math.tanh, "erf": math.erf}


def test_kernels_compute_what_they_are_named_after() -> None:
    x = np.random.default_rng(2).standard_normal((4, 16)).astype(np.float32)
    normal, e = np.vectorize(math.erf)(x / 2**0.5) / 2 + 0.5, np.exp(x.astype(np.float64))
    wanted = {name: np.vectorize(function)(x) for name, function in SINGLE.items()}
    wanted |= {"sigmoid": e / (1 + e), "gelu": x * normal, "gelu tanh": x * normal, "scalar divisor": x / 3}
    for name, function in functions.FUNCTIONS.items():
        out = np.zeros_like(x)
        tk.launch_tiled(functions.mapped(function, 16), dim=4, inputs=[x], outputs=[out], device="cpu")
        np.testing.assert_allclose(out, wanted[name], rtol=1e-5, atol=5e-4 if name == "gelu tanh" else 1e-6)
    tk.launch_tiled(functions.mapped(functions.softmax, 16), dim=4, inputs=[x], outputs=[out], device="cpu")
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize("name", UNITS)
def test_functions_call_nothing(name: str) -> None:
    array = tk.spec(tk.float32, shape=(64, functions.COLUMNS))
    kernel = functions.mapped(functions.FUNCTIONS[name])
    code = instructions(
        tk.compile(kernel, [array, array], dim=64, arch="90a", block_dim=functions.THREADS, device="cuda").cubin
    )
    assert not [op for op in code if op.startswith("CALL")]
    each = functions.COLUMNS // functions.THREADS
    assert sum(op.startswith("MUFU") for op in code) == UNITS[name] * each


@pytest.mark.skipif(bool(GPUS) and has_torch(), reason="there is something to measure")
def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert functions.main([]) == 1
    assert "needs a GPU and PyTorch" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.skipif(not (GPUS and has_torch()), reason="needs a CUDA device and PyTorch")
def test_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert functions.main(["--rows", "256"]) == 0
    assert "of the copy" in capsys.readouterr().out
