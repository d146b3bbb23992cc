"""Tiles that do not fit the shared memory of a block."""

from __future__ import annotations

import pytest

import tilekit as tk
from tilekit.errors import KernelValueError
from tilekit.ir.context import LaunchForm
from tilekit.runtime.cuda.generate import cuda_target, generate
from tilekit.runtime.cuda.shared_memory import shared_limit


@tk.kernel
def transposed(a: tk.array2d[float], b: tk.array2d[float]):
    x = tk.tile_load(a, shape=(256, 128), storage="shared")
    y = tk.tile_load(a, shape=(64, 128), storage="shared")
    z = tk.tile_matmul(x, tk.tile_transpose(y))
    tk.tile_store(b, z)


def emitted(arch: str) -> int:
    form = LaunchForm(True, 1, 128)
    function = transposed.trace(transposed.default_types(), form)
    return generate(function, cuda_target(function, form, arch, {})).arena


def test_limits() -> None:
    assert [shared_limit(arch) for arch in ("75", "80", "90", "90a", "120", "999")] == [
        64 << 10, 163 << 10, 227 << 10, 227 << 10, 99 << 10, None,
    ]  # fmt: skip


def test_the_tiles_are_listed() -> None:
    assert emitted("90a") > 163 << 10
    with pytest.raises(KernelValueError) as caught:
        emitted("75")
    text = str(caught.value)
    assert "test_shared_memory.py:16: kernel 'transposed' needs" in text
    assert "but a block on sm_75 can have 65536" in text
    assert f"    {256 * 128 * 4} bytes: 256x128 of float32, " in text
    assert f"    {64 * 128 * 4} bytes: 64x128 of float32, " in text
    assert text.index("256x128") < text.index("64x128 of")


def test_a_shape_that_fits() -> None:
    with pytest.raises(KernelValueError, match=r"It fits with 128x128 instead of 256x128, if nothing else changes\."):
        emitted("80")
