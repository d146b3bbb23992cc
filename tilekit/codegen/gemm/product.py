"""What a matrix product is, and what the choice of its code depends on."""

from __future__ import annotations

from dataclasses import dataclass

from tilekit.codegen.orders import PACK_BYTES, order_of
from tilekit.codegen.target import ArrayClass
from tilekit.ir.types import DType
from tilekit.ir.views import ViewMap


@dataclass(frozen=True)
class Source:
    """The array that a loop loads a factor from."""

    array: ArrayClass
    axes: tuple[int, int]
    """Of the array, along the factor's rows and columns."""
    multiple: int = 0
    """A number of elements that divides each offset of the tile along the array's unit axis; 0 if it is always zero."""


@dataclass(frozen=True)
class Factor:
    """A factor of a product: a tile with two axes, and where a loop loads it, from where."""

    dtype: DType
    map: ViewMap
    source: Source | None = None


@dataclass(frozen=True)
class Product:
    """A product of an ``m`` x ``k`` and a ``k`` x ``n`` tile, added to a tile of dtype ``out``."""

    a: Factor
    b: Factor
    out: DType
    precision: str = "default"
    joined: bool = False
    """Of a loop: whether what iterations add follows each other along both factors without a gap."""
    total: int = 0
    """Of a loop: the elements along the sum of all iterations, 0 where that is not known."""

    @property
    def m(self) -> int:
        return self.a.map.shape[0]

    @property
    def n(self) -> int:
        return self.b.map.shape[1]

    @property
    def k(self) -> int:
        return self.a.map.shape[1]

    @property
    def in_loop(self) -> bool:
        return self.a.source is not None and self.b.source is not None


@dataclass(frozen=True)
class Situation:
    """What else a plan depends on."""

    arch: str = ""
    """As in ``Target``; empty for the CPU."""
    threads: int | None = None
    """Of the block, where something else decides that."""
    shared: int = 0
    """Bytes of shared memory that the block needs for other things."""
    gemm: str = "auto"
    require: str | None = None
    stages: int | None = None
    no_mathdx: str = "cuBLASDx is not installed"
    """Why cuBLASDx cannot be used; empty where it can."""


def along_k(factor: Factor, k_axis: int) -> tuple[bool, bool]:
    """Whether a factor's neighbours in memory lie along the sum, and whether 16 bytes of them can be copied at once.

    Args:
        factor: The factor.
        k_axis: Its axis along the sum.
    """
    source = factor.source
    if source is None:
        order = order_of(factor.map)
        return order is not None and order.unit == k_axis, False
    known = source.array.unit_axis in source.axes
    unit = source.axes.index(source.array.unit_axis) if known else 1
    packed = known and source.array.aligned and source.multiple * factor.dtype.itemsize % PACK_BYTES == 0
    return unit == k_axis, packed
