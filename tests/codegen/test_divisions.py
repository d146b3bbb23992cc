"""Tiles divided by one number on a GPU: one reciprocal, and the bits of ``x / d``."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.native.mma_source import instructions, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tests.on_gpu import launch_tiled

SIZE = 1024


@tk.kernel
def by_number(x: tk.array1d[Any], d: tk.array1d[Any], out: tk.array1d[Any]):
    i = tk.tid()
    tk.tile_store(out, tk.tile_load(x, shape=SIZE, offset=i * SIZE) / d[i], offset=i * SIZE)


@tk.kernel
def twice(x: tk.array1d[Any], d: tk.array1d[Any], out: tk.array1d[Any]):
    i = tk.tid()
    t = tk.tile_load(x, shape=SIZE, offset=i * SIZE)
    tk.tile_store(out, 1.0 + (t + 1.0) / d[i] / 3.0, offset=i * SIZE)


@tk.kernel
def by_power_of_two(x: tk.array1d[Any], d: tk.array1d[Any], out: tk.array1d[Any]):
    tk.tile_store(out, tk.tile_load(x, shape=SIZE) / 4.0)


@tk.kernel
def by_tile(x: tk.array1d[Any], d: tk.array1d[Any], out: tk.array1d[Any]):
    t = tk.tile_load(x, shape=SIZE)
    tk.tile_store(out, t / (t + 1.0))


@tk.kernel
def under_number(x: tk.array1d[Any], d: tk.array1d[Any], out: tk.array1d[Any]):
    tk.tile_store(out, d[0] / tk.tile_load(x, shape=SIZE))


@tk.kernel
def by_quotient(x: tk.array1d[Any], d: tk.array1d[Any], out: tk.array1d[Any]):
    number = d[0]
    tk.tile_store(out, tk.tile_map(lambda t: t * (1.0 / number), tk.tile_load(x, shape=SIZE)))


def compiled(kernel: Any, dtype: Any = tk.float32) -> Any:
    array = tk.spec(dtype, shape=(SIZE,))
    return tk.compile(kernel, [array, array, array], dim=1, arch="90a", block_dim=128, device="cuda")


@needs_nvrtc
@pytest.mark.parametrize(
    ("kernel", "dtype", "divisors"),
    [
        (by_number, tk.float32, 1),
        (by_number, tk.bfloat16, 1),
        (by_number, tk.float64, 0),
        (twice, tk.float32, 2),
        (by_power_of_two, tk.float32, 0),
        (by_tile, tk.float32, 0),
        (under_number, tk.float32, 0),
        (by_quotient, tk.float32, 0),
    ],
    ids=str,
)
def test_which_divisors_are_shared(kernel: Any, dtype: Any, divisors: int) -> None:
    assert compiled(kernel, dtype).source.count("const tk::Divisor ") == divisors


@needs_nvrtc
@needs_nvdisasm
def test_elements_are_divided_without_a_reciprocal_of_each() -> None:
    code, each = instructions(compiled(by_number).cubin), SIZE // 128
    assert code.count("FFMA.SAT") == each
    assert code.count("FCHK") == 1  # in the one copy of what is for numbers near the ends of the range
    assert instructions(compiled(by_tile).cubin).count("FCHK") == each


@needs_nvrtc
@needs_nvdisasm
def test_fast_arithmetic_multiplies_by_the_reciprocal() -> None:
    with tk.config.scoped(fast_math=True):
        code = instructions(compiled(by_number).cubin)
    assert not {"FCHK", "FFMA.SAT", "CALL.REL.NOINC"} & {*code}
    assert sum(op.startswith("FMUL") for op in code) <= SIZE // 128 + 2


def numbers(dtype: Any, blocks: int) -> tuple[Any, Any]:
    """Tiles of ordinary numbers with zeros, and of others that have single ones near the ends of the range."""
    rng = np.random.default_rng(4)
    x = rng.lognormal(0, 4, (blocks, SIZE)) * rng.choice([-1, 0, 1], (blocks, SIZE))
    odd = [np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38, -3e38, 1e-31, 2e-38]
    x[blocks // 2 :, ::97] = rng.choice(odd, x[blocks // 2 :, ::97].shape)
    d = rng.lognormal(0, 2, blocks)
    d[::5] = rng.choice([*odd, -3.0, 0.0, -0.0, 1e-9, 1e9], d[::5].shape)
    with np.errstate(all="ignore"):
        return x.astype(dtype).ravel(), d.astype(dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kernel", [by_number, twice], ids=str)
def test_quotients_have_the_bits_of_the_interpreter(kernel: Any, dtype: Any) -> None:
    x, d = numbers(dtype, 60)
    got, want = np.zeros_like(x), np.zeros_like(x)
    launch_tiled(kernel, 60, [x, d], [got])
    tk.launch_tiled(kernel, dim=60, inputs=[x, d, want], device="interpret")
    wide = [array.astype(np.float64) for array in (got, want)]
    np.testing.assert_array_equal(*wide)
    zero = wide[1] == 0
    np.testing.assert_array_equal(*(np.signbit(array[zero]) for array in wide))
