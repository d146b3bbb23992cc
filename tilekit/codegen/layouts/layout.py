"""Layouts of tiles, and the operations on tiles that only rename what threads hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from tilekit.codegen.layouts.core import Bit, Core
from tilekit.codegen.layouts.shapes import renamed_bits

Part = tuple["Layout", tuple[int, ...]]
"""A layout of some or all elements of a tile, and for each of its registers the tile's that holds the same element."""


@dataclass(frozen=True)
class Layout:
    """A core, repeated along each axis until it covers a tile.

    Repeats are further registers, counted row by row, each ``2 ** len(core.registers)`` registers behind the one
    before it. Elements beyond the shape are padding: registers hold them, and they mean nothing.

    Args:
        core: What is repeated.
        shape: The tile's.

    Example:
        >>> rows = Layout(Core(2, ((1, 0),), ((1, 1), (0, 0))), (3, 8))
        >>> rows.threads, rows.registers, rows.repeats
        (4, 8, (2, 2))
        >>> rows.element(3, 1), rows.element(3, 4), rows.surely(1, 1), rows.surely(0, 4)
        ((1, 3), (3, 2), True, False)
    """

    core: Core
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        assert len(self.shape) == self.core.rank, f"a core of {self.core.rank} axes for a tile of shape {self.shape}"

    @property
    def rank(self) -> int:
        """Axes of the tile."""
        return self.core.rank

    @property
    def threads(self) -> int:
        """Threads that hold the tile."""
        return self.core.threads

    @cached_property
    def repeats(self) -> tuple[int, ...]:
        """Of the core along each axis."""
        return tuple(-(-extent // self.core.span(axis)) for axis, extent in enumerate(self.shape))

    @property
    def registers(self) -> int:
        """Elements that a thread holds, padding included."""
        return prod(self.repeats) << len(self.core.registers)

    @property
    def cpp(self) -> str:
        """The type of ``native/layout.h``.

        Example:
            >>> Layout(Core(1, ((0, 0),), ((0, 1), None)), (5,)).cpp
            'tk::Layout<tk::List<5>, tk::List<0>, tk::List<1, -1>, tk::List<>>'
        """
        core = self.core
        lists = [self.shape, *(tuple(map(_number, bits)) for bits in (core.registers, core.lanes, core.warps))]
        if core.groups > 1:
            lists.append((core.groups, -1 if core.group_axis is None else core.group_axis))
        return f"tk::Layout<{', '.join(f'tk::List<{str(list(each))[1:-1]}>' for each in lists)}>"

    # Where elements are.

    def further(self, register: int) -> tuple[int, ...]:
        """How far a register's element is from that of register 0, along each axis; the same in each thread."""
        at, rest = list(self.core.own(register)), register >> len(self.core.registers)
        for axis in reversed(range(self.rank)):
            rest, repeat = divmod(rest, self.repeats[axis])
            at[axis] += repeat * self.core.span(axis)
        return tuple(at)

    def element(self, thread: int, register: int) -> tuple[int, ...]:
        """The coordinates of what a thread holds in a register; beyond the shape it is padding."""
        return tuple(a + b for a, b in zip(self.core.first(thread), self.further(register), strict=True))

    def surely(self, axis: int, register: int) -> bool:
        """Whether along an axis no thread holds padding in a register."""
        most = sum(1 << bit[1] for bit in self.core.thread_bits if bit is not None and bit[0] == axis)
        if axis == self.core.group_axis:
            most += (self.core.groups - 1) << self.core.count(axis)
        return most + self.further(register)[axis] < self.shape[axis]

    @property
    def run(self) -> int:
        """Neighbours along the last axis that a thread holds in registers that follow each other, all padding or none.

        Example:
            >>> Layout(Core(1, ((0, 0), (0, 1)), ((0, 2),)), (8,)).run, Layout(Core(1, ((0, 0), (0, 1))), (6,)).run
            (4, 2)
        """
        last, own = self.rank - 1, self.core.registers
        return next(1 << n for n in range(len(own) + 1) if own[n : n + 1] != ((last, n),) or self.shape[last] >> n & 1)

    def neighbours(self, axis: int) -> int:
        """Neighbours along an axis that a thread holds, in any registers, all padding or none.

        Example:
            >>> squares = Layout(Core(2, ((1, 0), (0, 0), (0, 1)), ((1, 1),)), (8, 4))
            >>> squares.neighbours(0), squares.neighbours(1), squares.run
            (4, 2, 2)
        """
        own, n = self.core.registers, 0
        while (axis, n) in own and not self.shape[axis] >> n & 1:
            n += 1
        return 1 << n

    @property
    def ragged(self) -> bool:
        """Whether some threads hold padding."""
        return any(extent % self.core.span(axis) for axis, extent in enumerate(self.shape))

    @property
    def busy(self) -> int:
        """Threads up to the last one that holds an element in register 0."""
        return 1 + max(thread for thread in range(self.threads) if self.is_held(thread, 0))

    def is_held(self, thread: int, register: int) -> bool:
        """Whether a thread holds an element of the tile in a register, not padding."""
        return all(at < extent for at, extent in zip(self.element(thread, register), self.shape, strict=True))

    # Operations on tiles. No data moves: threads keep what they hold.

    def projected(self, axes: Sequence[int]) -> Layout:
        """The layout of a slice, of what a broadcast gives along a new axis of one element, or of a transpose.

        Args:
            axes: As :meth:`Core.projected` takes them.
        """
        return Layout(self.core.projected(axes), tuple(self.shape[axis] if axis >= 0 else 1 for axis in axes))

    def reduced(self, axis: int) -> Layout:
        """The layout of what a reduction along an axis leaves.

        Example:
            >>> rows = Layout(Core(2, ((1, 0),), ((1, 1), (0, 0))), (3, 8))
            >>> rows.reduced(1)  # doctest: +ELLIPSIS
            Layout(core=Core(rank=1, registers=(), lanes=(None, (0, 0)), ...), shape=(3,))
        """
        return self.projected([each for each in range(self.rank) if each != axis])

    def kept(self, axis: int, register: int) -> int:
        """The register of the layout without an axis that holds what a register holds along the others.

        A reduction along the axis adds to it; where its result is broadcast, it is read for ``register``.
        """
        bits = [i for i, bit in enumerate(self.core.registers) if bit[0] != axis]
        found, step = sum((register >> i & 1) << n for n, i in enumerate(bits)), 1 << len(bits)
        rest = register >> len(self.core.registers)
        for each in reversed(range(self.rank)):
            rest, repeat = divmod(rest, self.repeats[each])
            if each != axis:
                found, step = found + repeat * step, step * self.repeats[each]
        return found

    def transposed(self, axes: Sequence[int]) -> Part:
        """The layout of the tile with its axes in another order."""
        to = self.projected(axes)
        return to, self._same(tuple(at[axes.index(axis)] for axis in range(self.rank)) for at in to._offsets())

    def reshaped(self, shape: tuple[int, ...]) -> Part | None:
        """The layout of the same elements, row by row, in another shape: axes are joined or split.

        Returns:
            None where the bits do not tell it: extents of axes that are joined or split, but for the outermost one of
            each, must be powers of two that the core and its doublings fill.

        Example:
            >>> rows = Layout(Core(2, ((1, 0),), ((1, 1), (0, 0))), (3, 8))
            >>> joined, registers = rows.reshaped((24,))
            >>> joined.core.registers, joined.core.lanes, registers
            (((0, 0), (0, 2), (0, 4)), ((0, 1), (0, 3)), (0, 1, 2, 3, 4, 5, 6, 7))
        """
        source = self.absorbed()
        renamed = renamed_bits(source.core, self.shape, shape)
        if renamed is None:
            return None
        return Layout(source.core.renamed(renamed[0], len(shape), renamed[1]), shape), self._same(source._offsets())

    def part(self, start: Sequence[int], shape: tuple[int, ...]) -> Part | None:
        """The layout of a part of the tile that begins at fixed coordinates.

        Returns:
            None where threads would hold other elements: where a part begins inside the core, the bits of its
            coordinates that are not zero, and all above, must be registers' bits.
        """
        core = self.core
        for axis, (begin, extent) in enumerate(zip(start, shape, strict=True)):
            if begin % self.core.span(axis) == 0:
                continue
            low = (begin & -begin).bit_length() - 1
            gone = {(axis, position) for position in range(low, core.count(axis))}
            if extent > 1 << low or axis == core.group_axis or not gone <= {*core.registers}:
                return None
            core = replace(core, registers=tuple(bit for bit in core.registers if bit not in gone))
        to = Layout(core, shape)
        return to, self._same(tuple(map(sum, zip(at, start, strict=True))) for at in to._offsets())

    def runs(self, axis: int, count: int) -> Layout:
        """The layout of runs of ``count`` neighbours along an axis, a power of two, where each is one thread's.

        Example:
            >>> Layout(Core(1, ((0, 0), (0, 1)), ((0, 2),)), (16,)).runs(0, 2)  # doctest: +ELLIPSIS
            Layout(core=Core(rank=1, registers=((0, 0),), lanes=((0, 1),), ...), shape=(8,))
        """
        low = count.bit_length() - 1
        bits = [bit for bit in self.core.bits if bit[0] != axis or bit[1] >= low]
        names = {bit: (bit[0], bit[1] - low if bit[0] == axis else bit[1]) for bit in bits}
        shape = tuple(extent // count if each == axis else extent for each, extent in enumerate(self.shape))
        return Layout(self.core.renamed(names, self.rank, self.core.group_axis), shape)

    def swapped(self, register: int, lane: int) -> Layout:
        """The layout in which a bit of a register's number and one of a lane's have changed places.

        Each thread gives one of those that differ in the lane's bit half of its registers, and gets as many.

        Example:
            >>> Layout(Core(2, ((1, 0),), ((0, 0), (1, 1))), (2, 4)).swapped(0, 1).core.registers
            ((1, 1),)
        """
        registers, lanes = list(self.core.registers), list(self.core.lanes)
        bit = lanes[lane]
        assert bit is not None, "threads that differ in it hold copies"
        registers[register], lanes[lane] = bit, registers[register]
        return Layout(replace(self.core, registers=tuple(registers), lanes=tuple(lanes)), self.shape)

    def absorbed(self) -> Layout:
        """The same elements in the same threads, doublings of the core now bits of it: registers are numbered anew.

        Example:
            >>> Layout(Core(1), (12,)).absorbed().core.registers
            ((0, 0), (0, 1))
        """
        more: list[Bit] = []
        for axis in reversed(range(self.rank)):
            repeats, position = self.repeats[axis], self.core.count(axis)
            while repeats % 2 == 0 and axis != self.core.group_axis:
                more.append((axis, position))
                repeats, position = repeats // 2, position + 1
        return Layout(replace(self.core, registers=(*self.core.registers, *more)), self.shape)

    def _offsets(self) -> Iterator[tuple[int, ...]]:
        return (self.further(register) for register in range(self.registers))

    def _same(self, offsets: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        """The registers that are so far from register 0."""
        numbers = {at: register for register, at in enumerate(self._offsets())}
        return tuple(numbers[at] for at in offsets)


def _number(bit: Bit | None) -> int:
    """A bit in C++."""
    return -1 if bit is None else bit[0] * 32 + bit[1]
