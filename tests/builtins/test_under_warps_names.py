"""Kernels that keep ``import warp as wp``: its scalar builtins mean tilekit's."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.launching import run_both

wp = pytest.importorskip("warp")
F = np.float32
SIZE = wp.constant(3)


@wp.func
def squared(x: float):
    return x * x


@tk.kernel
def scalars(x: wp.array(dtype=float), counts: wp.array(dtype=wp.int32), out: wp.array2d(dtype=wp.float32)):
    i = wp.tid()
    a = x[i]
    old = wp.atomic_add(counts, i % SIZE, 1)
    wp.atomic_max(counts, SIZE, old)
    out[i, 0] = wp.sqrt(wp.abs(a)) + wp.PI * wp.float32(i)
    out[i, 1] = wp.clamp(a, -1.0, 1.0) + wp.where(wp.isnan(a), 1.0, 2.0)
    out[i, 2] = wp.float32(wp.bit_count(wp.int32(7) & i)) + wp.min(a, 0.0) + squared(a)
    out[i, 3] = wp.lerp(a, 2.0, 0.5) + wp.smoothstep(0.0, 1.0, a) + wp.sign(a) + wp.round(a)
    out[i, 4] = wp.static(7 / 2) + wp.copysign(1.0, a) + wp.inf * 0.0
    out[i, 5] = wp.mod(a, 2.0) + wp.neg(a) + wp.floordiv(a, 2.0) + float(wp.unot(i > 1)) + wp.div_approx(a, 2.0)
    wp.expect_eq(i, i)


@wp.kernel
def in_warp(x: wp.array(dtype=float), counts: wp.array(dtype=wp.int32), out: wp.array2d(dtype=wp.float32)):
    i = wp.tid()
    a = x[i]
    old = wp.atomic_add(counts, i % SIZE, 1)
    wp.atomic_max(counts, SIZE, old)
    out[i, 0] = wp.sqrt(wp.abs(a)) + wp.PI * wp.float32(i)
    out[i, 1] = wp.clamp(a, -1.0, 1.0) + wp.where(wp.isnan(a), 1.0, 2.0)
    out[i, 2] = wp.float32(wp.bit_count(wp.int32(7) & i)) + wp.min(a, 0.0) + squared(a)
    out[i, 3] = wp.lerp(a, 2.0, 0.5) + wp.smoothstep(0.0, 1.0, a) + wp.sign(a) + wp.round(a)
    out[i, 4] = wp.static(7 / 2) + wp.copysign(1.0, a) + wp.inf * 0.0
    out[i, 5] = wp.mod(a, 2.0) + wp.neg(a) + wp.floordiv(a, 2.0) + float(wp.unot(i > 1)) + wp.div_approx(a, 2.0)
    wp.expect_eq(i, i)


def test_same_as_warp() -> None:
    x = np.array([-2.5, -0.5, 0.0, 0.25, 0.5, 3.75, 100.0], F)
    results = run_both(scalars, x.size, x, np.zeros(4, np.int32), np.zeros((x.size, 6), F))
    arrays = [wp.array(a, device="cpu") for a in (x, np.zeros(4, np.int32), np.zeros((x.size, 6), F))]
    wp.launch(in_warp, dim=x.size, inputs=arrays, device="cpu")
    assert (results[1] == arrays[1].numpy()).all()
    assert np.allclose(results[2], arrays[2].numpy(), rtol=1e-6, equal_nan=True)
