"""The same kernel in float64, to check gradients without float32's rounding in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilekit.errors import VerificationError
from tilekit.ir.core import Const, Function, Op, Value, walk
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import DType, float32, float64
from tilekit.ir.verify import verify


def widen(fn: Function) -> Function | None:
    """The function with float64 in place of every float32, or None where it would then mean something else.

    That is so where it computes in 16-bit floats, whose rounding is part of what it computes, where an op takes float32
    alone, such as one that reads the bits of a number, and where a function has a gradient of its own, which is
    declared for the dtypes of its arguments.
    """
    if any(getattr(item, "gradient", None) is not None for op in walk(fn.body) for item in op.attrs.values()):
        return None
    values = [*fn.params.values(), *(value for op in walk(fn.body) for value in op.results)]
    if any(value.type.dtype.is_float and value.type.dtype.bits < 32 for value in values):
        return None
    widener = _Widener()
    params = dict(zip(fn.params, widener.define(tuple(fn.params.values())), strict=True))
    wide = replace(fn, params=params, body=widener.block(fn.body))
    try:
        verify(wide)
    except VerificationError:
        return None
    return wide


def wide_dtype(dtype: DType) -> DType:
    """float64 for float32, any other as it is."""
    return float64 if dtype is float32 else dtype


class _Widener(Rewriter):
    """Copies ops with float64 in place of every float32."""

    def __init__(self) -> None:
        super().__init__(fresh=True)

    def define(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        self.known.update((value, Value(_wide_type(value.type), value.hint)) for value in values)
        return tuple(self.known[value] for value in values)

    def look_up(self, item: Any) -> Any:
        return replace(item, type=_wide_type(item.type)) if isinstance(item, Const) else super().look_up(item)

    def rebuilt(self, op: Op, **changes: Any) -> Op:
        attrs = {name: _wide_attribute(op, name, value) for name, value in op.attrs.items()}
        return super().rebuilt(op, attrs=attrs, **changes)


def _wide_type(type: Any) -> Any:
    return replace(type, dtype=wide_dtype(type.dtype))


def _wide_attribute(op: Op, name: str, value: Any) -> Any:
    if name == "precision":  # how float32 factors are rounded, which is no part of what is differentiated
        return op.builtin.defaults[name]
    return wide_dtype(value) if isinstance(value, DType) else value
