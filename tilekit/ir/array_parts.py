"""Which arrays are parts of which: what a parameter stands for, and what is read and written through ``a[i]``."""

from __future__ import annotations

from collections.abc import Mapping

from tilekit.ir.core import Block, Op, Value, walk
from tilekit.ir.types import ArrayType


def whole_of(array: Value, defined: Mapping[Value, Op]) -> tuple[Value, tuple[Op, ...]]:
    """What an array is, or is a part of, and the ops that take the parts, outermost first.

    That is a parameter, or what stands for an array where it is only known at run time which.
    """
    parts: tuple[Op, ...] = ()
    while (op := defined.get(array)) is not None and op.builtin.part_of:
        parts = (op, *parts)
        whole = op.operands[op.builtin.part_of]
        assert isinstance(whole, Value)
        array = whole
    return array, parts


class ArrayRoots:
    """The arrays from outside of a block that each array in it may be, or be a part of."""

    def __init__(self, body: Block) -> None:
        self._sources: dict[Value, tuple[Value, ...]] = {}
        """The arrays from which an op or block takes those that it gives."""
        for op in walk(body):
            made = (*op.results, *(param for block in op.blocks for param in block.params))
            if arrays := [value for value in made if isinstance(value.type, ArrayType)]:
                given = (*op.inputs(), *(result for block in op.blocks for result in block.results))
                bound = tuple(v for v in given if isinstance(v, Value) and isinstance(v.type, ArrayType))
                self._sources.update(dict.fromkeys(arrays, bound))
        self._found: dict[Value, frozenset[Value]] = {}

    def of(self, array: Value) -> frozenset[Value]:
        """The roots of an array; several, where it is only known at run time which it is."""
        if array not in self._found:
            seen, waiting = {array}, [array]
            while waiting:
                more = set(self._sources.get(waiting.pop(), ())) - seen
                seen |= more
                waiting += more
            self._found[array] = frozenset(value for value in seen if value not in self._sources)
        return self._found[array]
