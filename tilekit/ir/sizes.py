"""Numbers that the host knows at launch: how many blocks, how large an array. No size ever comes from the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from tilekit.errors import KernelValueError


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
class Scalar:
    """The number that the launch gives for an integer parameter."""

    param: str

    def __str__(self) -> str:
        return self.param


@dataclass(frozen=True)
class Sum:
    """``a + b``."""

    a: Size
    b: Size

    def __str__(self) -> str:
        return f"{self.a} + {self.b}"


@dataclass(frozen=True)
class Difference:
    """``a - b``."""

    a: Size
    b: Size

    def __str__(self) -> str:
        return f"{self.a} - {_factor(self.b)}"


@dataclass(frozen=True)
class Product:
    """``a * b``."""

    a: Size
    b: Size

    def __str__(self) -> str:
        return f"{_factor(self.a)} * {_factor(self.b)}"


@dataclass(frozen=True)
class FloorDiv:
    """``a / b`` rounded down."""

    a: Size
    b: Size

    def __str__(self) -> str:
        return f"floor({_factor(self.a)} / {_divisor(self.b)})"


@dataclass(frozen=True)
class CeilDiv:
    """``a / b`` rounded up."""

    a: Size
    b: Size

    def __str__(self) -> str:
        return f"ceil({_factor(self.a)} / {_divisor(self.b)})"


@dataclass(frozen=True)
class Min:
    """The smaller of two."""

    a: Size
    b: Size

    def __str__(self) -> str:
        return f"min({self.a}, {self.b})"


@dataclass(frozen=True)
class Max:
    """The larger of two."""

    a: Size
    b: Size

    def __str__(self) -> str:
        return f"max({self.a}, {self.b})"


@dataclass(frozen=True)
class Trips:
    """How often ``for i in range(start, stop, step)`` runs its body."""

    start: Size
    stop: Size
    step: Size = 1

    def __str__(self) -> str:
        return f"len(range({self.start}, {self.stop}, {self.step}))"


MAX_BLOCK_DIM = 1024
MAX_EXTENT = 2**31
"""Of a grid, so that every coordinate is an int32, and of a scratch array."""

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


Size = int | Dim | Extent | Scalar | Sum | Difference | Product | FloorDiv | CeilDiv | Min | Max | Trips | PointBlocks
"""A number known to the host at launch."""


def _factor(size: Size) -> str:
    """A size as it stands in a product, or after a minus."""
    return f"({size})" if isinstance(size, Sum | Difference) else f"{size}"


def _divisor(size: Size) -> str:
    return f"({size})" if isinstance(size, Sum | Difference | Product) else f"{size}"


def parts(size: Size) -> Iterator[Size]:
    """A size and the sizes that it is made of.

    Example:
        >>> [str(part) for part in parts(CeilDiv(Extent("a", 1), 64))]
        ['ceil(a.shape[1] / 64)', 'a.shape[1]', '64']
    """
    yield size
    if isinstance(size, int | Dim | Extent | Scalar):
        return
    for field in fields(size):
        inner = getattr(size, field.name)
        if not (isinstance(size, PointBlocks) and field.name != "points"):
            yield from parts(inner)


def is_natural(size: Size) -> bool:
    """Whether a size is known to be no less than 0: extents of launches and arrays are."""
    match size:
        case int():
            return size >= 0
        case Dim() | Extent() | Trips() | PointBlocks():
            return True
        case Max(a, b):
            return is_natural(a) or is_natural(b)
        case Sum(a, b) | Product(a, b) | Min(a, b) | FloorDiv(a, b) | CeilDiv(a, b):
            return is_natural(a) and is_natural(b)
        case _:
            return False


def simplified(size: Size) -> Size:
    """The same number in fewer words; an int, if nothing of a launch decides it.

    Example:
        >>> print(simplified(Trips(Difference(Max(FloorDiv(Extent("a", 1), 64), 0), 1), -1, -1)))
        floor(a.shape[1] / 64)
    """
    if isinstance(size, int | Dim | Extent | Scalar | PointBlocks):
        return size
    given = [simplified(getattr(size, field.name)) for field in fields(size)]
    found = type(size)(*given)
    if all(isinstance(item, int) for item in given):
        return evaluate(found, (), {})
    match found:
        case Sum(a, 0) | Sum(0, a) | Difference(a, 0) | Product(a, 1) | Product(1, a) | FloorDiv(a, 1) | CeilDiv(a, 1):
            return a
        case Max(a, 0) | Max(0, a) | Trips(0, a, 1) | Trips(Difference(a, 1), -1, -1) if is_natural(a):
            return a
        case Min(a, 0) | Min(0, a) if is_natural(a):
            return 0
    return found


def evaluate(
    size: Size,
    dims: tuple[int, ...],
    shapes: Mapping[str, tuple[int, ...]],
    scalars: Mapping[str, int] | None = None,
) -> int:
    """The number that a size is in one launch.

    Args:
        size: The size.
        dims: The grid of the launch.
        shapes: Of the array parameters that the size names.
        scalars: The integer parameters that it names.

    Raises:
        KernelValueError: a divisor, or the step of a range, is zero.

    Example:
        >>> evaluate(CeilDiv(Extent("a", 1), 64), (4,), {"a": (10, 100)})
        2
        >>> steps = Trips(Scalar("first"), Extent("a", 1), 32)
        >>> blocks = Product(Dim(0), Max(Sum(steps, 1), 2))
        >>> print(blocks)
        dim[0] * max(len(range(first, a.shape[1], 32)) + 1, 2)
        >>> evaluate(blocks, (4,), {"a": (10, 100)}, {"first": 32})
        16
    """

    def value(inner: Size) -> int:
        return evaluate(inner, dims, shapes, scalars)

    match size:
        case int():
            return size
        case Dim(axis):
            return dims[axis]
        case Extent(param, axis):
            return shapes[param][axis]
        case Scalar(param):
            return (scalars or {})[param]
        case Sum(a, b):
            return value(a) + value(b)
        case Difference(a, b):
            return value(a) - value(b)
        case Product(a, b):
            return value(a) * value(b)
        case FloorDiv(a, b):
            return value(a) // _not_zero(value(b), size)
        case CeilDiv(a, b):
            return -(-value(a) // _not_zero(value(b), size))
        case Min(a, b):
            return min(value(a), value(b))
        case Max(a, b):
            return max(value(a), value(b))
        case Trips(start, stop, step):
            return len(range(value(start), value(stop), _not_zero(value(step), size)))
        case PointBlocks(points, threads, together):
            return point_blocks(value(points), threads, together)


def _not_zero(number: int, size: Size) -> int:
    if number == 0:
        raise KernelValueError(f"{size}: the {'step' if isinstance(size, Trips) else 'divisor'} is 0 in this launch")
    return number
