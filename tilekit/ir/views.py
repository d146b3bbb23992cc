"""Views: which elements of a base tile another shape names.

The elements of a tile are numbered row by row. A view maps its own index to such a number by an affine map, so any
chain of transposes, slices, squeezes, broadcasts and reshapes is one map over the base. Nothing here is physical:
where the base is stored is decided later, by layouts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides of a shape, in elements.

    Example:
        >>> dense_strides((2, 3, 4))
        (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


@dataclass(frozen=True)
class ViewMap:
    """``number = offset + sum(strides[i] * index[i])`` for each index within ``shape``."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def identity(shape: tuple[int, ...]) -> ViewMap:
        return ViewMap(shape, dense_strides(shape))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def is_identity(self, base_shape: tuple[int, ...]) -> bool:
        return self.offset == 0 and self == ViewMap.identity(base_shape)

    def is_dense(self) -> bool:
        """Whether the view's elements are consecutive in its own row-major order."""
        return all(
            extent == 1 or stride == dense
            for extent, stride, dense in zip(self.shape, self.strides, dense_strides(self.shape), strict=True)
        )

    def after(self, inner: ViewMap) -> ViewMap | None:
        """This map, given over the elements of ``inner``'s view, as a map over ``inner``'s base.

        None where no affine map exists (a reshape of a view that is not dense).
        """
        found = [inner.step_of(stride, extent) for stride, extent in zip(self.strides, self.shape, strict=True)]
        start = inner.number(self.offset)
        if start is None or any(step is None for step in found):
            return None
        return ViewMap(self.shape, tuple(step or 0 for step in found), start)

    def number(self, flat: int) -> int | None:
        """The base number of the element with row-major number ``flat`` in this view's shape."""
        if flat and not 0 <= flat < self.size:
            return None
        number = self.offset
        for dense, stride, extent in zip(dense_strides(self.shape), self.strides, self.shape, strict=True):
            number += flat // dense % extent * stride if extent else 0
        return number

    def step_of(self, flat_step: int, count: int) -> int | None:
        """The base step for ``count`` steps of ``flat_step`` in row-major numbers, or None where it is not constant."""
        if count <= 1 or flat_step == 0:
            return 0
        if self.is_dense():
            return flat_step
        for dense, stride, extent in zip(dense_strides(self.shape), self.strides, self.shape, strict=True):
            if flat_step % dense == 0 and abs(flat_step) // dense * (count - 1) < extent:
                return flat_step // dense * stride
        return None

    def overlaps_itself(self) -> bool:
        """Whether two indices name one element (a broadcast, or crossing strides)."""
        steps = sorted((abs(s), e) for s, e in zip(self.strides, self.shape, strict=True) if e > 1)
        reach = 0
        for stride, extent in steps:
            if stride <= reach:
                return True
            reach += stride * (extent - 1)
        return False

    def bounds(self) -> tuple[int, int]:
        """The least and greatest base numbers, for a view that is not empty."""
        reach = [stride * (extent - 1) for stride, extent in zip(self.strides, self.shape, strict=True)]
        return self.offset + sum(r for r in reach if r < 0), self.offset + sum(r for r in reach if r > 0)

    def numbers(self, start: int = 0) -> np.ndarray[Any, Any]:
        """The base numbers of all elements, in this shape."""
        grid = np.asarray(self.offset + start)
        for extent, stride in zip(self.shape, self.strides, strict=True):
            grid = grid[..., None] + np.arange(extent) * stride
        return grid

    def meets(self, other: ViewMap, ahead: int = 0) -> bool:
        """Whether a view of the same base has an element in common, when it lies ``ahead`` numbers further on."""
        (low, high), (first, last) = self.bounds(), other.bounds()
        if high < first + ahead or last + ahead < low or not self.size or not other.size:
            return False
        return bool(np.intersect1d(self.numbers(), other.numbers(ahead)).size)

    def distances(self, other: ViewMap) -> list[tuple[int, int]]:
        """The values of ``ahead`` for which the views meet, as ranges with both ends, in order."""
        found = np.unique(np.subtract.outer(np.unique(self.numbers()), np.unique(other.numbers())))
        ends = np.flatnonzero(np.diff(found) > 1)
        starts, stops = np.r_[0, ends + 1], np.r_[ends, found.size - 1]
        return [(int(found[a]), int(found[b])) for a, b in zip(starts, stops, strict=True)]

    def __str__(self) -> str:
        return f"[{self.offset} + {list(self.shape)} x {list(self.strides)}]"
