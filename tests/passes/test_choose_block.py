"""How many threads run a block that has products."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import tilekit as tk
from tests.passes.test_choose_gemm import lowered
from tilekit.codegen.gemm import plans_of
from tilekit.errors import CompileError


def doubled(m: int, n: int, dtype: Any) -> tk.Kernel:
    """A product of tiles in memory."""

    @tk.kernel
    def gemm(a: tk.array2d[dtype], b: tk.array2d[dtype], out: tk.array2d[dtype]):
        i, j = tk.tid()
        x = tk.tile_load(a, shape=(m, 16), offset=(i * m, 0))
        y = tk.tile_load(b, shape=(16, n), offset=(0, j * n))
        tk.tile_store(out, tk.tile_matmul(x + x, y), offset=(i * m, j * n))

    return gemm


CASES = [
    (64, 64, tk.float16, 128, 128),
    (64, 64, tk.float16, 40, 64),  # whole warps
    (256, 128, tk.float16, 128, 256),  # 32,768 sums
    (128, 128, tk.float64, 64, 256),
    (32, 24, tk.float32, 1024, 32),  # each of 1024 threads has few registers
]


@pytest.mark.parametrize(("m", "n", "dtype", "hint", "threads"), CASES)
@pytest.mark.parametrize("gemm", ["auto", "mma"])
def test_a_hint_gives_way_where_its_threads_cannot_hold_the_sums(
    m: int, n: int, dtype: Any, hint: int, threads: int, gemm: str
) -> None:
    with warnings.catch_warnings(), tk.config.scoped(gemm=gemm):
        warnings.simplefilter("error")
        fn, target, _ = lowered(doubled(m, n, dtype), block_dim=hint)
    (plan,) = plans_of(fn, target)
    assert (plan.backend, plan.threads, target.threads) == ("mma", threads, threads)


def test_what_no_block_holds_is_still_refused() -> None:
    with tk.config.scoped(gemm="mma"), pytest.raises(CompileError, match="do not hold 256 x 384 sums"):
        lowered(doubled(256, 384, tk.float16))
    with tk.config.scoped(gemm="scalar"):
        assert lowered(doubled(256, 128, tk.float16), block_dim=96)[1].threads == 96
