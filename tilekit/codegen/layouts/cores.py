"""The cores that hardware asks for: runs of neighbours in memory, and what tensor cores take and leave."""

from __future__ import annotations

from functools import cache
from math import prod

from tilekit.codegen.layouts.core import LANE_BITS, Bit, Core
from tilekit.codegen.layouts.layout import Layout


def blocked(shape: tuple[int, ...], threads: int, run: int, order: tuple[int, ...], across: int = 1) -> Core:
    """Runs of neighbours, dealt to lanes, then to warps, as far as the tile goes; further threads hold copies.

    Args:
        shape: The tile's.
        threads: How many hold it.
        run: Neighbours along ``order[0]`` that a thread holds, a power of two.
        order: The axes, first the one whose elements are neighbours in memory.
        across: Such runs that a thread holds along ``order[1]``, a power of two: a rectangle of registers that is read
            along one axis and written along the other.

    Example:
        >>> core = blocked((2, 32), threads=16, run=4, order=(1, 0))
        >>> core.registers, core.lanes
        (((1, 0), (1, 1)), ((1, 2), (1, 3), (1, 4), (0, 0)))
        >>> blocked((256,), threads=96, run=1, order=(0,)).span(0)
        96
    """
    used = dict.fromkeys(order, 0)

    def take(axes: tuple[int, ...], count: int) -> list[Bit]:
        found: list[Bit] = []
        for axis in axes:
            while len(found) < count and 1 << used[axis] < shape[axis]:
                found.append((axis, used[axis]))
                used[axis] += 1
        return found

    registers = (*take(order[:1], run.bit_length() - 1), *take(order[1:2], across.bit_length() - 1))
    low = (threads & -threads).bit_length() - 1
    dealt = take(order, low)
    bits = (*dealt, *(None for _ in range(low - len(dealt))))
    groups = threads >> low
    more = (axis for axis in order if 1 << used[axis] < shape[axis])
    return Core(
        len(shape), registers, bits[:LANE_BITS], bits[LANE_BITS:], groups, next(more, None) if groups > 1 else None
    )


@cache
def in_turn(shape: tuple[int, ...], threads: int, run: int) -> Layout:
    """Runs of neighbours of a tile, row by row, dealt to all threads in turn.

    Args:
        shape: The tile's.
        threads: How many hold it.
        run: Neighbours that a thread holds, a power of two that divides the last extent.

    Returns:
        A layout along the tile's axes where bits tell it; else one whose only axis counts the elements row by row.

    Example:
        >>> in_turn((4, 8), threads=8, run=2).element(3, 1), in_turn((4, 6), threads=8, run=2).element(3, 1)
        ((0, 7), (7,))
    """
    flat = Layout(row_major(threads, run), (prod(shape),)).absorbed()
    shaped = flat.reshaped(shape)
    return flat if shaped is None else shaped[0]


def row_major(threads: int, run: int) -> Core:
    """Runs of neighbours of a tile whose elements are counted row by row, dealt to all threads in turn without copies.

    Args:
        threads: How many hold the tile.
        run: Neighbours that a thread holds, a power of two.

    Example:
        >>> core = row_major(threads=20, run=4)
        >>> core.first(3), core.first(19), core.span(0)
        ((12,), (76,), 80)
    """
    low, own = (threads & -threads).bit_length() - 1, run.bit_length() - 1
    bits = _positions(0, own, low)
    groups = threads >> low
    axis = 0 if groups > 1 else None
    return Core(1, _positions(0, 0, own), bits[:LANE_BITS], bits[LANE_BITS:], groups, axis)


def mma_sums(
    warps_m: int,
    warps_n: int,
    atoms_m: int = 0,
    atoms_n: int = 0,
    groups: int = 1,
    group_axis: int | None = None,
) -> Core:
    """The sums of ``mma.m16n8``, rows by columns, and of ``wgmma``: four warps down the rows, then warpgroups.

    A lane has two neighbours of row ``lane / 4`` and two of the row 8 below.

    Args:
        warps_m: Bits of the number of warps down the rows; those are counted first.
        warps_n: Bits of the number of warps along the columns.
        atoms_m: Bits of the number of 16 rows that follow each other in one warp.
        atoms_n: Bits of the number of 8 columns that do.
        groups: Of so many warps, where their number is no power of two.
        group_axis: The axis along which groups follow each other.

    Example:
        >>> core = mma_sums(1, 1)
        >>> core.threads, core.span(0), core.span(1), core.first(5), core.first(32)
        (128, 32, 16, (1, 2), (16, 0))
    """
    registers = ((1, 0), (0, 3), *_positions(1, 3, atoms_n), *_positions(0, 4, atoms_m))
    lanes = ((1, 1), (1, 2), (0, 0), (0, 1), (0, 2))
    warps = (*_positions(0, 4 + atoms_m, warps_m), *_positions(1, 3 + atoms_n, warps_n))
    return Core(2, registers, lanes, warps, groups, group_axis)


