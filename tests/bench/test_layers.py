"""Gradients of attention and layer norm, written plainly: against their formulas here, against PyTorch on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.bench.test_elementwise import has_torch
from tests.on_gpu import GPUS
from tilekit.bench import layers
from tilekit.runtime.adjoint import launch_adjoint

RNG = np.random.default_rng(8)
DEVICES = ["interpret", pytest.param("cpu", marks=pytest.mark.deep)]


def gradients(kernel: Any, grid: int, given: list[Any], seed: np.ndarray, device: str) -> tuple[Any, list[Any]]:
    """What a kernel stores, and the gradients of its arrays."""
    out, names = np.zeros_like(seed), list(kernel.parameters)
    tk.launch_tiled(kernel, dim=grid, inputs=given, outputs=[out], device=device)
    found = {name: np.zeros_like(x) for name, x in zip(names, given, strict=False) if isinstance(x, np.ndarray)}
    launch_adjoint(kernel, grid, [*given, out], {**found, names[-1]: seed.copy()}, device=device)
    return out, list(found.values())


@pytest.mark.parametrize("device", DEVICES)
def test_attention(device: str) -> None:
    q, k, v, seed = (RNG.standard_normal((8, 4)) for _ in range(4))
    kernel = layers.attention(tk.float64, tk.float64, 4, 2, 4)
    out, found = gradients(kernel, 2, [q, k, v, 0.5, 4], seed, device)
    weights = np.exp(q @ k.T * 0.5)
    weights /= weights.sum(1, keepdims=True)
    above = seed @ v.T
    scores = weights * (above - (above * weights).sum(1, keepdims=True)) * 0.5
    np.testing.assert_allclose(out, weights @ v, rtol=1e-13)
    for got, want in zip(found, (scores @ k, scores.T @ q, weights.T @ seed), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("device", DEVICES)
def test_layer_norm(device: str) -> None:
    x, seed = (RNG.standard_normal((3, 16)) for _ in range(2))
    weight, bias = RNG.standard_normal((2, 16))
    kernel = layers.layer_norm(tk.float64, tk.float64, 16)
    out, found = gradients(kernel, 3, [x, weight, bias], seed, device)
    scale = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    normal = (x - x.mean(1, keepdims=True)) * scale
    inner = seed * weight
    of_x = scale * (inner - inner.mean(1, keepdims=True) - normal * (inner * normal).mean(1, keepdims=True))
    np.testing.assert_allclose(out, normal * weight + bias, rtol=1e-13)
    for got, want in zip(found, (of_x, (seed * normal).sum(0), seed.sum(0)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-14)


@pytest.mark.skipif(bool(GPUS) and has_torch(), reason="there is something to measure")
def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert layers.main([]) == 1
    assert "needs a GPU and PyTorch" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.skipif(not (GPUS and has_torch()), reason="needs a CUDA device and PyTorch")
def test_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert layers.main(["--length", "256", "--rows", "64"]) == 0
    errors = [
        float(line.split()[-1]) for line in capsys.readouterr().out.splitlines() if line.startswith(("att", "lay"))
    ]
    assert len(errors) == 4 and max(errors) < 3e-2
