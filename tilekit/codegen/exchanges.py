"""What warps exchange when they reduce a product's sums, as ``native/fragment_reduce.h`` does."""

from __future__ import annotations

from tilekit.codegen.layouts import Layout

MOST_KEPT = 8
"""Lanes of a warp at most that hold different rows, or different columns, of a product's tile."""
MOST_EXCHANGED = 16384
"""Bytes of shared memory for reductions, more of which would only save a barrier or two."""
REDUCED_LANES = 32
"""Elements from which a reduction begins: it combines every 32nd with the first of them."""


def exchanged(layout: Layout, axis: int, itemsize: int) -> tuple[int, int]:
    """How many values warps exchange at once in a reduction, and their bytes.

    Args:
        layout: Of the sums of a product.
        axis: The axis that is reduced.
        itemsize: Bytes of an element; those of 16 bits are reduced in float32.

    Example:
        >>> from tilekit.codegen.layouts.cores import mma_sums
        >>> sums = Layout(mma_sums(1, 1, 2, 3), (128, 128))
        >>> exchanged(sums, 1, 2), exchanged(Layout(mma_sums(0, 0), (16, 8)), 0, 4)
        ((4096, 16384), (0, 0))
    """
    if _warps(layout, axis) == 1:
        return 0, 0
    other = 1 - axis
    size, fewest = max(itemsize, 4), REDUCED_LANES * MOST_KEPT * _warps(layout, other)
    padded = layout.repeats[other] * layout.core.span(other)
    values = max(fewest, min(REDUCED_LANES * padded, MOST_EXCHANGED // size))
    return values, values * size


def _warps(layout: Layout, axis: int) -> int:
    """Warps that share an axis."""
    count = sum(bit is not None and bit[0] == axis for bit in layout.core.warps)
    return (layout.core.groups if layout.core.group_axis == axis else 1) << count
