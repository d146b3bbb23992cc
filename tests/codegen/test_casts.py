"""Numbers of 16 bits that are only computed with are widened without a look for signalling NaNs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.emulator import EmulatedKernels
from tilekit.runtime.program import compile_kernel

F1 = tk.array1d[float]


def widening(dtype: Any) -> tk.Kernel:
    @tk.kernel
    def widened(x: tk.array1d[dtype], wide: F1, negative: F1, sums: F1):
        t = tk.tile_astype(tk.tile_load(x, shape=64), float)
        tk.tile_store(wide, t)
        u = tk.tile_astype(tk.tile_load(x, shape=64, offset=64), float)
        tk.tile_store(negative, -u)
        v = tk.tile_astype(tk.tile_load(x, shape=64, offset=128), float)
        tk.tile_store(sums, (v + 0.5) * 2.0)

    return widened


@pytest.mark.parametrize(("dtype", "signalling"), [(tk.bfloat16, 0x7F81), (tk.float16, 0x7C01)], ids=str)
def test_a_signalling_nan_is_a_quiet_one_wherever_it_is_seen(dtype: Any, signalling: int, tmp_path: Path) -> None:
    found = compile_kernel(widening(dtype), device="cuda", arch="90a", block_dim=32)
    assert found.source.count("tk::cast<tk::f32>(") == 2
    assert found.source.count("tk::widen(") == 1
    bits = np.full(192, 0x3C00, np.uint16)
    bits[::3] = signalling
    results = {name: np.zeros(64, np.float32) for name in ("wide", "negative", "sums")}
    x = bits.view(np.float16) if dtype is tk.float16 else bits
    EmulatedKernels([found.generated], tmp_path).launch(0, (1,), {"x": x, **results})
    for first, (name, result) in zip((0, 64, 128), results.items(), strict=True):
        nan = np.isnan(result)
        assert np.array_equal(nan, bits[first : first + 64] == signalling), name
        assert (result.view(np.uint32)[nan] & 0x00400000).all(), name
