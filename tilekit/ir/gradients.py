"""What adjoint rules answer with, and the types of gradients."""

from __future__ import annotations

from dataclasses import dataclass

from tilekit.ir.types import ArrayType, DType, ScalarType, TileType, Type, float32, float64


@dataclass(frozen=True)
class NoGradient:
    """An operand's gradient that a rule cannot give; reaching it refuses the differentiation."""

    reason: str


def no_gradient(reason: str) -> NoGradient:
    """What an adjoint rule answers for an operand whose gradient it cannot give.

    Example:
        >>> no_gradient("the order of equal keys is not defined")
        NoGradient(reason='the order of equal keys is not defined')
    """
    return NoGradient(reason)


def gradient_dtype(dtype: DType) -> DType:
    """The dtype that gradients of a dtype are summed in: 16-bit floats use float32."""
    return float64 if dtype is float64 else float32


def gradient_type(type: Type) -> Type:
    """The type of the gradient of a value."""
    dtype = gradient_dtype(type.dtype)
    if isinstance(type, TileType):
        return TileType(dtype, type.shape)
    return ArrayType(dtype, type.ndim) if isinstance(type, ArrayType) else ScalarType(dtype)


def has_gradient(type: Type) -> bool:
    """Whether values of a type can carry a gradient: floats do, integers and conditions do not."""
    return type.dtype.is_float
