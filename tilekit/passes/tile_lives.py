"""How long each tile is needed, in the order of the text, and whether threads may hold it in registers."""

from __future__ import annotations

from tilekit.ir.core import Block, Function, Op, Value, leaves
from tilekit.ir.regions import repeats
from tilekit.ir.types import TileType


class TileLives:
    """Where the ops of a function stand, and up to where its tiles are needed.

    What a loop reads from outside is needed to the loop's end. A tile is needed as long as a view of it.
    """

    def __init__(self, fn: Function) -> None:
        self.at: dict[Op, int] = {}
        """The place of each op, counted in the order of the text."""
        self.last: dict[Value, int] = {}
        """The last place that needs a tile."""
        self.in_memory: set[Value] = set()
        """The tiles that something reads or makes otherwise than element by element: they lie in memory on a GPU."""
        self.users: dict[Value, list[Op | None]] = {}
        """The ops that read a tile themselves; None for a block that yields it."""
        self._bases: dict[Value, Value] = {}
        self._place = 0
        self._block(fn.body)

    def base(self, value: Value) -> Value:
        """The tile whose storage a value shows."""
        return self._bases.get(value, value)

    def needed_at(self, value: Value, op: Op) -> bool:
        """Whether a tile is needed at an op, or later."""
        return self.last.get(self.base(value), -1) >= self.at[op]

    def need(self, value: Value, place: int) -> None:
        """Note that a tile is needed up to a place at least."""
        value = self.base(value)
        self.last[value] = max(place, self.last.get(value, -1))

    def stand_in(self, first: Value, second: Value) -> None:
        """Note that the first of two tiles is used wherever the second one was."""
        self.need(first, self.last.get(self.base(second), -1))
        self.users.setdefault(first, []).extend(self.users.get(second, ()))
        if second in self.in_memory:
            self.in_memory.add(first)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._place += 1
            self.at[op] = self._place
            self._op(op)
        for value in leaves(block.results):
            if isinstance(value.type, TileType):
                self.need(value, self._place + 1)
                self.users.setdefault(value, []).append(None)

    def _op(self, op: Op) -> None:
        builtin = op.builtin
        for value in op.inputs():
            if isinstance(value.type, TileType):
                self.need(value, self._place)
                self.users.setdefault(value, []).append(op)
                if not builtin.by_element:
                    self.in_memory.add(value)
        for name in builtin.in_memory:
            self.in_memory.update(leaves(op.operands[name]))
        if not builtin.by_element:
            self.in_memory.update(op.results)
        if builtin.view:
            first = next(op.inputs())
            self._bases[op.results[0]] = self.base(first)
        for block in op.blocks:
            self._block(block)
        if op.blocks and repeats(op):
            self._place += 1
            for block in op.blocks:
                for value in block.free:
                    if isinstance(value.type, TileType):
                        self.need(value, self._place)
