"""Compute before a loop what is the same in each iteration.

- Nothing with an effect moves, nothing that may fail, and no instruction that is spelled as such.
- An array is read before a loop only where the loop surely runs and has no effect: a loop without an iteration reads
  nothing, and one that writes or waits may find something else each time.
- A tile that is held through a loop takes room from all that the loop does. So only tiles move that threads of a GPU
  hold in registers, and of one loop at most ``MOST_BYTES``. Tiles of nothing but constants are filled where they are
  needed.
- What single lanes compute stays in their loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from tilekit.ir.core import Block, Function, Op, Value
from tilekit.ir.regions import next_conditions
from tilekit.ir.rewrite import Rewriter, replace_ops
from tilekit.ir.types import TileType
from tilekit.passes.eliminate_common import reads_memory
from tilekit.passes.loops import is_counted, trips
from tilekit.passes.tile_lives import TileLives

MOST_BYTES = 4096
"""Of tiles that move out of one loop: eight registers of each of 128 threads."""


def hoist_invariants(fn: Function) -> Function:
    """The function with what no iteration changes before its loops."""
    body = Rewriter(change=_Hoister(fn).change).block(fn.body)
    return fn if body is fn.body else fn.with_body(body)


class _Hoister:
    def __init__(self, fn: Function) -> None:
        self.fn = fn

    @cached_property
    def lives(self) -> TileLives:
        """Of the tiles, once there are any."""
        return TileLives(self.fn)

    def change(self, op: Op, rewriter: Rewriter) -> Iterable[Op] | None:
        """What stands for an op; None where it stays."""
        if not op.builtin.carries:
            return (op,)  # elements are computed one by one
        op = rewriter.rebuilt(op)
        if not (is_counted(op) or next_conditions(op)):
            return (op,)
        (body,) = op.blocks
        moved = self._moved(op, body)
        if not moved:
            return (op,)
        return (*moved, op.with_(blocks=(replace_ops(body, dict.fromkeys(moved, ())),)))

    def _moved(self, loop: Op, body: Block) -> list[Op]:
        """The ops of a loop's body that may stand before it, in order."""
        changing: set[Value] = set(body.params)
        reads = bool(trips(loop)) and not loop.has_effect
        left = MOST_BYTES
        moved = []
        for op in body.ops:
            size = self._size(op, body)
            free = (value for block in op.blocks for value in block.free)
            same = changing.isdisjoint(op.inputs()) and changing.isdisjoint(free)
            if same and size is not None and size <= left and _is_pure(op) and (reads or not reads_memory(op)):
                left -= size
                moved.append(op)
            else:
                changing.update(op.results)
        return moved

    def _size(self, op: Op, body: Block) -> int | None:
        """The bytes of the tiles that an op makes; None where they had better be made in each iteration."""
        tiles = [result for result in op.results if isinstance(result.type, TileType)]
        sizes = [tile.type.size * tile.type.dtype.itemsize for tile in tiles if isinstance(tile.type, TileType)]
        if op.builtin.view or not tiles:
            return 0
        if not any(op.inputs()) or any(tile in self.lives.in_memory or tile in body.results for tile in tiles):
            return None
        return sum(sizes)


def _is_pure(op: Op) -> bool:
    own = op.builtin
    fixed = own.exact_block or own.uninitialized or own.scratch or own.carries
    return bool(op.results) and not fixed and not op.runs_anyway
