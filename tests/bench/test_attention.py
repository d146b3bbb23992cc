"""The benchmark of attention: its kernel and its formulas, forward and backward."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests import on_gpu
from tests.bench.test_elementwise import has_torch
from tests.on_gpu import GPUS
from tilekit.bench.attention import POWERS, ROUNDINGS, attention, exact_attention
from tilekit.bench.formats import FORMATS, largest_error
from tilekit.runtime.adjoint import launch_adjoint

RNG = np.random.default_rng(8)
DEVICES = ["interpret", pytest.param("cpu", marks=pytest.mark.deep)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("power", POWERS)
def test_forward_and_backward(power: str, device: str) -> None:
    q, k, v, seed = RNG.standard_normal((4, 2, 8, 4))
    kernel, out = attention(tk.float64, tk.float64, (4, 2), 4, power), np.zeros_like(q)
    tk.launch_tiled(kernel, dim=(2, 2), inputs=[q, k, v, 4], outputs=[out], device=device)
    weights = np.exp(q @ k.swapaxes(1, 2) * 0.5)
    np.testing.assert_allclose(out, weights / weights.sum(2, keepdims=True) @ v, rtol=1e-12)
    found = {name: np.zeros_like(q) for name in "qkv"}
    launch_adjoint(kernel, (2, 2), [q, k, v, 4, out], {**found, "out": seed.copy()}, device=device)
    for got, (exact, _) in zip(found.values(), exact_attention(q, k, v, seed), strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-10, atol=1e-13)


def test_formulas() -> None:
    """The gradients are the slopes of the result."""
    q, k, v, seed = RNG.standard_normal((4, 1, 3, 4))
    for at, (found, size) in enumerate(exact_attention(q, k, v, seed)):
        step = np.zeros((3, 1, 3, 4))
        step[at, 0, 1, 2] = 1e-6
        (above, _), (below, _) = (exact_attention(q + s[0], k + s[1], v + s[2])[0] for s in (step, -step))
        assert ((above - below) * seed).sum() / 2e-6 == pytest.approx(found[0, 1, 2], rel=1e-6)
        assert (size >= abs(found) * (1 - 1e-12)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("power", POWERS)
def test_on_a_gpu(power: str) -> None:
    q, k, v = RNG.standard_normal((3, 1, 32, 16)).astype(ml_dtypes.bfloat16)
    kernel, out = attention(tk.bfloat16, tk.float32, (16, 16), 16, power), np.zeros_like(q)
    on_gpu.launch_tiled(kernel, (1, 2), [q, k, v, 2], [out])
    exact, unit = exact_attention(*(x.astype(np.float64) for x in (q, k, v))), FORMATS["bf16"].unit
    assert largest_error([out.astype(np.float64)], exact, unit, ROUNDINGS * unit) < 1


@pytest.mark.gpu
@pytest.mark.skipif(not (GPUS and has_torch()), reason="needs a CUDA device and PyTorch")
def test_it_runs(tmp_path: Path) -> None:
    cli = importlib.import_module("tilekit.cli")
    where = ["--heads", "2", "--length", "256", "--rounds", "1", "--json", str(tmp_path / "attention.json")]
    assert cli.main(["bench", "attention", "--backward", *where]) == 0
    found: list[Any] = json.loads((tmp_path / "attention.json").read_text())["rows"]
    assert len([row for row in found if row["by"].startswith("tilekit") and not row["note"]]) == 8
