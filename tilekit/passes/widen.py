"""The same kernel in float64, to check gradients without float32's rounding in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilekit.errors import VerificationError
from tilekit.ir.core import Block, Const, Function, Op, Value, map_operand, walk
from tilekit.ir.types import DType, Type, float32, float64
from tilekit.ir.verify import verify


def widen(fn: Function) -> Function | None:
    """The function with float64 in place of every float32, or None where it would then mean something else.

    That is so where it computes in 16-bit floats, whose rounding is part of what it computes, and where an op takes
    float32 alone, such as one that reads the bits of a number.
    """
    values = [*fn.params.values(), *(value for op in walk(fn.body) for value in op.results)]
    if any(value.type.dtype.is_float and value.type.dtype.bits < 32 for value in values):
        return None
    widener = _Widener()
    params = {name: widener.value(value) for name, value in fn.params.items()}
    wide = Function(fn.name, params, widener.block(fn.body), fn.location, fn.options)
    try:
        verify(wide)
    except VerificationError:
        return None
    return wide


def wide_dtype(dtype: DType) -> DType:
    """float64 for float32, any other as it is."""
    return float64 if dtype is float32 else dtype


class _Widener:
    def __init__(self) -> None:
        self.known: dict[Value, Value] = {}

    def type(self, type: Type) -> Type:
        return replace(type, dtype=wide_dtype(type.dtype))

    def value(self, value: Value) -> Value:
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = Value(self.type(value.type), value.hint)
        return found

    def item(self, item: Any) -> Any:
        if isinstance(item, Const):
            return replace(item, type=replace(item.type, dtype=wide_dtype(item.type.dtype)))
        return self.value(item)

    def block(self, block: Block) -> Block:
        params = tuple(map(self.value, block.params))
        return Block(params, tuple(map(self.op, block.ops)), tuple(map(self.item, block.results)))

    def op(self, op: Op) -> Op:
        return op.with_(
            operands={name: map_operand(operand, self.item) for name, operand in op.operands.items()},
            attrs={name: self.attribute(op, name, value) for name, value in op.attrs.items()},
            results=tuple(map(self.value, op.results)),
            blocks=tuple(map(self.block, op.blocks)),
        )

    @staticmethod
    def attribute(op: Op, name: str, value: Any) -> Any:
        if name == "precision":  # how float32 factors are rounded, which is no part of what is differentiated
            return op.builtin.defaults[name]
        return wide_dtype(value) if isinstance(value, DType) else value
