"""Where tiles live: buffers in one arena, and the values that share them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilekit.codegen.layouts import AnyLayout
from tilekit.ir.core import Value
from tilekit.ir.types import TileType

ALIGNMENT = 64
"""Bytes; a cache line, and the widest vector of any host."""
SCRATCH_ALIGNMENT = 128
"""Bytes: all banks of a GPU's shared memory, where the rings of products start."""


def round_up(size: int, alignment: int = ALIGNMENT) -> int:
    """Bytes to the start of the next buffer."""
    return -(-size // alignment) * alignment


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory for tiles of one type; ``offset`` in bytes from the start of the arena, or -1 for a place outside it."""

    type: TileType
    offset: int
    layout: AnyLayout | None = None
    """How threads hold the elements in registers, where they do."""

    @property
    def size(self) -> int:
        return self.type.size * self.type.dtype.itemsize

    def overlaps(self, other: Buffer) -> bool:
        """Whether two buffers share memory: those of tiles that are not alive together may lie at one place."""
        if self is other:
            return True
        if self.offset < 0 or other.offset < 0:  # outside the arena
            return False
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size


@dataclass(frozen=True)
class Storage:
    """The buffer of each tile value that is not a view; views lie in the buffer of their base."""

    buffers: Mapping[Value, Buffer] = field(default_factory=dict)
    size: int = 0
    """Bytes of the arena."""
