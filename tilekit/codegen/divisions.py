"""Divisions of a tile's elements by a number that all of them share, on a GPU: its reciprocal is computed once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from tilekit.codegen.emitter import Emitter
from tilekit.codegen.refs import TileRef
from tilekit.codegen.storage import Storage
from tilekit.codegen.target import Target
from tilekit.ir.core import Block, Const, Function, Op, Value

_FEWEST = 4
"""Elements of a thread from which it pays to look at them before they are divided."""


class Divisions(Emitter):
    """Three instructions divide by a shared divisor, with the bits of ``/``, unless a number is near the range's ends.

    Whether one is, a thread finds out for all its elements first: one branch for a tile. Only tiles in registers are
    divided in this way. What elements share is up to :func:`_shared_divisor`: numbers so far.
    """

    alone: bool

    def __init__(self, fn: Function, storage: Storage, target: Target) -> None:
        super().__init__(fn, storage, target)
        self._by: dict[Any, str] = {}
        """What the shared divisors of the running loop are called."""
        self._seen = ""
        """What is told of each dividend, in the loop that only looks at them."""
        self._way = "quotient"
        """The native function that divides."""

    def over_elements(self, body: Block, out: TileRef, shared: Collection[Value], loop: Callable[[bool], None]) -> None:
        divisors = dict.fromkeys(by for op in body.ops if (by := _shared_divisor(op, shared)) is not None)
        few = out.layout is None or (isinstance(held := out.layout.registers, int) and held < _FEWEST)
        if self.alone or few or not divisors or not all(map(_is_pure, body.ops)):
            loop(True)
            return
        self._by = {by: self.fresh("by") for by in divisors}
        for by, name in self._by.items():
            self.line(f"const tk::Divisor {name}({self.name(by)});")
        self._seen = seen = self.fresh("seen")
        self.line(f"tk::Dividends {seen};")
        loop(False)
        self._seen = ""
        with self.braces(
            f"if ({' && '.join(f'{name}.is_plain()' for name in self._by.values())} && {seen}.are_plain())"
        ):
            loop(True)
        self._way = "any_quotient"
        with self.braces("else"):
            loop(True)
        self._by, self._way = {}, "quotient"

    def native_call(self) -> str:
        op = self.op
        assert op is not None
        by = self._by.get(op.operands[op.builtin.divisor]) if op.builtin.divisor else None
        if by is None:
            return super().native_call()
        (dividend,) = (text for name, text in self.operands.items() if name != op.builtin.divisor)
        if self._seen:
            self.line(f"{self._seen}.add({dividend});")
        return f"tk::{self._way}({dividend}, {by})"


def _shared_divisor(op: Op, shared: Collection[Value]) -> Value | Const | None:
    """The divisor of a quotient of floats where it is one number for all elements, and a product would not do."""
    by = op.operands[op.builtin.divisor] if op.builtin.divisor else None
    if not isinstance(by, Value | Const) or not by.type.dtype.is_float or by.type.dtype.bits > 32:
        return None
    if all(each in shared for each in op.inputs()):
        return None  # one quotient
    if isinstance(by, Const):
        return by if by.value > 0 and math.frexp(by.value)[0] != 0.5 else None
    return by if by in shared else None


def _is_pure(op: Op) -> bool:
    return op.builtin.elementwise and not op.blocks
