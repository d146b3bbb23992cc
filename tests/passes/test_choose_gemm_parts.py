"""Loops over parts of arrays, which indices in the loop name."""

from __future__ import annotations

import numpy as np

import tilekit as tk
from tests.passes.test_choose_gemm import K, M, N, gemm_loops, lowered
from tilekit.ir.interpret import Machine, interpret


@tk.kernel
def batched(a: tk.array3d[tk.float16], b: tk.array4d[tk.float16], out: tk.array2d[float], size: int):
    z, i = tk.tid()
    acc = tk.tile_zeros(shape=(M, N), dtype=float)
    for k in range(0, size, K):
        x = tk.tile_load(a[z], shape=(M, K), offset=(0, k))
        tk.tile_matmul(x, tk.tile_load(b[z, i], shape=(K, N), offset=(k, 0)), acc)
    tk.tile_store(out, acc, offset=(z * M, i * N))


def test_a_loop_over_a_part_that_it_names_itself() -> None:
    fn, target, _ = lowered(batched)
    (op,) = gemm_loops(fn)
    assert (op.attrs["plan"].a.packed, op.attrs["plan"].b.packed) == (True, True)
    arrays = {"a": np.ones((2, M, 40), np.float16), "b": np.ones((2, 2, 40, N), np.float16)}
    out = np.zeros((2 * M, 2 * N), np.float32)
    for block in np.ndindex(2, 2):
        interpret(fn, {**arrays, "out": out, "size": np.int32(40)}, Machine(block, (2, 2), target.threads))
    assert (out == 40).all()


@tk.kernel
def gathered(a: tk.array3d[tk.float16], b: tk.array2d[tk.float16], at: tk.array1d[int], out: tk.array2d[float], n: int):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(M, N), dtype=float)
    for k in range(n):
        x = tk.tile_load(a[at[i]], shape=(M, K), offset=(0, k * K))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N), offset=(k * K, 0)), acc)
    tk.tile_store(out, acc, offset=(i * M, j * N))


@tk.kernel
def gathered_before(
    a: tk.array3d[tk.float16], b: tk.array2d[tk.float16], at: tk.array1d[int], out: tk.array2d[float], n: int
):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(M, N), dtype=float)
    which = at[i]
    for k in range(n):
        x = tk.tile_load(a[which], shape=(M, K), offset=(0, k * K))
        tk.tile_matmul(x, tk.tile_load(b, shape=(K, N), offset=(k * K, 0)), acc)
    tk.tile_store(out, acc, offset=(i * M, j * N))


def test_nothing_is_read_for_a_loop_that_may_be_empty() -> None:
    assert gemm_loops(lowered(gathered)[0]) == []
    assert len(gemm_loops(lowered(gathered_before)[0])) == 1
    assert gemm_loops(lowered(gathered_before, checked=True)[0]) == []  # where a part that is not there is an error
