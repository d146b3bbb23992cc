"""What the host can compute of a kernel's integers before it launches them: from launch scalars and shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilekit.ir.core import Const, Op, Value
from tilekit.ir.handles import OPERATORS
from tilekit.ir.sizes import (
    CeilDiv,
    Difference,
    Extent,
    FloorDiv,
    Max,
    Min,
    Product,
    Scalar,
    Size,
    Sum,
    Trips,
    simplified,
)
from tilekit.ir.types import ArrayType, ScalarType


def size_of(operand: Any, defined: Mapping[Value, Op], names: Mapping[Value, str]) -> Size | None:
    """An integer of a kernel as a size; None where it depends on anything but launch scalars and shapes.

    Args:
        operand: The integer.
        defined: The op that defines each value.
        names: The names of the function's parameters.
    """
    if isinstance(operand, Const):
        return int(operand.value)
    if operand in names:
        type = operand.type
        known = isinstance(type, ScalarType) and type.dtype.is_integer
        return Scalar(names[operand]) if known else None
    op = defined.get(operand)
    if op is None or op.blocks or not _is_integer(operand):
        return None
    if op.builtin is OPERATORS["shape"]:
        (array,) = op.inputs()
        return Extent(names[array], op.attrs["axis"]) if array in names else None
    make = _MEANINGS.get(op.builtin.operator or "")
    if make is None or (make is _kept and _cuts_off(op)):
        return None
    given = [size_of(item, defined, names) for item in op.operands.values()]
    if any(item is None for item in given):
        return None
    made = make(*given)
    return None if made is None else simplified(made)


def trips(start: Size, stop: Size, step: int) -> Size:
    """How often a loop runs."""
    return simplified(Trips(start, stop, step))


def _is_integer(value: Value) -> bool:
    return not isinstance(value.type, ArrayType) and value.type.dtype.is_integer and value.type.dtype.bits >= 32


def _kept(a: Size) -> Size:
    return a


def _cuts_off(op: Op) -> bool:
    """Whether what an op gives may not hold what it is given."""
    types = [value.type.dtype for value in (*op.inputs(), op.results[0])]
    return any(not types[-1].holds(limit) for type in types[:-1] for limit in type.limits)


def _floored(a: Size, b: Size) -> Size | None:
    if not isinstance(b, int) or b == 0:
        return None
    return FloorDiv(a, b) if b > 0 else FloorDiv(Difference(0, a), -b)


def _truncated(a: Size, b: Size) -> Size | None:
    """Rounded towards zero."""
    if not isinstance(b, int) or b == 0:
        return None
    a, b = (a, b) if b > 0 else (Difference(0, a), -b)
    return Sum(Max(FloorDiv(a, b), 0), Min(CeilDiv(a, b), 0))


def _length(start: Size, stop: Size, step: Size) -> Size | None:
    return Trips(start, stop, step) if isinstance(step, int) and step else None


_MEANINGS: dict[str, Callable[..., Size | None]] = {
    "+": Sum,
    "-": Difference,
    "*": Product,
    "//": _floored,
    "/": _truncated,
    "neg": lambda a: Difference(0, a),
    "min": Min,
    "max": Max,
    "cast": _kept,
    "range length": _length,
}
"""By the Python operator that an op means."""
