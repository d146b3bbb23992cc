"""Conversion between dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError
from tilekit.ir.affine import Affine
from tilekit.ir.builtin import builtin
from tilekit.ir.context import active
from tilekit.ir.float_state import in_ieee_state
from tilekit.ir.handles import OPERATORS, Scalar, Tile
from tilekit.ir.interpret import conform
from tilekit.ir.literals import tracked
from tilekit.ir.operands import DTypeLike
from tilekit.ir.types import (
    DType,
    ScalarType,
    as_dtype,
    bfloat16,
    bool_,
    float32,
    int32,
    set_convert_hook,
    to_numpy_scalar,
)

GROUP = "Conversion"


@builtin(group=GROUP, operator="cast", elementwise=True)
def cast(a: Scalar | Tile, dtype: DTypeLike) -> Scalar | Tile:
    """Convert a number or a tile to another dtype: floats truncate to integers, integers wrap.

    Args:
        a: A number or tile.
        dtype: The dtype. Floats become integers by truncation, the nearest limit beyond their range; anything but zero
            is true.

    Returns:
        A number, or a new tile of that shape.

    Example:
        >>> import tilekit as tk
        >>> tk.cast(tk.float32(2.75), int)
        2
    """


@cast.check
def _check(a: Any, dtype: Any) -> None:
    if isinstance(a, Scalar) and (literals := tracked()) is not None:
        literals.meet(a.datum, as_dtype(dtype), explicit=True)


@cast.result
def _result(a: ScalarType, dtype: DType) -> ScalarType:
    return ScalarType(dtype)


@cast.reference
def _reference(a: Any, dtype: DType) -> Any:
    return a if isinstance(a, Affine) else conform(a, ScalarType(dtype))


@cast.emit
def _emit(cx: Any, a: str, dtype: DType, types: Any) -> str:
    given = types["a"].dtype
    if dtype is float32 and given.is_float and given.bits == 16 and cx.is_quieted(cx.op.results[0]):
        return f"tk::widen({a})"  # a signalling NaN stays one for now
    return f"tk::cast<{cx.scalar(ScalarType(dtype))}>({a})"


@cast.adjoint
def _adjoint(grad: Any) -> dict[str, Any]:
    return {"a": grad}


@in_ieee_state
def convert(value: Any, dtype: DType) -> Any:
    """What ``tk.float32(x)`` does: a cast in a kernel, a NumPy scalar elsewhere."""
    # NumPy has no bfloat16 scalar, so that in a kernel only a handle keeps the dtype of a constant.
    if isinstance(value, Scalar | Tile) or (dtype is bfloat16 and active() is not None):
        return cast(value, dtype)
    return to_numpy_scalar(value, dtype)


set_convert_hook(convert)


def _python(function: Callable[..., Any], dtype: DType) -> Callable[..., Any]:
    """``int(x)``, ``float(x)``, ``bool(x)``: Python's own on literals, else a cast."""

    def call(*args: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Tile):
            name = function.__name__
            raise KernelTypeError(
                f"{name}() of a {args[0].type}: read an element, as in {name}(t[0]), or convert the tile with "
                f"tk.tile_astype(t, tk.{dtype.name})"
            )
        if len(args) == 1 and isinstance(args[0], np.number) and dtype is not bool_:
            return to_numpy_scalar(args[0], dtype)
        return cast(*args, dtype) if len(args) == 1 and isinstance(args[0], Scalar) else function(*args)

    return call


OPERATORS["call.int"] = _python(int, int32)
OPERATORS["call.float"] = _python(float, float32)
OPERATORS["call.bool"] = _python(bool, bool_)
