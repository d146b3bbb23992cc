"""Rebuilds blocks: the one way to copy ops, to replace values in them, and to put other ops in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilekit.ir.core import Block, Op, Value, map_operand

Change = Callable[[Op, "Rewriter"], Iterable[Op] | None]
"""What stands for an op, in order; None where it stays, with its operands looked up."""


class Rewriter:
    """Rebuilds ops and blocks, from first to last.

    ``known`` says what stands for a value; a ``change`` may add to it, for the ops that come later.

    Args:
        known: What stands for values from the start. A rewriter keeps the dictionary, and adds to it.
        change: Sees each op before its operands are looked up; :meth:`rebuilt` gives the op as it would stay.
        fresh: Whether what is rebuilt defines values of its own, as a copy beside the original must.
        outer: What stands for a value that is not known, instead of the value itself.
    """

    def __init__(
        self,
        known: dict[Value, Any] | None = None,
        change: Change = lambda op, rewriter: None,
        *,
        fresh: bool = False,
        outer: Callable[[Value], Any] = lambda value: value,
    ) -> None:
        self.known: dict[Value, Any] = {} if known is None else known
        self.change = change
        self.fresh = fresh
        self.outer = outer

    def look_up(self, item: Any) -> Any:
        """What stands for a value or constant."""
        if not isinstance(item, Value):
            return item
        return self.known[item] if item in self.known else self.outer(item)

    def operand(self, operand: Any) -> Any:
        """What stands for an operand; the operand itself where nothing in it has changed."""
        if not isinstance(operand, tuple):
            return operand if operand is None else self.look_up(operand)
        found = map_operand(operand, self.look_up)
        return operand if _same(found, operand) else found

    def block(self, block: Block, params: tuple[Value, ...] | None = None) -> Block:
        """A block rebuilt; the same one where nothing in it has changed. ``params`` take the place of its own."""
        if params is None:
            params = self.define(block.params)
        ops = self.ops(block.ops)
        results = tuple(map(self.look_up, block.results))
        same = _same(params, block.params) and _same(ops, block.ops) and _same(results, block.results)
        return block if same else Block(params, ops, results)

    def ops(self, ops: Iterable[Op]) -> tuple[Op, ...]:
        """What stands for some ops."""
        return tuple(new for op in ops for new in self.op(op))

    def op(self, op: Op) -> Iterable[Op]:
        """What stands for an op."""
        found = self.change(op, self)
        return (self.rebuilt(op),) if found is None else found

    def rebuilt(self, op: Op, **changes: Any) -> Op:
        """An op with its operands looked up, its blocks rebuilt and, if fresh, results of its own.

        ``changes`` are fields that it has instead.
        """
        if "operands" not in changes:
            operands = {name: self.operand(operand) for name, operand in op.operands.items()}
            if not _same(operands.values(), op.operands.values()):
                changes["operands"] = operands
        if op.blocks and "blocks" not in changes:
            blocks = tuple(map(self.block, op.blocks))
            if not _same(blocks, op.blocks):
                changes["blocks"] = blocks
        if self.fresh and "results" not in changes:
            changes["results"] = self.define(op.results)
        return op.with_(**changes) if changes else op

    def define(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """What a copy defines in place of values."""
        if self.fresh:
            self.known.update((value, Value(value.type, value.hint)) for value in values)
        return tuple(map(self.look_up, values)) if self.fresh else values


def _same(found: Iterable[Any], given: Iterable[Any]) -> bool:
    found, given = tuple(found), tuple(given)
    return len(found) == len(given) and all(map(_is, found, given))


def _is(a: Any, b: Any) -> bool:
    return a is b


def replace_ops(block: Block, replaced: Mapping[Op, Iterable[Op]]) -> Block:
    """The block with other ops in the place of some."""
    return Rewriter(change=lambda op, rewriter: replaced.get(op)).block(block)


def substitute(block: Block, replaced: dict[Value, Any]) -> Block:
    """The block with each use of a replaced value changed to its replacement."""
    return Rewriter(replaced).block(block) if replaced else block
