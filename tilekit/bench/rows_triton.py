"""Softmax and norms of rows in Triton, which is not needed until it is asked for."""

# No `from __future__ import annotations`: Triton looks at the annotations.

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tilekit.bench.rows_kernels import EPSILON

tl: Any = None
"""``triton.language``, which the kernels' code finds among the globals of this module."""


@cache
def _kernels() -> dict[str, Any]:
    global tl
    triton = importlib.import_module("triton")
    tl = importlib.import_module("triton.language")

    @triton.jit
    def softmax(x, y, count, n, E: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
        rows = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
        columns = tl.arange(0, B)[None, :]
        inside = (rows < count) & (columns < n)
        t = tl.load(x + rows * n + columns, mask=inside, other=float("-inf")).to(tl.float32)
        e = tl.exp(t - tl.max(t, axis=1)[:, None])
        tl.store(y + rows * n + columns, (e / tl.sum(e, axis=1)[:, None]).to(y.dtype.element_ty), mask=inside)

    @triton.jit
    def layer_norm(x, w, b, y, count, n, E: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
        rows = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
        columns = tl.arange(0, B)[None, :]
        inside = (rows < count) & (columns < n)
        t = tl.load(x + rows * n + columns, mask=inside, other=0.0).to(tl.float32)
        d = tl.where(columns < n, t - (tl.sum(t, axis=1) / n)[:, None], 0.0)
        r = tl.rsqrt(tl.sum(d * d, axis=1) / n + E)
        weight = tl.load(w + columns, mask=columns < n, other=0.0).to(tl.float32)
        bias = tl.load(b + columns, mask=columns < n, other=0.0).to(tl.float32)
        tl.store(y + rows * n + columns, (d * r[:, None] * weight + bias).to(y.dtype.element_ty), mask=inside)

    @triton.jit
    def rms_norm(x, w, y, count, n, E: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
        rows = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
        columns = tl.arange(0, B)[None, :]
        inside = (rows < count) & (columns < n)
        t = tl.load(x + rows * n + columns, mask=inside, other=0.0).to(tl.float32)
        r = tl.rsqrt(tl.sum(t * t, axis=1) / n + E)
        weight = tl.load(w + columns, mask=columns < n, other=0.0).to(tl.float32)
        tl.store(y + rows * n + columns, (t * r[:, None] * weight).to(y.dtype.element_ty), mask=inside)

    return {"softmax": softmax, "layer_norm": layer_norm, "rms_norm": rms_norm}


def triton_blocks(columns: int) -> list[tuple[int, int]]:
    """Rows and warps of a program that are tried."""
    if columns <= 256:
        return [(4, 4), (8, 4)]
    if columns <= 1024:
        return [(1, 4), (2, 4)]
    return [(1, 4), (1, 8)] if columns <= 4096 else [(1, 16)]


def triton_rows(kind: str, arrays: Sequence[Any], block: tuple[int, int]) -> Callable[[], object]:
    """What launches a kernel of rows.

    Args:
        kind: ``"softmax"``, ``"layer_norm"`` or ``"rms_norm"``.
        arrays: CUDA tensors: the rows, the vectors that they share, and where the result goes.
        block: Rows and warps of a program.

    Raises:
        ImportError: Triton is not installed.
    """
    kernel, (count, columns), (rows, warps) = _kernels()[kind], arrays[0].shape, block
    width = 1 << (columns - 1).bit_length()
    grid = (-(-count // rows),)
    return lambda: kernel[grid](*arrays, count, columns, EPSILON, rows, width, num_warps=warps)
