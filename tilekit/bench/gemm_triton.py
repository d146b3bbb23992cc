"""The product in Triton, which is not needed until it is asked for."""

# No `from __future__ import annotations`: Triton looks at the annotations.

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

tl: Any = None
"""``triton.language``, which the kernel's code finds among the globals of this module."""


@cache
def _kernel() -> Any:
    global tl
    triton = importlib.import_module("triton")
    tl = importlib.import_module("triton.language")

    @triton.jit
    def product(a, b, c, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr, P: tl.constexpr):
        down, right = tl.cdiv(size, M), tl.cdiv(size, N)
        block = tl.program_id(0)
        first = block // (GROUP * right) * GROUP
        rows = min(down - first, GROUP)
        i = first + block % (GROUP * right) % rows
        j = block % (GROUP * right) // rows
        row, column, depth = i * M + tl.arange(0, M), j * N + tl.arange(0, N), tl.arange(0, K)
        x = a + row[:, None] * size + depth[None, :]
        y = b + depth[:, None] * size + column[None, :]
        total = tl.zeros((M, N), dtype=tl.float64 if c.dtype.element_ty == tl.float64 else tl.float32)
        for _ in range(0, size, K):
            total = tl.dot(tl.load(x), tl.load(y), total, input_precision=P)
            x += K
            y += K * size
        tl.store(c + row[:, None] * size + column[None, :], total.to(c.dtype.element_ty))

    return product


def triton_product(a: Any, b: Any, c: Any, tile: Sequence[int], precision: str) -> Callable[[], object]:
    """What launches the product of square matrices whose rows are multiples of the tile.

    Args:
        a: The left factor, a CUDA tensor.
        b: The right factor.
        c: Where the product goes.
        tile: Rows, columns, depth, warps and stages.
        precision: Triton's name for it.

    Raises:
        ImportError: Triton is not installed.
    """
    m, n, k, warps, stages = tile
    size = a.shape[0]
    kernel, grid = _kernel(), (-(-size // m) * -(-size // n),)
    how = {"num_warps": warps, "num_stages": stages}
    return lambda: kernel[grid](a, b, c, size, m, n, k, 8, precision, **how)
