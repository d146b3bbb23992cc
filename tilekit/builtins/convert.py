"""Conversion between dtypes."""

from __future__ import annotations

from typing import Any

from tilekit.ir.builtin import builtin
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.interpret import conform
from tilekit.ir.operands import DTypeLike
from tilekit.ir.types import DType, ScalarType, set_convert_hook, to_numpy_scalar

GROUP = "Conversion"


@builtin(group=GROUP, operator="cast", elementwise=True)
def cast(x: Scalar | Tile, dtype: DTypeLike) -> Scalar | Tile:
    """Convert a number or a tile to another dtype: floats truncate to integers, integers wrap.

    Example:
        >>> import tilekit as tk
        >>> tk.cast(tk.float32(2.75), int)
        2
    """


@cast.result
def _result(x: ScalarType, dtype: DType) -> ScalarType:
    return ScalarType(dtype)


@cast.reference
def _reference(x: Any, dtype: DType, types: Any) -> Any:
    return conform(x, ScalarType(dtype))


@cast.emit
def _emit(cx: Any, x: str, dtype: DType) -> str:
    return f"tk::cast<{cx.scalar(ScalarType(dtype))}>({x})"


@cast.adjoint
def _adjoint(grad: Any) -> dict[str, Any]:
    return {"x": grad}


def convert(value: Any, dtype: DType) -> Any:
    """What ``tk.float32(x)`` does: a cast in a kernel, a NumPy scalar elsewhere."""
    if isinstance(value, Scalar | Tile):
        return cast(value, dtype)
    return to_numpy_scalar(value, dtype)


set_convert_hook(convert)
