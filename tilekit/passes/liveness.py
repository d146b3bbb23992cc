"""Which tile values are alive at the same time, along every path of structured control flow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tilekit.ir.core import Block, Function, Op, Value, leaves, walk
from tilekit.ir.regions import captured, repeats
from tilekit.ir.types import TileType


class Liveness:
    """The interference of a function's tiles. A view counts as a use of its base, whose storage it shows."""

    def __init__(self, fn: Function) -> None:
        self.interferes: dict[Value, set[Value]] = defaultdict(set)
        self._bases: dict[Value, Value] = {}
        for op in walk(fn.body):
            if op.builtin.view:
                self._bases[op.results[0]] = next(op.inputs())
        self._block(fn.body, set())

    def base(self, value: Value) -> Value:
        """The tile whose storage a value shows."""
        while value in self._bases:
            value = self._bases[value]
        return value

    def tiles(self, values: Iterable[Value]) -> Iterator[Value]:
        for value in values:
            if isinstance(value.type, TileType):
                yield self.base(value)

    def conflict(self, a: Value, others: Iterable[Value]) -> None:
        for b in others:
            if a is not b:
                self.interferes[a].add(b)
                self.interferes[b].add(a)

    def _block(self, block: Block, after: set[Value]) -> set[Value]:
        """What is alive before a block, given what is after it."""
        alive = after | set(self.tiles(leaves(block.results)))
        for op in reversed(block.ops):
            if not op.builtin.view:
                self._op(op, alive)
        params = list(self.tiles(block.params))
        for param in params:
            self.conflict(param, alive | set(params))
        return alive - set(params)

    def _op(self, op: Op, alive: set[Value]) -> None:
        results = list(self.tiles(op.results))
        for result in results:
            self.conflict(result, alive | set(results))
        alive.difference_update(results)
        inside: set[Value] = set()
        if op.blocks:
            inside = set(self.tiles(captured(op)))
            again = alive | inside if repeats(op) else alive
            entered = [self._block(block, set(again)) for block in op.blocks]
            alive.update(inside, *entered)
        if not op.builtin.carries:  # what its blocks read is read while the result is being written
            kept = inside | set(self.tiles(self._not_reused(op)))
            for result in results:
                self.conflict(result, kept)
        alive.update(self.tiles(op.inputs()))

    def _not_reused(self, op: Op) -> Iterator[Value]:
        """The operands that must outlive the writing of the result: all but those it may overwrite in place.

        Only a tile of the result's own type is overwritten element by element; one of another dtype would be overtaken.
        """
        types = {result.type for result in op.results}
        for name, operand in op.operands.items():
            for value in leaves(operand):
                if name not in op.builtin.reuses or value in self._bases or value.type not in types:
                    yield value
