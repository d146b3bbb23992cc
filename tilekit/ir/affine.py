"""Integers as sums of multiples of values: what an offset is, in terms of loop indices and grid coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

from tilekit.ir.core import Block, Const, Op, Value, walk
from tilekit.ir.types import ScalarType


@dataclass(frozen=True)
class Affine:
    """``constant + sum(factor * value)``.

    Example:
        >>> str((Affine(2) + 3) * 4)
        '20'
    """

    constant: int = 0
    terms: Mapping[Any, int] = field(default_factory=dict)
    """By what a factor belongs to: a ``Value``, or what generated code calls one."""
    bits: int = field(default=64, compare=False)
    """Of the narrowest integers that it is computed in: the number is the sum modulo ``2**bits``."""

    def factor(self, value: Any) -> int:
        """How much a step of ``value`` adds."""
        return self.terms.get(value, 0)

    @property
    def divisor(self) -> int:
        """The greatest number that is known to divide the sum, whatever the values; 0 for a sum that is always zero."""
        return gcd(self.constant, *self.terms.values())

    def replace(self, value: Value, other: Affine) -> Affine:
        """The sum where ``value`` is ``other``."""
        rest = {item: by for item, by in self.terms.items() if item is not value}
        return Affine(self.constant, rest, self.bits) + other * self.factor(value)

    def __add__(self, other: Any) -> Affine:
        other = _as_affine(other)
        values = dict.fromkeys((*self.terms, *other.terms))
        terms = {value: self.factor(value) + other.factor(value) for value in values}
        kept = {value: by for value, by in terms.items() if by}
        return Affine(self.constant + other.constant, kept, min(self.bits, other.bits))

    def __mul__(self, other: Any) -> Affine:
        other = _as_affine(other)
        if self.terms and other.terms:
            raise TypeError("a product of two run-time integers is not affine")
        scaled, by = (self, other.constant) if not other.terms else (other, self.constant)
        terms = {value: f * by for value, f in scaled.terms.items()} if by else {}
        return Affine(scaled.constant * by, terms, min(self.bits, other.bits))

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Any) -> Affine:
        return self + -_as_affine(other)

    def __rsub__(self, other: Any) -> Affine:
        return (-self).__add__(other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __str__(self) -> str:
        parts = [f"{by}*{value.hint or 'v'}" for value, by in self.terms.items()]
        return " + ".join([*parts, *([str(self.constant)] if self.constant or not parts else [])])


def _as_affine(value: Any) -> Affine:
    return value if isinstance(value, Affine) else Affine(int(value))


def _is_exact(sum: Affine, op: Op) -> bool:
    """Whether the result of an op is the sum, modulo ``2**bits`` of its dtype."""
    type = op.results[0].type
    assert isinstance(type, ScalarType)
    if any(not type.dtype.holds(limit) for value in op.inputs() for limit in value.type.dtype.limits):
        return False  # a cast that may cut off
    below_zero = type.dtype.kind == "u" and any(number < 0 for number in (sum.constant, *sum.terms.values()))
    return type.dtype.kind in "iu" and type.dtype.bits >= 32 and not below_zero


def definitions(block: Block) -> dict[Value, Op]:
    """The op that defines each value in a block and the blocks inside it."""
    return {result: op for op in walk(block) for result in op.results}


def affine_of(operand: Any, defined: Mapping[Value, Op]) -> Affine:
    """An integer operand as an affine sum of values that are not sums themselves.

    An op's reference rule is run on affine numbers: one that only adds and scales gives an affine number again. Of a
    dtype that wraps around where offsets are counted, such as uint32 below zero, only what cannot is such a sum.
    """
    if isinstance(operand, Const):
        return Affine(int(operand.value))
    op = defined.get(operand)
    integers = op is not None and all(isinstance(v.type, ScalarType) and v.type.dtype.is_integer for v in op.inputs())
    if op is not None and op.builtin.elementwise and integers:
        found = sum_of(op, {name: affine_of(item, defined) for name, item in op.operands.items()})
        if found is not None:
            return found
    return Affine(0, {operand: 1})


def sum_of(op: Op, given: Mapping[str, Any]) -> Affine | None:
    """The result of an op of single integers as an affine sum, given what its operands are; None where it is none."""
    try:
        found = op.builtin.apply("reference", given, op.attrs, types=tuple(v.type for v in op.results))
    except (AttributeError, TypeError, ValueError):  # which is how NumPy says that it cannot
        return None
    if not isinstance(found, Affine) or not _is_exact(found, op):
        return None
    return replace(found, bits=min(found.bits, *(value.type.dtype.bits for value in op.results)))
