"""Whether a value is finite where what it is computed from lies outside of arrays, and so is zero.

A row of a product that is not stored has a gradient of zero. In the gradient of one factor it meets that row of the
other factor, and ``0 * inf`` would be NaN. Where the row is known to be finite, nothing has to be done.

A value is finite if all is that it comes from, and each op on the way makes finite numbers of finite ones. Loads are
zero outside of arrays. Products, sums and maxima, views, and what loops carry are finite with their operands: a loop by
induction over its iterations. An elementwise op is tried: its ``reference`` gets each of a few numbers as each operand.
Poles and ends of domains lie at zero, or one of the numbers is beyond them. Any other op is taken to be the opposite.

So the answer may be "not finite" without need, which costs a selection and changes no gradient. That a constant is
infinite, as -inf in a mask, or that numbers are too large, is not the doing of what lies outside.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tilekit.ir.affine import definitions
from tilekit.ir.core import Const, Function, Op, Value, leaves
from tilekit.ir.interpret import HOST, data_of
from tilekit.ir.regions import arguments, carried, region_of

NUMBERS = (0, 1, -1, 2, -2)
MOST_OPERANDS = 4


class FiniteOutside:
    """Answers for the values of one function."""

    def __init__(self, fn: Function) -> None:
        self._given = frozenset(fn.params.values())
        self._defined = definitions(fn.body)
        self._sources: dict[Value, tuple[Any, ...]] = {}
        """What a parameter of a block may be: the value of another one, or the element of one."""
        for op in dict.fromkeys(self._defined.values()):
            if op.blocks and op.builtin.carries:
                self._sources |= {each.param: each.sources for each in carried(op) if each.param is not None}
            elif op.blocks:
                self._sources |= dict(arguments(op))
        self._tried: dict[Op, bool] = {}

    def __call__(self, value: Value) -> bool:
        """Whether it is finite there; integers are."""
        seen, waiting = set[Value](), [value]
        while waiting:
            value = waiting.pop()
            if not isinstance(value, Value) or value in seen or not value.type.dtype.is_float:
                continue
            seen.add(value)
            if (found := self._comes_from(value)) is None:
                return False
            waiting += found
        return True

    def _comes_from(self, value: Value) -> tuple[Any, ...] | None:
        """What must be finite so that a value is; None where that is not enough."""
        if value in self._sources:
            return self._sources[value]
        op = self._defined.get(value)
        if op is None:
            return () if value in self._given else None
        own = op.builtin
        if own.reads:
            return ()
        if op.blocks:
            number = op.results.index(value)
            if own.carries:
                return carried(op)[number].sources
            return (op.blocks[0].results[number],) if _is_plain(op) else None
        if own.elementwise:
            return tuple(op.inputs()) if self._is_total(op) else None
        names = own.contraction or own.moves or own.fills or (own.along and own.operand_names[0])
        if not names:
            return None if any(op.inputs()) else ()
        return tuple(
            leaf for name in ([names] if isinstance(names, str) else names) for leaf in leaves(op.operands[name])
        )

    def _is_total(self, op: Op) -> bool:
        """Whether an elementwise op makes finite numbers of all that are tried."""
        if op not in self._tried:
            self._tried[op] = _try(op)
        return self._tried[op]


def _is_plain(op: Op) -> bool:
    return region_of(op).runs in ("elements", "once") and len(op.blocks[0].results) == len(op.results)


def _try(op: Op) -> bool:
    free = {name: operand.type.dtype.numpy for name, operand in op.operands.items() if isinstance(operand, Value)}
    if len(free) > MOST_OPERANDS or any(isinstance(operand, tuple) for operand in op.operands.values()):
        return False
    cases = np.array(list(product(NUMBERS, repeat=len(free)))).reshape(-1, len(free)).T
    given = {name: operand if operand is None else data_of(operand) for name, operand in op.operands.items()
             if isinstance(operand, Const) or operand is None}  # fmt: skip
    with np.errstate(all="ignore"):
        given |= {name: numbers.astype(free[name]) for name, numbers in zip(free, cases, strict=True)}
        types = tuple(result.type for result in op.results)
        found = op.builtin.apply("reference", given, op.attrs, machine=HOST, blocks=(), types=types)
        results = found if isinstance(found, tuple) else (found,)
        return all(bool(np.isfinite(np.asarray(each).astype(np.float64)).all()) for each in results)
