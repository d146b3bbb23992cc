"""The layouts in which products leave their sums."""

from __future__ import annotations

from dataclasses import dataclass

from tilekit.codegen.layouts import Layout

MOST_KEPT = 8
"""Lanes of a warp at most that hold different rows, or different columns, of a product's tile."""
MOST_EXCHANGED = 16384
"""Bytes of shared memory for reductions, more of which would only save a barrier or two."""
REDUCED_LANES = 32
"""Elements from which a reduction begins: it combines every 32nd with the first of them."""


@dataclass(frozen=True)
class Fragment:
    """What a matrix product leaves to each thread: where the elements are is known to a C++ type."""

    cpp: str
    """A layout of ``native/layouts.h``."""
    threads: int
    registers: int | str
    """Elements that a thread holds; a C++ constant where only the compiler knows."""
    warps: tuple[int, int] | None = None
    """How many there are down the rows and along the columns, where a thread holds the same columns of each row;
    None where only the compiler knows."""
    shape: tuple[int, int] = (0, 0)
    """Rows and columns of all warps, with padding."""

    @property
    def alignment(self) -> str:
        """What comes before the declaration of the registers."""
        return "" if isinstance(self.registers, int) else "alignas(16) "

    def exchanged(self, axis: int, itemsize: int) -> tuple[int, int]:
        """How many values warps exchange at once in a reduction, as ``native/fragment_reduce.h`` says, and their bytes.

        Args:
            axis: The axis.
            itemsize: Bytes of an element; those of 16 bits are reduced in float32.

        Example:
            >>> Fragment("", 128, 128, (2, 2), (128, 128)).exchanged(1, 2), Fragment("", 32, 8).exchanged(0, 4)
            ((4096, 16384), (0, 0))
        """
        if self.warps is None or self.warps[axis] == 1:
            return 0, 0
        size, fewest = max(itemsize, 4), REDUCED_LANES * MOST_KEPT * self.warps[1 - axis]
        values = max(fewest, min(REDUCED_LANES * self.shape[1 - axis], MOST_EXCHANGED // size))
        return values, values * size


AnyLayout = Layout | Fragment
"""Of a tile that lies in registers."""
