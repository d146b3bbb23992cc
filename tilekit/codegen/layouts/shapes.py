"""Shapes of the same elements: which axes are joined and split, and what their bits are called then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from tilekit.codegen.layouts.core import Bit, Core

Axes = tuple[int, ...]


def renamed_bits(core: Core, shape: Sequence[int], to: Sequence[int]) -> tuple[Mapping[Bit, Bit], int | None] | None:
    """What the bits of a core over one shape are called over another one, and the axis of its groups.

    Args:
        core: All doublings of which are bits of it.
        shape: The tile's.
        to: Another shape of as many elements.

    Returns:
        None where an element's bits do not tell where it is in the other shape.

    Example:
        >>> renamed_bits(Core(1, ((0, 0), (0, 1), (0, 2))), (24,), (6, 4))
        ({(0, 0): (1, 0), (0, 1): (1, 1), (0, 2): (0, 0)}, None)
        >>> renamed_bits(Core(1, ((0, 0), (0, 1), (0, 2))), (24,), (8, 3)) is None
        True
    """
    names: dict[Bit, Bit] = {}
    group_axis = None
    if any(extent == 1 and core.span(axis) > 1 for axis, extent in enumerate(shape)):
        return None  # what is padding now would be a copy
    for before, after in joined_axes(shape, to):
        inner = [axis for axis in before if axis == core.group_axis and axis != before[0]]
        old = _numbers([core.count(axis) for axis in before], [shape[axis] for axis in before])
        bits = sum(core.count(axis) for axis in before)
        new = _numbers(_counts([to[axis] for axis in after], bits), [to[axis] for axis in after])
        if inner or old is None or new is None or len(new) != bits:
            return None
        found = {number: (after[axis], position) for number, (axis, position) in new.items()}
        names.update({(before[axis], position): found[number] for number, (axis, position) in old.items()})
        if core.group_axis in before:
            group_axis = after[0]
    return names, group_axis


def joined_axes(shape: Sequence[int], to: Sequence[int]) -> Iterator[tuple[Axes, Axes]]:
    """The fewest neighbouring axes of one shape that are neighbours of the other one; none of one element.

    Example:
        >>> list(joined_axes((3, 8, 1, 5), (3, 2, 4, 5)))
        [((0,), (0,)), ((1,), (1, 2)), ((3,), (3,))]
    """
    old, new = ([axis for axis, extent in enumerate(each) if extent > 1] for each in (shape, to))
    while old:
        m, n = 1, 1
        while (a := prod(shape[axis] for axis in old[:m])) != (b := prod(to[axis] for axis in new[:n])):
            m, n = m + (a < b), n + (b < a)
        yield tuple(old[:m]), tuple(new[:n])
        old, new = old[m:], new[n:]


def _counts(extents: Sequence[int], bits: int) -> list[int]:
    """How many of the bits axes have: the innermost as many as their extents, the outermost the rest."""
    inner = [(extent - 1).bit_length() for extent in extents[1:]]
    return [max(bits - sum(inner), 0), *inner]


def _numbers(counts: Sequence[int], extents: Sequence[int]) -> dict[int, Bit] | None:
    """Which bit each bit of a row-major number is; None where an inner axis has not exactly its extent's bits."""
    if any(extent != 1 << count for count, extent in zip(counts[1:], extents[1:], strict=True)):
        return None
    bits = [(axis, position) for axis in reversed(range(len(counts))) for position in range(counts[axis])]
    return dict(enumerate(bits))
