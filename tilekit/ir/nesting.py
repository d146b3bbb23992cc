"""How deep control flow nests, and room on Python's stack for what follows it down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tilekit.forks import Lock
from tilekit.ir.core import Block

MOST_NESTED = 1000
"""Levels of branches and loops: what threads' stacks of 8 MiB hold several times over."""
_FRAMES = 12
"""Calls of Python functions that one level takes at most; an emitter takes the most."""


class _Room:
    """What all that runs now needs of Python's recursion limit, which is one for all threads."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.frames = 0
        self.limit = 0
        """The limit without them."""

    def change(self, frames: int) -> None:
        with self.lock:
            if not self.frames:
                self.limit = sys.getrecursionlimit()
            self.frames += frames
            with suppress(RecursionError):  # this thread or another one is deeper than that now
                sys.setrecursionlimit(self.limit + self.frames)


_room = _Room()


def nesting(block: Block) -> int:
    """Levels of blocks in a block, itself included.

    Example:
        >>> nesting(Block((), ()))
        1
    """
    levels, inside = 0, [block]
    while inside:
        levels += 1
        inside = [inner for each in inside for op in each.ops for inner in op.blocks]
    return levels


@contextmanager
def room_for(levels: int) -> Iterator[None]:
    """Inside, Python's recursion limit lets code follow so many levels further down; afterwards it is what it was.

    Example:
        >>> before = sys.getrecursionlimit()
        >>> with room_for(500), room_for(1):
        ...     sys.getrecursionlimit() - before == 501 * 12
        True
        >>> sys.getrecursionlimit() == before
        True
    """
    frames = _FRAMES * min(levels, MOST_NESTED)
    _room.change(frames)
    try:
        yield
    finally:
        _room.change(-frames)
