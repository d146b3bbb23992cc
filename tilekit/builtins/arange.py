"""Ranges of numbers as tiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilekit.builtins.construct import GROUP as GROUP, check_storage
from tilekit.codegen.text import literal
from tilekit.errors import KernelTypeError, KernelValueError, shown
from tilekit.ir.builtin import builtin
from tilekit.ir.context import fail
from tilekit.ir.handles import Tile
from tilekit.ir.operands import DTypeLike, describe, known_number
from tilekit.ir.types import DType, TileType, as_dtype, float32, to_numpy_scalar

__all__ = ["tile_arange"]
MOST = 1 << 31


@builtin(cooperative=True, by_element=True)
def arange_tile(start: float, step: float, count: int, dtype: DTypeLike, storage: str = "register") -> Tile:
    """Element ``i`` is ``start + i * step``, computed in ``dtype`` (16-bit floats in float32, rounded once)."""


@arange_tile.result
def _result(count: int, dtype: DType) -> TileType:
    return TileType(dtype, (count,))


@arange_tile.reference
def _reference(start: Any, step: Any, count: int, dtype: DType) -> Any:
    wide = _wide(dtype).numpy
    index = np.arange(count).astype(wide)
    return to_numpy_scalar(start, _wide(dtype)) + index * to_numpy_scalar(step, _wide(dtype))


@arange_tile.emit
def _emit(cx: Any, results: Any, start: Any, step: Any, dtype: DType) -> None:
    tile = cx.tile(results[0])
    wide = _wide(dtype)
    with cx.each_element(tile) as index:
        scaled = f"tk::mul(tk::cast<tk::{wide.short}>({index[0]}), {literal(step, wide)})"
        value = f"tk::add({literal(start, wide)}, {scaled})"
        cx.line(f"{tile.at(index)} = tk::cast<{tile.element}>({value});")


def _wide(dtype: DType) -> DType:
    return float32 if dtype.is_float and dtype.bits == 16 else dtype


def tile_arange(*args: Any, dtype: Any = None, storage: str = "register") -> Tile:
    """The numbers from ``start`` to before ``stop`` in steps: ``tile_arange([start,] stop[, step])``.

    Args:
        args: ``stop``, or ``start, stop``, or ``start, stop, step``; compile-time constants. ``start`` is 0 and
            ``step`` 1 where left out.
        dtype: Integer or floating dtype of the tile, float32 by default.
        storage: A hint, ``"register"`` or ``"shared"``; without meaning on the CPU.

    Returns:
        A new tile of shape ``(ceil((stop - start) / step),)``; element ``i`` is ``start + i * step``.

    Raises:
        KernelTypeError: an argument is not a constant, or ``dtype`` is bool.
        KernelValueError: ``step`` is 0, the range is empty, or an argument does not fit ``dtype``.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_arange(2, 11, 3, dtype=int)
        tile<3xi32>
        [2 5 8]
    """
    try:
        return _arange(args, float32 if dtype is None else as_dtype(dtype), storage)
    except (KernelTypeError, KernelValueError) as error:
        raise fail(error) from None


def _arange(args: tuple[Any, ...], dtype: DType, storage: str) -> Tile:
    if not 1 <= len(args) <= 3:
        raise KernelTypeError(f"tile_arange() takes stop, or start and stop, or start, stop and step, got {len(args)}")
    check_storage(storage, "tile_arange()")
    if not (dtype.is_integer or dtype.is_float):
        raise KernelTypeError(f"tile_arange() needs an integer or floating dtype, got {dtype.name}")
    given = (0, *args, 1) if len(args) == 1 else (*args, 1)
    start, stop, step = (
        _bound(name, value, dtype) for name, value in zip(("start", "stop", "step"), given, strict=False)
    )
    if step == 0:
        raise KernelValueError("tile_arange() step must not be zero")
    if start == stop or (start < stop) != (step > 0):
        raise KernelValueError(f"tile_arange() from {start} to {stop} in steps of {step} has no elements")
    if dtype.is_integer:
        count = -((stop - start) // -step)
    else:
        quotient = float(to_numpy_scalar((stop - start) / step, dtype))
        count = max(1, math.ceil(quotient)) if math.isfinite(quotient) else MOST
    if count >= MOST:
        raise KernelValueError(f"tile_arange() from {start} to {stop} in steps of {step} has too many elements")
    return arange_tile(start, step, count, dtype, storage)  # type: ignore[no-any-return]


def _bound(name: str, value: Any, dtype: DType) -> Any:
    """A constant as ``dtype`` represents it."""
    number = known_number(value)
    if number is None or isinstance(number, bool | np.bool_):
        raise KernelTypeError(f"tile_arange() {name} must be a compile-time number, got {describe(value)}")
    number = number.item() if isinstance(number, np.generic) else number
    if dtype.is_float:
        try:
            found = float(to_numpy_scalar(number, dtype))
        except KernelValueError:
            found = math.inf
        if not math.isfinite(found):
            raise KernelValueError(f"tile_arange() {name}={shown(number)} does not fit {dtype.name}")
        return found
    if isinstance(number, float) and not number.is_integer():
        raise KernelValueError(f"tile_arange() {name}={number} has a fraction, which {dtype.name} cannot hold")
    if not dtype.holds(int(number)):
        raise KernelValueError(f"tile_arange() {name}={shown(number)} does not fit {dtype.name}")
    return int(number)
