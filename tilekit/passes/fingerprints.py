"""Which values of a function are computed in the same way from the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilekit.ir.core import Block, Const, Op, Value
from tilekit.ir.regions import captured


class Fingerprints:
    """Of each value something that is equal for those which are computed alike.

    A value without an op, such as a parameter, is like itself alone; so is what an op with an effect gives.
    """

    def __init__(self, defined: Mapping[Value, Op], table: dict[Any, int]) -> None:
        """``table`` numbers them; functions that share it share fingerprints, and values."""
        self.defined = defined
        self.table = table
        self._known: dict[Value, Any] = {}

    def of(self, operand: Any) -> Any:
        """The fingerprint of an operand."""
        if isinstance(operand, tuple):
            return tuple(map(self.of, operand))
        if not isinstance(operand, Value):
            return (str(operand.type), operand.value) if isinstance(operand, Const) else operand
        waiting = [operand]  # no recursion: Python's stack is too short for the chains of unrolled loops
        while waiting:
            value = waiting.pop()
            op = self.defined.get(value)
            if value in self._known:
                continue
            if op is None or op.has_effect:
                self._known[value] = value
            elif first := [each for each in (*op.inputs(), *captured(op)) if each not in self._known]:
                waiting += (value, *reversed(first))
            else:
                self._known[value] = (self._op(op, {}), op.results.index(value))
        return self._known[operand]

    def _op(self, op: Op, inside: dict[Value, Any]) -> Any:
        operands = tuple((name, self._item(item, inside)) for name, item in op.operands.items())
        attrs = tuple((name, repr(value)) for name, value in op.attrs.items())
        blocks = tuple(self._block(block, inside) for block in op.blocks)
        return self.table.setdefault((op.builtin.name, operands, attrs, blocks), len(self.table))

    def _item(self, operand: Any, inside: dict[Value, Any]) -> Any:
        if isinstance(operand, tuple):
            return tuple(self._item(item, inside) for item in operand)
        return inside[operand] if isinstance(operand, Value) and operand in inside else self.of(operand)

    def _block(self, block: Block, inside: dict[Value, Any]) -> Any:
        inside = dict(inside)

        def define(values: tuple[Value, ...]) -> None:
            inside.update((value, (len(inside) + number, str(value.type))) for number, value in enumerate(values))

        define(block.params)
        ops = []
        for op in block.ops:
            ops.append(self._op(op, inside))
            define(op.results)
        return (tuple(ops), self._item(block.results, inside))
