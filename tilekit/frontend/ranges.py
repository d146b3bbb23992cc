"""``range(...)`` in a kernel."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

from tilekit.errors import KernelTypeError, KernelValueError, shown
from tilekit.frontend.merge import merged_type, number_type, numeric_operand
from tilekit.ir.context import Builder, Concrete, active, fail
from tilekit.ir.handles import OPERATORS, Scalar
from tilekit.ir.operands import common_dtype, describe
from tilekit.ir.types import ScalarType, int32, int64


@dataclass(frozen=True)
class Range:
    """``range(...)`` in a kernel: bounds are Python ints or run-time integers."""

    start: Any
    stop: Any
    step: Any
    mirrored: bool = False
    """Whether run-time bounds are gone through from the last index to the first."""

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
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __getitem__(self, index: Any) -> Any:
        return self._known()[index]

    def __reversed__(self) -> Range:
        known = self.constant
        if known is not None:
            known = known[::-1]
            return Range(known.start, known.stop, known.step)
        if self.step not in (1, -1):
            raise fail(
                KernelTypeError(
                    "reversed() of a range with run-time bounds needs the step 1 or -1; write its bounds out"
                )
            )
        return replace(self, mirrored=not self.mirrored)

    def at(self, index: Any) -> Any:
        """The index that an iteration gets, where ``index`` counts upwards or downwards as the bounds say.

        Bounds of the opposite order might not fit the dtype; these sums may wrap on the way, and come out right.
        """
        if not self.mirrored:
            return index
        start, stop, step = self.bounds()
        return start + (stop - step) - index

    def bounds(self) -> tuple[Any, Any, Any]:
        """The bounds for arithmetic: the first in the index's dtype, but an int32 literal stays one."""
        operands = range_operands(self)
        wanted = operands[0].type
        if wanted.dtype == int32:
            return self.start, self.stop, self.step
        start = wanted.dtype.numpy.type(self.start) if isinstance(self.start, int) else self.start
        return start, self.stop, self.step

    def index_type(self, literal: bool) -> ScalarType:
        """The type of the index; ``literal`` where one of literal bounds is a literal itself."""
        found: ScalarType = range_operands(self)[0].type
        return merged_type([self.start, self.step]) if literal and found.dtype == int32 else found


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
        raise fail(KernelValueError("range() step must not be zero"))
    items = Range(start, stop, step)
    if items.constant and (count := -((start - stop) // step)) >= 2**63:
        raise fail(KernelValueError(f"range() has {shown(count)} iterations, more than an int64 can count"))
    return items


def range_operands(items: Range) -> list[Any]:
    """The bounds in one integer dtype: int32, unless one of them is wider."""
    bounds = {name: getattr(items, name) for name in ("start", "stop", "step")}
    wanted = common_dtype({name: number_type(bound) for name, bound in bounds.items()}, "range()")
    if wanted.dtype == int32 and any(isinstance(b, int) and not -(2**31) <= b < 2**31 for b in bounds.values()):
        wanted = ScalarType(int64)
    for name, bound in bounds.items():
        if isinstance(bound, int) and not wanted.dtype.holds(bound):
            raise fail(KernelValueError(f"range(): the {name} {shown(bound)} does not fit {wanted.dtype.name}"))
    return [numeric_operand(bound, wanted) for bound in bounds.values()]


OPERATORS["call.range"] = make_range
