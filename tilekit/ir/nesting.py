"""How deep control flow nests, and room on Python's stack for what follows it down."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tilekit.ir.core import Block

MOST_NESTED = 1000
"""Levels of branches and loops: what threads' stacks of 8 MiB hold several times over."""
_FRAMES = 12
"""Calls of Python functions that one level takes at most; an emitter takes the most."""
_lock = threading.Lock()
_wanted: list[int] = []
_outer = 0


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
    """Inside, Python's recursion limit lets code follow so many levels down; afterwards it is what it was.

    The limit is one for all threads, so it is as high as the one that goes deepest needs.

    Example:
        >>> before = sys.getrecursionlimit()
        >>> with room_for(500):
        ...     sys.getrecursionlimit() > before
        True
        >>> sys.getrecursionlimit() == before
        True
    """
    global _outer
    levels = min(levels, MOST_NESTED)
    with _lock:
        if not _wanted:
            _outer = sys.getrecursionlimit()
        _wanted.append(levels)
        sys.setrecursionlimit(_outer + _FRAMES * max(_wanted))
    try:
        yield
    finally:
        with _lock:
            _wanted.remove(levels)
            with suppress(RecursionError):  # this thread or another one is deeper than that now
                sys.setrecursionlimit(_outer + _FRAMES * max(_wanted, default=0))
