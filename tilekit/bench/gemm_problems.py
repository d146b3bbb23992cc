"""The products that ``python -m tilekit bench gemm`` measures: square ones, and batches of a small product a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tilekit as tk

Tile = tuple[int, int, int]
SIZES = (1024, 2048, 4096)
BATCHES = {32: 32768, 64: 16384, 128: 4096}
"""Products of a batch, by their rows and columns."""


@dataclass(frozen=True)
class Kind:
    """Dtypes of a product, and the tiles of which the fastest counts."""

    dtype: Any
    precision: str
    tiles: tuple[Tile, ...]
    warp: tuple[Tile, int]
    """The tile and threads that are fastest in Warp, which compiles each for most of a minute."""
    bound: float = 1e-4
    """The largest error, relative to the largest element, of a right result."""

    @property
    def total(self) -> Any:
        """The dtype of sums."""
        return tk.float64 if self.dtype is tk.float64 else tk.float32


LARGE, MIDDLE, WIDE, SMALL = (128, 256, 32), (128, 128, 32), (64, 128, 32), (64, 64, 32)
KINDS = {
    "fp16": Kind(tk.float16, "default", (LARGE, MIDDLE, WIDE, SMALL), ((128, 128, 64), 256), 1e-2),
    "bf16": Kind(tk.bfloat16, "default", (LARGE, MIDDLE, WIDE, SMALL), ((128, 128, 64), 256), 5e-2),
    "tf32": Kind(tk.float32, "tf32", (LARGE, MIDDLE, WIDE, SMALL), ((64, 64, 64), 128), 1e-2),
    "tf32x3": Kind(tk.float32, "tf32x3", (MIDDLE, WIDE, SMALL), ((64, 64, 32), 128)),
    "fp32": Kind(tk.float32, "default", (MIDDLE, WIDE, SMALL), ((64, 64, 32), 128)),
    "fp64": Kind(tk.float64, "default", (MIDDLE, WIDE, SMALL), ((64, 64, 32), 128), 1e-12),
}


@dataclass(frozen=True)
class Problem:
    """``count`` products of square matrices."""

    kind: str
    size: int
    count: int = 1

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.size**3 * self.count

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """Of a block: those to try, or the whole product."""
        size = self.size
        return ((size, size, size),) if self.count > 1 else KINDS[self.kind].tiles

    def __str__(self) -> str:
        return f"{self.kind} {self.size}^3" + (f" x {self.count}" if self.count > 1 else "")


def problems(kinds: Sequence[str], sizes: Sequence[int], batches: Sequence[int]) -> Iterator[Problem]:
    """The problems of some kinds, dtype by dtype.

    Args:
        kinds: Keys of :data:`KINDS`.
        sizes: Rows and columns of single products.
        batches: Rows and columns of products in batches, keys of :data:`BATCHES`.

    Example:
        >>> [str(problem) for problem in problems(["fp32"], [1024], [32])]
        ['fp32 1024^3', 'fp32 32^3 x 32768']
    """
    for kind in kinds:
        yield from (Problem(kind, size) for size in sizes)
        yield from (Problem(kind, size, BATCHES[size]) for size in batches)
