"""What layouts repeat: which bit of a coordinate each bit of a register's, lane's and warp's number adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Bit = tuple[int, int]
"""A bit of a coordinate: the axis, and the bit's position."""
LANE_BITS = 5
"""Of the number of a thread in its warp."""


@dataclass(frozen=True)
class Core:
    """A deal of the low bits of coordinates to the bits of the numbers of registers, lanes and warps.

    It is a linear map over F2, from the bits of numbers to those of coordinates. Each bit of a coordinate is in one
    place, so the map's matrix is a permutation with columns of zeros: threads that differ only in a bit that is None
    hold copies.

    Args:
        rank: The axes of the tile.
        registers: Of the bits of a register's number, lowest first.
        lanes: Of the bits of a lane's number; fewer than five where a group is less than a warp.
        warps: Of the bits of a warp's number in its group.
        groups: Groups of so many threads, where the number of threads is no power of two.
        group_axis: The axis along which groups follow each other, above all bits; None where they hold copies.

    Example:
        >>> pairs = Core(1, registers=((0, 0),), lanes=((0, 1), (0, 2)))
        >>> pairs.threads, pairs.span(0), pairs.first(3)
        (4, 8, (6,))
    """

    rank: int
    registers: tuple[Bit, ...] = ()
    lanes: tuple[Bit | None, ...] = ()
    warps: tuple[Bit | None, ...] = ()
    groups: int = 1
    group_axis: int | None = None

    def __post_init__(self) -> None:
        low = [(axis, position) for axis in range(self.rank) for position in range(self.count(axis))]
        assert sorted(self.bits) == low, f"each low bit of a coordinate must lie in one place: {self}"
        assert len(self.lanes) == LANE_BITS or not (len(self.lanes) > LANE_BITS or self.warps), f"no warps: {self}"

    @property
    def thread_bits(self) -> tuple[Bit | None, ...]:
        """Of the bits of a thread's number in its group."""
        return (*self.lanes, *self.warps)

    @property
    def bits(self) -> tuple[Bit, ...]:
        """All bits of coordinates, those of registers first."""
        return (*self.registers, *(bit for bit in self.thread_bits if bit is not None))

    @property
    def threads(self) -> int:
        """Threads that hold the tile."""
        return self.groups << len(self.thread_bits)

    def count(self, axis: int) -> int:
        """Bits along an axis."""
        return sum(bit[0] == axis for bit in self.bits)

    def span(self, axis: int) -> int:
        """Elements along an axis."""
        return (self.groups if axis == self.group_axis else 1) << self.count(axis)

    def first(self, thread: int) -> tuple[int, ...]:
        """The coordinates of a thread's register 0."""
        at = _sum(self.rank, self.thread_bits, thread)
        if self.group_axis is not None:
            at[self.group_axis] += thread >> len(self.thread_bits) << self.count(self.group_axis)
        return tuple(at)

    def own(self, register: int) -> tuple[int, ...]:
        """How far the element of a register is from that of register 0."""
        return tuple(_sum(self.rank, self.registers, register))

    def is_first(self, thread: int) -> bool:
        """Whether no thread with a smaller number holds the same elements."""
        copy = any(bit is None and thread >> i & 1 for i, bit in enumerate(self.thread_bits))
        return not copy and (self.group_axis is not None or thread >> len(self.thread_bits) == 0)

    def projected(self, axes: Sequence[int]) -> Core:
        """The core of a slice, of what a broadcast gives, or of a transpose.

        Args:
            axes: For each axis of the result the axis that it was, or -1 for a new one, along which there are no bits.
                Along axes that are not named registers vanish, and lanes, warps and groups hold copies.

        Example:
            >>> Core(2, ((1, 0),), ((0, 0), (1, 1))).projected((0,))
            Core(rank=1, registers=(), lanes=((0, 0), None), warps=(), groups=1, group_axis=None)
        """
        name = {axis: i for i, axis in enumerate(axes) if axis >= 0}
        names = {bit: (name[bit[0]], bit[1]) for bit in self.bits if bit[0] in name}
        return self.renamed(names, len(axes), None if self.group_axis is None else name.get(self.group_axis))

    def renamed(self, names: Mapping[Bit, Bit], rank: int, group_axis: int | None) -> Core:
        """The core with other bits in the same places; those that have no name vanish, or make copies."""
        registers = tuple(names[bit] for bit in self.registers if bit in names)
        lanes, warps = (
            tuple(None if bit is None else names.get(bit) for bit in bits) for bits in (self.lanes, self.warps)
        )
        return Core(rank, registers, lanes, warps, self.groups, group_axis)


def _sum(rank: int, bits: Sequence[Bit | None], number: int) -> list[int]:
    """The coordinates that a number's bits add up to."""
    at = [0] * rank
    for i, bit in enumerate(bits):
        if bit is not None and number >> i & 1:
            at[bit[0]] += 1 << bit[1]
    return at
