"""How many threads run a block: of products, and of tiles that threads hold in registers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import tilekit as tk
from tests.passes.test_choose_gemm import lowered
from tilekit.codegen.gemm.products import plans_of
from tilekit.errors import CompileError
from tilekit.runtime.compile import prepare


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


def moved(shape: tuple[int, int], dtype: Any, to: Any, body: Any) -> tk.Kernel:
    """A tile that is loaded, changed by ``body`` and stored."""

    @tk.kernel
    def kernel(a: tk.array2d[dtype], out: tk.array2d[to]):
        i, j = tk.tid()
        t = body(tk.tile_load(a, shape=shape, offset=(i * shape[0], j * shape[1])))
        tk.tile_store(out, tk.tile_astype(t, to), offset=(i * shape[0], j * shape[1]))

    return kernel


def twice(t: Any) -> Any:
    return t + t


def again_and_again(t: Any) -> Any:
    for _ in range(100):
        t += t
    return t


def less_the_sum(t: Any) -> Any:
    return t - tk.tile_sum(t)[0]


def turned(t: Any) -> Any:
    return tk.tile_transpose(t)


def first_of_lanes(t: Any) -> Any:
    return t + t[0, tk.block_dim() - 1]


def negated(t: Any) -> Any:
    tk.tile_apply(tk.ptx["neg.f16"], t, t)
    return t


HALF, FLOAT = tk.float16, tk.float32


@pytest.mark.parametrize(
    ("shape", "dtype", "to", "body", "block_dim", "threads"),
    [
        ((1, 1024), HALF, HALF, twice, 256, 128),  # eight a thread
        ((4, 256), HALF, HALF, twice, 1024, 128),
        ((4, 256), HALF, HALF, again_and_again, 256, 128),
        ((4, 256), HALF, HALF, twice, 64, 64),  # never more than asked for
        ((4, 256), HALF, HALF, twice, 100, 128),
        ((16, 256), HALF, HALF, twice, 256, 256),
        ((4, 256), FLOAT, FLOAT, twice, 256, 256),  # four a thread
        ((4, 256), HALF, FLOAT, twice, 256, 256),
        ((4, 256), tk.int8, tk.int8, twice, 256, 64),
        ((4, 255), HALF, HALF, twice, 256, 256),  # one by one, as rows do not begin at multiples of 16 bytes
        ((3, 3), HALF, HALF, twice, 256, 32),
        ((4, 256), HALF, HALF, less_the_sum, 256, 256),  # through memory, where others may help
        ((4, 256), HALF, HALF, turned, 256, 256),
        ((4, 256), HALF, HALF, first_of_lanes, 256, 256),  # lanes are observed
        ((4, 256), HALF, HALF, negated, 256, 256),  # atoms run on the threads that were asked for
    ],
)
def test_threads_that_hold_nothing_are_left_out(
    shape: tuple[int, int], dtype: Any, to: Any, body: Any, block_dim: int, threads: int
) -> None:
    """Each thread moves 16 bytes at a time, the widest elements that move; where all tiles lie in registers, threads
    beyond those would idle, and take the place of blocks that do not."""
    compiled = prepare(moved(shape, dtype, to, body), block_dim=block_dim)
    assert (compiled.threads, compiled.launches[0].threads) == (threads, threads)
    assert f"__launch_bounds__({threads}) tk_launch" in compiled.source


def test_without_tiles_threads_are_those_of_the_launch() -> None:
    @tk.kernel
    def points(a: tk.array1d[float]):
        i = tk.tid()
        a[i] = 2.0 * a[i]

    assert [prepare(points, block_dim=256, tiled=tiled).threads for tiled in (False, True)] == [256, 256]