def fma_sums(
    warps_m: int,
    warps_n: int,
    lanes_m: int,
    blocks_m: int = 0,
    blocks_n: int = 0,
    groups: int = 1,
    group_axis: int | None = None,
) -> Core:
    """Sums of multiply-adds: blocks of 4 x 4, dealt to the lanes of a warp row by row.

    Args:
        warps_m: As :func:`mma_sums` takes it.
        warps_n: As :func:`mma_sums` takes it.
        lanes_m: Bits of the number of lanes down the rows; the others are along the columns.
        blocks_m: Bits of the number of blocks that a thread has down the rows, one for each time round the lanes.
        blocks_n: Bits of the number that it has along the columns.
        groups: As :func:`mma_sums` takes it.
        group_axis: As :func:`mma_sums` takes it.

    Example:
        >>> core = fma_sums(0, 0, lanes_m=2, blocks_n=1)
        >>> len(core.registers), core.span(0), core.span(1), core.first(9), core.own(4)
        (5, 16, 64, (4, 4), (0, 32))
    """
    lanes_n = LANE_BITS - lanes_m
    high_m, high_n = 2 + lanes_m, 2 + lanes_n
    registers = (
        *(*_positions(1, 0, 2), *_positions(1, high_n, blocks_n)),
        *(*_positions(0, 0, 2), *_positions(0, high_m, blocks_m)),
    )
    warps = (*_positions(0, high_m + blocks_m, warps_m), *_positions(1, high_n + blocks_n, warps_n))
    return Core(2, registers, (*_positions(1, 2, lanes_n), *_positions(0, 2, lanes_m)), warps, groups, group_axis)


def mma_left(warps_m: int, warps_n: int, bits: int = 16) -> Core:
    """The left operand of ``mma.m16n8``, rows by k; warps along the columns hold copies.

    Args:
        warps_m: As :func:`mma_sums` takes it.
        warps_n: As :func:`mma_sums` takes it.
        bits: Of an element: 8 (k32), 16 (k16) or 32 (k8, tf32).

    Example:
        >>> mma_left(0, 0).registers == ((1, 0), (0, 3), (1, 3))  # two sums of m16n8, register for register
        True
    """
    word = _word(bits)
    registers = (*_positions(1, 0, word), (0, 3), (1, 2 + word))
    lanes = ((1, word), (1, 1 + word), (0, 0), (0, 1), (0, 2))
    return Core(2, registers, lanes, (*_positions(0, 4, warps_m), *(None for _ in range(warps_n))))


def mma_right(warps_m: int, warps_n: int, bits: int = 16) -> Core:
    """The right operand of ``mma.m16n8``, k by columns; warps down the rows hold copies.

    Args:
        warps_m: As :func:`mma_sums` takes it.
        warps_n: As :func:`mma_sums` takes it.
        bits: As :func:`mma_left` takes it.

    Example:
        >>> mma_right(0, 0).span(0), mma_right(0, 0, bits=8).span(0), mma_right(0, 0).span(1)
        (16, 32, 8)
    """
    word = _word(bits)
    registers = (*_positions(0, 0, word), (0, 2 + word))
    lanes = ((0, word), (0, 1 + word), (1, 0), (1, 1), (1, 2))
    return Core(2, registers, lanes, (*(None for _ in range(warps_m)), *_positions(1, 3, warps_n)))


def _positions(axis: int, first: int, count: int) -> tuple[Bit, ...]:
    """So many bits along an axis from a position on."""
    return tuple((axis, first + i) for i in range(count))


def _word(bits: int) -> int:
    """Bits of the number of an element in the 32-bit register that it shares."""
    assert bits in (8, 16, 32), f"elements of {bits} bits"
    return (32 // bits).bit_length() - 1
