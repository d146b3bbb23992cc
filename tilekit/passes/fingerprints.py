"""Which values of a function are computed in the same way from the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilekit.ir.core import Op, Value
from tilekit.ir.regions import inputs_of
from tilekit.ir.structure import op_key, operand_key


class Fingerprints:
    """Of each value something that is equal for those which are computed alike.

    A value without an op, such as a parameter, is like itself alone; so is what an op gives that is ``unlike`` others.
    """

    def __init__(
        self,
        defined: Mapping[Value, Op],
        table: dict[Any, int],
        unlike: Callable[[Op], bool] = lambda op: op.has_effect,
    ) -> None:
        """``table`` numbers them; functions that share it share fingerprints, and values."""
        self.defined = defined
        self.table = table
        self.unlike = unlike
        self._known: dict[Value, Any] = {}

    def of(self, operand: Any) -> Any:
        """The fingerprint of an operand."""
        return operand_key(operand, self._of)

    def _of(self, asked: Value) -> Any:
        waiting = [asked]  # no recursion: Python's stack is too short for the chains of unrolled loops
        while waiting:
            value = waiting.pop()
            op = self.defined.get(value)
            if value in self._known:
                continue
            if op is None or self.unlike(op):
                self._known[value] = value
            elif first := [each for each in inputs_of(op) if each not in self._known]:
                waiting += (value, *reversed(first))
            else:
                number = self.table.setdefault(op_key(op, self._of), len(self.table))
                self._known[value] = (number, op.results.index(value))
        return self._known[asked]
