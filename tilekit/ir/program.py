"""What is compiled, cached, taped and captured: an ordered list of launches with the scratch memory they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilekit.ir.core import Function, Value


@dataclass(frozen=True)
class Dim:
    """Extent ``axis`` of the grid that the user's launch gives."""

    axis: int

    def __str__(self) -> str:
        return f"dim[{self.axis}]"


@dataclass(frozen=True)
class Extent:
    """Extent ``axis`` of an array parameter."""

    param: str
    axis: int

    def __str__(self) -> str:
        return f"{self.param}.shape[{self.axis}]"


@dataclass(frozen=True)
class CeilDiv:
    """``a / b`` rounded up."""

    a: Size
    b: Size

    def __str__(self) -> str:
        return f"ceil({self.a} / {self.b})"


@dataclass(frozen=True)
class Product:
    """``a * b``."""

    a: Size
    b: Size

    def __str__(self) -> str:
        return f"{self.a} * {self.b}"


MANY_POINTS = 1 << 21
"""From so many points on a thread may run several: they then fill any GPU all the same."""


@dataclass(frozen=True)
class PointBlocks:
    """Blocks of ``threads`` threads for some points, each thread running ``together`` of them where there are many."""

    points: Size
    threads: int
    together: int

    def __str__(self) -> str:
        few, many = CeilDiv(self.points, self.threads), CeilDiv(self.points, self.threads * self.together)
        return f"{few}, from {MANY_POINTS:,} points on {many}"


def point_blocks(points: int, threads: int, together: int) -> int:
    """How many blocks that is.

    Example:
        >>> point_blocks(1000, 256, 4), point_blocks(1 << 22, 256, 4)
        (4, 4096)
    """
    return -(-points // (threads * (together if points >= MANY_POINTS else 1)))


Size = int | Dim | Extent | CeilDiv | Product | PointBlocks
"""A number known to the host at launch: no size ever comes from the device."""


def evaluate(size: Size, dims: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]]) -> int:
    """The number that a size is in one launch.

    Example:
        >>> evaluate(CeilDiv(Extent("a", 1), 64), (4,), {"a": (10, 100)})
        2
    """
    match size:
        case int():
            return size
        case Dim(axis):
            return dims[axis]
        case Extent(param, axis):
            return shapes[param][axis]
        case CeilDiv(a, b):
            return -(-evaluate(a, dims, shapes) // evaluate(b, dims, shapes))
        case Product(a, b):
            return evaluate(a, dims, shapes) * evaluate(b, dims, shapes)
        case PointBlocks(points, threads, together):
            return point_blocks(evaluate(points, dims, shapes), threads, together)


@dataclass(frozen=True)
class Launch:
    """One function over a grid; without ``grid``, that of the user's launch."""

    function: Function
    grid: tuple[Size, ...] | None = None


@dataclass(frozen=True)
class Scratch:
    """An array that lives for one run of the program (or until the tape's backward), allocated in stream order."""

    value: Value
    shape: tuple[Size, ...]
    until_backward: bool = False


@dataclass(frozen=True)
class Program:
    """Launches in order; each function's parameters are parameters or scratch arrays of the program."""

    name: str
    params: Mapping[str, Value]
    launches: tuple[Launch, ...]
    scratch: Mapping[str, Scratch]

    @classmethod
    def of(cls, function: Function) -> Program:
        """The program of a user's kernel: one launch."""
        return cls(function.name, function.params, (Launch(function),), {})

    def __str__(self) -> str:
        return "\n".join(str(launch.function) for launch in self.launches)
