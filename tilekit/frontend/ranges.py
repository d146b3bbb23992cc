"""``range(...)`` in a kernel."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tilekit.config import config
from tilekit.errors import KernelTypeError, KernelValueError, shown
from tilekit.frontend.merge import number_type, numeric_operand
from tilekit.ir.context import Builder, Concrete, active, fail
from tilekit.ir.handles import OPERATORS, Scalar
from tilekit.ir.operands import common_dtype, describe, usual
from tilekit.ir.types import ScalarType, int32, int64, uint64

NO_STEP = "range() step must not be zero"


@dataclass(frozen=True)
class Range:
    """``range(...)`` in a kernel: bounds are Python ints or run-time integers."""

    start: Any
    stop: Any
    step: Any
    mirror: Any = None
    """Where run-time bounds are gone through from the last index to the first: the sum of these two."""
    unrolled: bool = False
    """Whether a loop over known bounds is unrolled, however long it is."""

    @property
    def constant(self) -> range | None:
        if any(isinstance(bound, Scalar) for bound in (self.start, self.stop, self.step)):
            return None
        return range(self.start, self.stop, self.step)

    def _known(self) -> range:
        known = self.constant
        if known is None:
            raise fail(KernelTypeError("a range with run-time bounds can only be the subject of a 'for' loop"))
        return known

    def __repr__(self) -> str:
        return repr(self._known())

    def __iter__(self) -> Any:
        return map(self.typed, self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __getitem__(self, index: Any) -> Any:
        found = self._known()[index]
        return self.typed(found) if isinstance(found, int) else make_range(found.start, found.stop, found.step)

    def __reversed__(self) -> Range:
        known = self.constant
        if known is not None:
            known = known[::-1]
            return Range(known.start, known.stop, known.step)
        return replace(self, mirror=None if self.mirror is not None else self._ends())

    def _ends(self) -> Any:
        """The sum of the first and the last index; it may wrap, and ``at`` comes out right."""
        start, stop, step = self.bounds()
        if isinstance(step, int) and abs(step) == 1:
            return start + (stop - step)
        up = OPERATORS[">"](step, 0) if isinstance(step, Scalar) else step > 0
        near = stop - _either(up, 1, -1)
        first, beyond = _either(up, start, near), _either(up, near, start)
        rest = OPERATORS["%"](_modular(beyond) - _modular(first), _modular(_either(up, step, -step)))
        rest = OPERATORS["cast"](rest, range_operands(self)[0].type.dtype)
        return start + _either(up, near - rest, near + rest)

    def at(self, index: Any) -> Any:
        """The index that an iteration gets, where ``index`` counts upwards or downwards as the bounds say."""
        return index if self.mirror is None else self.mirror - index

    def bounds(self) -> tuple[Any, Any, Any]:
        """The bounds for arithmetic: the first in the index's dtype."""
        dtype = self.index_type.dtype
        start = dtype.numpy.type(self.start) if isinstance(self.start, int) else self.start
        return start, self.stop, self.step

    @cached_property
    def index_type(self) -> ScalarType:
        """The type of the index: int32, unless a bound is wider."""
        bounds = {"start": self.start, "stop": self.stop, "step": self.step}
        found: ScalarType = usual(common_dtype({n: number_type(bound) for n, bound in bounds.items()}, "range()"))
        if found.dtype == int32 and any(isinstance(b, int) and not int32.holds(b) for b in bounds.values()):
            found = ScalarType(int64)
        for name, bound in bounds.items():
            if isinstance(bound, int) and not found.dtype.holds(bound):
                raise fail(KernelValueError(f"range(): the {name} {shown(bound)} does not fit {found.dtype.name}"))
        return found

    def typed(self, number: Any) -> Any:
        """A known index as a number of its dtype: it computes as the index of a loop that is not unrolled does."""
        return self.index_type.dtype.numpy.type(number)


def _either(up: Any, rising: Any, falling: Any) -> Any:
    """What holds where the steps lead upwards, or what holds where they lead downwards."""
    return OPERATORS["where"](up, rising, falling) if isinstance(up, Scalar) else rising if up else falling


def _modular(number: Any) -> Any:
    """An integer as a uint64, in which the distance of two is exact."""
    return OPERATORS["cast"](OPERATORS["cast"](number, int64), uint64)


def make_range(*bounds: Any) -> Range:
    """``range`` as kernels see it."""
    if not 1 <= len(bounds) <= 3:
        raise fail(KernelTypeError(f"range() takes 1 to 3 arguments, got {len(bounds)}"))
    found: list[Any] = []
    for bound in bounds:
        known = isinstance(bound, Scalar) and isinstance(bound.datum, Concrete) and isinstance(active(), Builder)
        if isinstance(bound, Scalar) and not known:
            if not bound.dtype.is_integer:
                raise fail(KernelTypeError(f"range() needs integers, got {describe(bound)}; use int(...)"))
            found.append(OPERATORS["cast"](bound, int32) if bound.dtype.bits < 32 else bound)  # or the index might wrap
        else:
            try:
                found.append(operator.index(bound))
            except TypeError:
                raise fail(KernelTypeError(f"range() needs integers, got {describe(bound)}; use int(...)")) from None
    start, stop, step = (0, found[0], 1) if len(found) == 1 else (*found, 1) if len(found) == 2 else found
    if not isinstance(step, Scalar) and step == 0:
        raise fail(KernelValueError(NO_STEP))
    if isinstance(step, Scalar) and (config.checked or not isinstance(active(), Builder)):
        OPERATORS["assert"](OPERATORS["!="](step, 0), NO_STEP)
    items = Range(start, stop, step)
    if items.constant and (count := -((start - stop) // step)) >= 2**63:
        raise fail(KernelValueError(f"range() has {shown(count)} iterations, more than an int64 can count"))
    return items


def range_operands(items: Range) -> list[Any]:
    """The bounds in the dtype of the index."""
    return [numeric_operand(bound, items.index_type) for bound in (items.start, items.stop, items.step)]


OPERATORS["call.range"] = make_range
