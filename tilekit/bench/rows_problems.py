"""What ``python -m tilekit bench rows`` computes: problems, bytes that they must move, and results in float64.

The formulas take NumPy's arrays and PyTorch's tensors, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tilekit.bench import rows_kernels
from tilekit.bench.formats import FORMATS, Pair
from tilekit.bench.rows_kernels import EPSILON


def _mean(x: Any) -> Any:
    return x.sum(1, keepdims=True) / x.shape[1]


def _softmax(x: Any) -> list[Pair]:
    e = math.e**x  # which both libraries have by this name
    y = e / e.sum(1, keepdims=True)
    return [(y, y)]


def _softmax_gradients(given: Any, x: Any) -> list[Pair]:
    ((y, _),) = _softmax(x)
    return [
        (y * (given - (given * y).sum(1, keepdims=True)), y * (abs(given) + (abs(given) * y).sum(1, keepdims=True)))
    ]


def _normal(x: Any, centred: bool) -> Pair:
    """The rows of a norm before its weights, and the factor of each."""
    t = x - _mean(x) if centred else x
    factor = (_mean(t * t) + EPSILON) ** -0.5
    return t * factor, factor


def _layer_norm(x: Any, weight: Any, bias: Any) -> list[Pair]:
    y = _normal(x, True)[0] * weight
    return [(y + bias, abs(y) + abs(weight) + abs(bias))]


def _layer_norm_gradients(given: Any, x: Any, weight: Any, bias: Any) -> list[Pair]:
    return [*_norm_gradients(given, x, weight, True), (given.sum(0), abs(given).sum(0))]


def _rms_norm(x: Any, weight: Any) -> list[Pair]:
    y = _normal(x, False)[0] * weight
    return [(y, abs(y))]


def _rms_norm_gradients(given: Any, x: Any, weight: Any) -> list[Pair]:
    return _norm_gradients(given, x, weight, False)


def _norm_gradients(given: Any, x: Any, weight: Any, centred: bool) -> list[Pair]:
    """Those of ``x`` and ``weight``."""
    y, factor = _normal(x, centred)
    inner = given * weight
    along, size = _mean(inner * y), abs(inner) + abs(y) * _mean(abs(inner * y))
    of_x = inner - y * along - (_mean(inner) if centred else 0.0)
    size = size + (_mean(abs(inner)) if centred else 0.0)
    return [(of_x * factor, size * factor), ((given * y).sum(0), abs(given * y).sum(0))]


@dataclass(frozen=True)
class Kind:
    """A function of rows, and of vectors that all rows share."""

    kernel: Callable[..., Any]
    vectors: int
    wanted: Callable[..., list[Pair]]
    gradients: Callable[..., list[Pair]]
    """Of ``x`` and of the vectors, from the gradient that comes in and these."""


KINDS = {
    "softmax": Kind(rows_kernels.softmax, 0, _softmax, _softmax_gradients),
    "layer_norm": Kind(rows_kernels.layer_norm, 2, _layer_norm, _layer_norm_gradients),
    "rms_norm": Kind(rows_kernels.rms_norm, 1, _rms_norm, _rms_norm_gradients),
}
Shape = tuple[int, int]
Block = tuple[int, int]
"""Rows of a block, and its threads."""
SHAPES: dict[Shape, Block] = {
    (16384, 4096): (1, 128),
    (65536, 256): (16, 128),
    (4096, 16384): (1, 512),
    (32768, 1000): (4, 128),
    (16384, 4095): (1, 128),
}
"""Rows and columns, those that tell most first, and the block that a user would choose."""
SIDE = 8192
"""Of the matrices that are summed and transposed."""
THREADS_SHAPE, THREADS = (65536, 256), (32, 128, 256, 512)
"""Where softmax is measured with several numbers of threads, whose bits are to be the same."""
PASSES = ("forward", "backward")


@dataclass(frozen=True)
class Problem:
    """One thing to compute, of arrays of one format."""

    kind: str
    format: str
    shape: Shape
    way: str = "forward"
    blocks: tuple[Block, ...] = ()

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(FORMATS[self.format].dtype.itemsize)

    @property
    def size(self) -> int:
        """Bytes of the matrix."""
        return self.shape[0] * self.shape[1] * self.itemsize

    @property
    def vectors(self) -> int:
        """Bytes of the vectors that all rows share."""
        return KINDS[self.kind].vectors * self.shape[1] * self.itemsize if self.kind in KINDS else 0

    @property
    def moved(self) -> int:
        """Bytes that must move between the GPU and its memory: what is read and what is written, once each.

        Backward reads ``x``, the gradient that comes in and the vectors, and writes the gradients of ``x`` and of the
        vectors. What an adjoint does beyond that, adding to gradients and clearing the one that came in, counts as
        overhead.

        Example:
            >>> Problem("softmax", "bf16", (4, 8)).moved, Problem("rms_norm", "bf16", (4, 8), "backward").moved
            (128, 224)
            >>> Problem("column_sum", "bf16", (4, 8)).moved
            96
        """
        if self.kind == "column_sum":
            return self.size + self.shape[1] * 4  # sums are float32
        if self.way == "backward":
            return 3 * self.size + 2 * self.vectors
        return 2 * self.size + self.vectors

    def __str__(self) -> str:
        words = [self.kind, self.format, "x".join(map(str, self.shape)), *([self.way] if self.way != "forward" else [])]
        return " ".join(words) + (f", {len(self.blocks)} blocks" if len(self.blocks) > 1 else "")


ALL = (*KINDS, "column_sum", "transpose", "threads")
"""What can be asked for; ``threads`` is softmax with several numbers of them."""


def problems(
    kinds: Sequence[str] = ALL,
    formats: Sequence[str] = tuple(FORMATS),
    shapes: Sequence[Shape] = tuple(SHAPES),
    ways: Sequence[str] = PASSES,
    blocks: Sequence[Block] = (),
) -> Iterator[Problem]:
    """The problems that are asked for: rows forward, matrices, threads, rows backward.

    Args:
        kinds: Some of :data:`ALL`.
        formats: Keys of :data:`FORMATS`.
        shapes: Rows and columns.
        ways: Some of :data:`PASSES`.
        blocks: Those to try; by default the one of :data:`SHAPES`.

    Example:
        >>> [str(each) for each in problems(["softmax", "transpose"], ["fp32"], [(65536, 256)])]
        ['softmax fp32 65536x256', 'transpose fp32 8192x8192', 'softmax fp32 65536x256 backward']
    """
    for way in (way for way in PASSES if way in ways):
        for shape, kind, name in product(shapes, KINDS, formats):
            if kind in kinds:
                yield Problem(kind, name, shape, way, tuple(blocks) or (block_for(shape),))
        if way == "forward":
            yield from _matrices(kinds, formats)


def _matrices(kinds: Sequence[str], formats: Sequence[str]) -> Iterator[Problem]:
    for kind, name in product(("column_sum", "transpose"), formats):
        if kind in kinds:
            yield Problem(kind, name, (SIDE, SIDE))
    if "threads" in kinds:
        rows = SHAPES[THREADS_SHAPE][0]
        for name in formats:
            yield Problem("softmax", name, THREADS_SHAPE, blocks=tuple((rows, threads) for threads in THREADS))


def block_for(shape: Shape) -> Block:
    """The block of a shape; of one that is not listed, that of the listed one whose rows are next in length."""
    return SHAPES[min(SHAPES, key=lambda known: abs(math.log(known[1] / shape[1])))]
