"""What an elementwise op gives where its operands are known: a constant, or one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tilekit.errors import TilekitError
from tilekit.ir.core import Const, Op, Value
from tilekit.ir.interpret import HOST, evaluate
from tilekit.ir.types import ScalarType, float32, float64, to_numpy_scalar


def folded(op: Op, operands: Mapping[str, Any]) -> Value | Const | None:
    """The constant or operand that stands for an op's result on every device, bit for bit; None where there is none.

    NaNs are left to the device, whose bits they have. An operation by a neutral element is one that compilers drop.
    """
    known = [isinstance(operand, Const) for operand in operands.values()]
    if not any(known) or not isinstance(op.results[0].type, ScalarType):
        return None
    if not all(known):
        return _neutral(op, operands)
    whole = all(_is_held(operand) for operand in operands.values())
    return _evaluated(op, operands) if whole and not (op.builtin.approximate or op.builtin.may_fail) else None


def _is_held(number: Const) -> bool:
    """Whether a number fits its dtype: a literal that does not is cast whole."""
    return not number.type.dtype.is_integer or number.type.dtype.holds(int(number.value))


def typed(known: Value | Const, type: Any) -> Value | Const:
    """What stands for a value of a type: a number of just that type, not one of a literal's."""
    return Const(ScalarType(type.dtype), known.value) if isinstance(known, Const) else known


def _evaluated(op: Op, operands: Mapping[str, Any]) -> Const | None:
    """The result by the op's ``reference``, on numbers of the dtypes that compiled code has."""
    data = {name: to_numpy_scalar(operand.value, operand.type.dtype) for name, operand in operands.items()}
    type = op.results[0].type
    assert isinstance(type, ScalarType)
    try:
        (found,) = evaluate(op.builtin, data, op.attrs, (type,), (), HOST)
    except TilekitError:  # whatever is wrong is said where it happens
        return None
    number = found.item()
    if math.isnan(number) or to_numpy_scalar(number, type.dtype).tobytes() != found.tobytes():
        return None
    return Const(ScalarType(type.dtype), number)


def _neutral(op: Op, operands: Mapping[str, Any]) -> Value | None:
    """The one operand that is not known, where the other leaves it as it is."""
    if len(operands) != 2 or not op.builtin.units:
        return None
    (name, number), (_, other) = sorted(operands.items(), key=lambda item: not isinstance(item[1], Const))
    unit = op.builtin.units.get(name)
    if unit is None or str(other.type) != str(op.results[0].type) or not _is(number, unit):
        return None
    return other  # type: ignore[no-any-return]


def _is(number: Const, unit: float) -> bool:
    dtype, value = number.type.dtype, number.value
    if dtype.is_integer:
        return value == unit
    exact = dtype in (float32, float64)  # which no compiler converts for the operation
    return exact and value == unit and math.copysign(1, value) == math.copysign(1, unit)
