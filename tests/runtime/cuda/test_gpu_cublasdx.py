"""Products by units on a real GPU: cuBLASDx's where MathDx is installed, and stand-ins with the same code around."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS, arguments, there
from tests.runtime.cuda.test_gpu_products import DTYPES, HOST, NAMES, check, relu, shared
from tests.runtime.mathdx import stand_in
from tilekit.runtime.mathdx import providers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not GPUS, reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore::tilekit.errors.PrecisionWarning"),
]
SERVED = [index for index, (a, b, _, _) in enumerate(DTYPES) if a is b]


@pytest.fixture(params=["stand-in", "cublasdx"], autouse=True)
def units(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "stand-in":
        stand_in.install(monkeypatch)
    elif providers.why_missing():
        pytest.skip(providers.why_missing())


@pytest.mark.parametrize("order", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtypes", [DTYPES[i] for i in SERVED], ids=[NAMES[i] for i in SERVED])
def test_any_size_and_order_in_every_dtype(dtypes: Any, order: str) -> None:
    with tk.config.scoped(require_gemm="cublasdx"):
        for tile, sizes in (((32, 32, 32), (96, 64, 96)), ((32, 32, 32), (67, 45, 77))):
            check(tile, sizes, *dtypes[:3], "cublasdx", precision=dtypes[3], order=order)


@pytest.mark.parametrize("tile", [(16, 24, 24), (40, 56, 24), (1, 1, 1), (64, 16, 8)], ids=str)
def test_tiles_of_any_shape(tile: Any) -> None:
    with tk.config.scoped(require_gemm="cublasdx"):
        for dtype in (tk.float16, tk.float32):
            check(tile, (97, 113, 75), dtype, dtype, tk.float32, "cublasdx")


def test_epilogues() -> None:
    half = (tk.float16, tk.float16, tk.float32, "cublasdx")
    for sizes in ((64, 64, 64), (70, 77, 90)):
        check((32, 32, 32), sizes, *half, alpha=0.5)
        check((32, 32, 32), sizes, *half, after=relu, numpy_after=lambda t: np.maximum(t * 0.5 - 1.0, 0.0))
        check((32, 32, 32), sizes, *half, after=shared, numpy_after=lambda t: t + 1.0)


def coded(rows: int, cols: int, dtype: Any) -> Any:
    """Each element says where it is; small integers, so that sums are exact."""
    return ((np.arange(rows)[:, None] * 3 + np.arange(cols) * 5) % 8 - 3).astype(HOST[dtype])


@pytest.mark.parametrize("dtype", [tk.float16, tk.bfloat16, tk.float32, tk.float64], ids=str)
def test_tiles_that_lie_in_memory_as_views_and_transposed(dtype: Any) -> None:
    """A swapped row, a wrong leading dimension or a write beside the tile changes a number."""
    total = tk.float64 if dtype is tk.float64 else tk.float32

    @tk.kernel
    def gemm(a: tk.array2d[dtype], b: tk.array2d[dtype], steps: int, c: tk.array2d[total]):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(32, 48), dtype=total)
        for s in range(steps):
            x = tk.tile_load(a, shape=(32, 64), offset=(i * 32, s * 32))
            y = tk.tile_load(b, shape=(96, 32), offset=(j * 48, s * 32))
            left = tk.tile_view(x, offset=(0, 32), shape=(32, 32))
            tk.tile_matmul(left, tk.tile_transpose(tk.tile_view(y, offset=(48, 0), shape=(48, 32))), acc)
        tk.tile_store(c, acc, offset=(i * 32, j * 48))

    a, b = coded(64, 128, dtype), coded(144, 96, dtype)
    c = np.full((66, 96), 9e6, HOST[total])
    held = [there(array) for array in (a, b, c)]
    x, y, z = arguments(held)
    with tk.config.scoped(gemm="cublasdx", require_gemm="cublasdx"):
        tk.launch_tiled(gemm, dim=(2, 2), inputs=[x, y, 3], outputs=[z], block_dim=64)
    left, right = (array.astype(np.float64) for array in (a[:, 32:], b[48:]))
    wanted = np.full((66, 96), 9e6)
    wanted[:64] = left @ right.T
    np.testing.assert_array_equal(held[2].numpy().astype(np.float64), wanted)


def test_launches_repeat_bit_by_bit() -> None:
    @tk.kernel
    def gemm(a: tk.array2d[float], b: tk.array2d[float], steps: int, c: tk.array2d[float]):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(32, 32), dtype=float)
        for s in range(steps):
            x = tk.tile_load(a, shape=(32, 16), offset=(i * 32, s * 16))
            tk.tile_matmul(x, tk.tile_load(b, shape=(16, 32), offset=(s * 16, j * 32)), acc)
        tk.tile_store(c, acc, offset=(i * 32, j * 32))

    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((128, 128)).astype(np.float32) for _ in range(2))
    found = set()
    for _ in range(8):
        held = [there(array) for array in (a, b, np.full((128, 128), np.nan, np.float32))]
        with tk.config.scoped(gemm="cublasdx"):
            tk.launch_tiled(gemm, dim=(4, 4), inputs=[*held[:2], 8], outputs=held[2:], block_dim=128)
        found.add(held[2].numpy().tobytes())
    assert len(found) == 1 and not np.isnan(np.frombuffer(found.pop(), np.float32)).any()
