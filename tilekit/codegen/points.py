"""Where the points of a grid need no checks: what is checked and compared, as bounds of the point's coordinates."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tilekit.codegen.emitter import COORDINATES, Emitter
from tilekit.ir.affine import Affine, sum_of
from tilekit.ir.core import Const, Op
from tilekit.ir.types import ScalarType, bool_, int32

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_LAST = "0x7fffffff"


@dataclass
class Bounds:
    """What holds for some points of a launch, in C++ that names parameters only."""

    always: list[str] = field(default_factory=list)
    """Conditions on the launch."""
    lower: dict[str, list[str]] = field(default_factory=dict)
    """The numbers that a coordinate is not below, by the coordinate."""
    upper: dict[str, list[str]] = field(default_factory=dict)
    """The numbers that it is below."""

    def within(self, coordinate: str, low: Affine | None, high: Affine | None) -> None:
        """Ask for ``low <= coordinate < high``."""
        for found, bound in ((self.lower, low), (self.upper, high)):
            text, known = "" if bound is None else _text(bound), found.setdefault(coordinate, [])
            known += [text] if text and text not in known else []

    def require(self, condition: str) -> None:
        if condition not in self.always:
            self.always.append(condition)

    def __bool__(self) -> bool:
        return bool(self.always or self.lower or self.upper)


class PointEmitter(Emitter):
    """Emission for points without tiles, for three kinds of points: all, those whose coordinates pass all checks
    (``Guarded`` is false), and of these the ones inside all that coordinates are compared with (``Inside`` is true).

    What is known of integers is their sum of a coordinate, parameters and extents, by what the code calls them.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.safe = Bounds()
        self.inside = Bounds()
        self._sums: dict[str, Affine] = {}
        self._params = set(self.fn.params.values())

    # What is known of integers.

    def written(self, op: Op, operands: dict[str, Any]) -> Any:
        found = super().written(op, operands)
        if len(op.results) != 1 or not isinstance(found, str):
            return found
        inside = self._decided(op, operands)
        if inside is not None:
            return f"Inside ? {str(inside).lower()} : {found}"
        total = self._sum(op, operands, found)
        if total is not None:
            self._sums[self.define(op.results[0])] = total
        return found

    def _sum(self, op: Op, operands: dict[str, Any], found: str) -> Affine | None:
        if not _is_int32(op.results[0].type) or op.builtin.reads or op.has_effect or op.blocks:
            return None
        given = list(op.inputs())
        if given and all(value in self._params for value in given) and not op.builtin.elementwise:
            return Affine(0, {found: 1})  # such as an extent
        if not op.builtin.elementwise:
            return None
        known = {name: self._known(operand, operands[name]) for name, operand in op.operands.items()}
        total = None if None in known.values() else sum_of(op, known)
        small = total is not None and all(abs(by) < 2**31 for by in (total.constant, *total.terms.values()))
        return total if small else None  # of which an i64 holds any multiple

    def _known(self, operand: Any, text: Any) -> Affine | None:
        if isinstance(operand, Const):
            return Affine(int(operand.value)) if operand.type.dtype.is_integer else None
        if operand is None or not _is_int32(operand.type):
            return None
        return Affine(0, {text: 1}) if operand in self._params else self._named(text)

    def _named(self, name: str) -> Affine | None:
        return Affine(0, {name: 1}) if name in COORDINATES else self._sums.get(name)

    # Checks.

    def outside(self, array: str, axis: int, index: str) -> str:
        text = super().outside(array, axis, index)
        found = Affine(int(index)) if index.isdigit() else self._named(index)
        bounded = found is not None and array.startswith("p.") and self._bounded(found, f"{array}.shape[{axis}]")
        return f"Guarded && {text}" if bounded else text

    def _bounded(self, index: Affine, extent: str) -> bool:
        """Bound the coordinate in an index such that the index is inside; whether that can be said."""
        end = f"tk::lesser({extent}, {_LAST})"  # what is below is an int32, and so what the kernel computes
        if _is_fixed(index):
            self.safe.require(f"tk::is_index({_text(index)}, {end})")
            return True
        coordinate, rest = _split(index)
        if coordinate:
            self.safe.within(coordinate, -rest, Affine(0, {end: 1}) - rest)
        return bool(coordinate)

    def unless(self, ok: str, about: str = "") -> AbstractContextManager[None]:
        if not about.startswith("p."):
            return super().unless(ok)
        self.safe.require(ok)
        return self.braces(f"if (Guarded && !({ok}))")

    # Comparisons.

    def _decided(self, op: Op, operands: dict[str, Any]) -> bool | None:
        """What a comparison gives for points inside: above every constant, and below all that is known later."""
        compare = _COMPARISONS.get(op.builtin.operator or "")
        if compare is None or len(op.operands) != 2 or op.results[0].type != ScalarType(bool_):
            return None
        left, right = (self._known(operand, operands[name]) for name, operand in op.operands.items())
        if left is None or right is None:
            return None
        if _is_fixed(right) and self._sided(left, right):
            return compare(-1, 0) if right.terms else compare(1, 0)
        if _is_fixed(left) and self._sided(right, left):
            return compare(0, -1) if left.terms else compare(0, 1)
        return None

    def _sided(self, side: Affine, other: Affine) -> bool:
        """Bound the coordinate in a side of a comparison by the other side, if it has one and a constant only.

        The numbers that the kernel compares are these only where they fit an int32.
        """
        coordinate, offset = _split(side)
        if not coordinate or offset.terms:
            return False
        if other.terms:
            self.inside.require(f"tk::is_int32({_text(other)})")
            self.inside.within(coordinate, None, other - offset)
        else:
            self.inside.within(coordinate, other - offset + 1, None)
        if offset.constant > 0:
            self.inside.within(coordinate, None, Affine(2**31 - 1) - offset)
        return True


def _is_int32(type: Any) -> bool:
    return isinstance(type, ScalarType) and type.dtype == int32


def _is_fixed(total: Affine) -> bool:
    """Whether a sum is the same for all points of a launch."""
    return not any(term in COORDINATES for term in total.terms)


def _split(total: Affine) -> tuple[str, Affine]:
    """The one coordinate in a sum, once, and the rest; no coordinate where that is not so."""
    found = [term for term in total.terms if term in COORDINATES]
    if len(found) != 1 or total.factor(found[0]) != 1:
        return "", total
    return found[0], total.replace(found[0], Affine())


def _text(total: Affine) -> str:
    """A sum without coordinates as an i64."""
    terms = [term if by == 1 else f"{by}ll * {term}" for term, by in total.terms.items()]
    constant = [f"{total.constant}ll"] if total.constant or not terms else []
    return " + ".join(["(tk::i64)" + terms[0], *terms[1:], *constant] if terms else constant)
