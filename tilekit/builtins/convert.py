"""Conversion between dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import OPERATORS, Scalar, Tile
from tilekit.ir.interpret import conform
from tilekit.ir.operands import DTypeLike
from tilekit.ir.types import DType, ScalarType, bool_, float32, int32, set_convert_hook, to_numpy_scalar

GROUP = "Conversion"


@builtin(group=GROUP, operator="cast", elementwise=True)
def cast(x: Scalar | Tile, dtype: DTypeLike) -> Scalar | Tile:
    """Convert a number or a tile to another dtype: floats truncate to integers and saturate, integers wrap.

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


def convert(value: Any, dtype: DType) -> Any:
    """What ``tk.float32(x)`` does: a cast in a kernel, a NumPy scalar elsewhere."""
    if isinstance(value, Scalar | Tile):
        return cast(value, dtype)
    return to_numpy_scalar(value, dtype)


set_convert_hook(convert)


def _python(kind: type, dtype: DType) -> Callable[..., Any]:
    """``int(x)``, ``float(x)`` or ``bool(x)`` in a kernel: a conversion of run-time values, else Python's."""

    def call(*args: Any, **named: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Tile):
            raise KernelTypeError(f"{kind.__name__}() is for numbers; use tk.tile_astype(t, {kind.__name__})")
        if len(args) == 1 and not named and isinstance(args[0], Scalar):
            return cast(args[0], dtype)
        return kind(*args, **named)

    return call


for _kind, _dtype in ((int, int32), (float, float32), (bool, bool_)):
    OPERATORS[f"call.{_kind.__name__}"] = _python(_kind, _dtype)
