"""Compute once what is computed alike twice: the second op's results are the first one's.

- Two ops are alike if they have the same builtin, operands, attributes and blocks, and no effect. One that may fail is
  kept where it stands first: there it would have failed.
- Reads of an array are alike only where nothing between them has an effect, since any two arrays may share memory. What
  was read before a loop that waits for a condition is read again in it.
- A tile takes no longer life than it has: the second of two is dropped only where the first one is still needed, and
  where both lie in registers or both in memory. So no kernel needs more memory than its user wrote down. Tiles of
  nothing but constants stay: to fill one is cheap, and to keep it takes a copy where it is updated in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from tilekit.ir.core import Function, Op, Value, walk
from tilekit.ir.regions import next_conditions, repeats
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.structure import op_key
from tilekit.ir.types import TileType
from tilekit.passes.tile_lives import TileLives


def eliminate_common(fn: Function) -> Function:
    """The function without ops whose results others before them have."""
    body = Rewriter(change=_Common(fn).change).block(fn.body)
    return fn if body is fn.body else fn.with_body(body)


class _Common:
    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.found: dict[Any, tuple[int, tuple[Value, ...]]] = {}
        """By what an op computes: the time of its reads, and its results."""
        self.undo: list[tuple[Any, Any]] = []
        """What was known by the keys that have been noted since, the last one last."""
        self.time = 0
        """Goes on with each effect."""

    @cached_property
    def lives(self) -> TileLives:
        """Of the tiles, once there are any."""
        return TileLives(self.fn)

    def change(self, op: Op, rewriter: Rewriter) -> Iterable[Op] | None:
        """What stands for an op; None where it stays."""
        if op.builtin.carries:
            return (self._region(op, rewriter),)
        if op.has_effect:
            self.time += 1
        if op.has_effect or not op.results or op.builtin.exact_block or op.builtin.uninitialized:
            return None
        new = self._inside(op, rewriter) if op.blocks else rewriter.rebuilt(op)
        key = op_key(new, lambda value: value)
        reads = self.time if reads_memory(op) else 0
        time, results = self.found.get(key, (None, ()))
        if time == reads and self._may_stand(results, op):
            for first, second in zip(results, op.results, strict=True):
                rewriter.known[second] = first
                if isinstance(first.type, TileType):
                    self.lives.stand_in(first, second)
            return ()
        self.undo.append((key, self.found.get(key)))
        self.found[key] = reads, new.results
        return (new,)

    def _may_stand(self, results: tuple[Value, ...], op: Op) -> bool:
        """Whether tiles that were made before are at hand anyway."""
        if op.builtin.view or not any(isinstance(result.type, TileType) for result in results):
            return True
        lives = self.lives
        pairs = zip(results, op.results, strict=True)
        same = all((first in lives.in_memory) == (second in lives.in_memory) for first, second in pairs)
        return same and any(op.inputs()) and all(lives.needed_at(first, op) for first in results)

    def _region(self, op: Op, rewriter: Rewriter) -> Op:
        """A loop or branch, with blocks that know what was computed before it, and not what others computed."""
        waits = bool(next_conditions(op))
        if waits or (repeats(op) and op.has_effect):
            self.time += 1
        blocks = []
        for block in op.blocks:
            noted = len(self.undo)
            blocks.append(rewriter.block(block))
            self._forget(noted)
        if waits or op.has_effect:
            self.time += 1
        return rewriter.rebuilt(op, blocks=tuple(blocks))

    def _forget(self, noted: int) -> None:
        """Forget what has been found since so much was noted."""
        while len(self.undo) > noted:
            key, before = self.undo.pop()
            if before is None:
                del self.found[key]
            else:
                self.found[key] = before

    def _inside(self, op: Op, rewriter: Rewriter) -> Op:
        """An op with blocks that see only what they compute themselves."""
        outer = self.found, self.undo
        self.found, self.undo = {}, []
        new = rewriter.rebuilt(op)
        self.found, self.undo = outer
        return new


def reads_memory(op: Op) -> bool:
    """Whether an op, or one inside it, reads an array."""
    return bool(op.builtin.reads) or any(bool(inner.builtin.reads) for block in op.blocks for inner in walk(block))
