"""New tiles from constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.codegen.checks import require
from tilekit.codegen.text import literal
from tilekit.errors import KernelValueError, UninitializedError
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.operands import DTypeLike, Shape, usual
from tilekit.ir.types import DType, ScalarType, TileType, as_dtype, float32

__all__ = ["tile_empty", "tile_ones", "tile_zeros"]
GROUP = "Tile construction"


def check_storage(storage: str, name: str) -> None:
    """Check a storage hint.

    Raises:
        KernelValueError: it is none of the known ones.
    """
    if storage not in ("register", "shared"):
        raise KernelValueError(f"{name}: storage must be 'register' or 'shared', got {storage!r}")


def check_shape(shape: tuple[int, ...], name: str) -> None:
    """Check that a shape has elements.

    Raises:
        KernelValueError: an extent is zero.
    """
    if 0 in shape:
        raise KernelValueError(f"{name} needs extents of at least 1, got the shape {shape}")


@builtin(group=GROUP, operator="full", cooperative=True, by_element=True, fills="value")
def tile_full(shape: Shape, value: Scalar, dtype: DTypeLike = None, storage: str = "register") -> Tile:  # type: ignore[assignment]
    """A tile with every element the same.

    Args:
        shape: Its shape, a compile-time constant.
        value: The element, run time or constant.
        dtype: Its dtype, to which ``value`` is converted; by default that of ``value``.
        storage: A hint, ``"register"`` or ``"shared"``; without meaning on the CPU.

    Returns:
        A new tile.

    Raises:
        KernelTypeError: ``shape`` is not a compile-time constant.
        KernelValueError: an extent is not positive, ``storage`` is unknown, or a constant does not fit ``dtype``.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_full(shape=(1, 3), value=7, dtype=int)
        tile<1x3xi32>
        [[7 7 7]]
    """


@tile_full.arguments
def _full_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A number converted to the dtype that is asked for: that drops a fraction, as where it is known at run time."""
    value, dtype = (args[i] if len(args) > i else kwargs.get(name) for i, name in enumerate(("value", "dtype"), 1))
    if isinstance(value, float) and dtype is not None and as_dtype(dtype).is_integer:
        value = as_dtype(dtype)(value)
        args, kwargs = ((args[0], value, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "value": value})
    return args, kwargs


@tile_full.coerce
def _full_coerce(value: ScalarType, dtype: DType | None) -> dict[str, ScalarType]:
    return {"value": ScalarType(dtype or usual(value).dtype)}


@tile_full.result
def _full_result(shape: tuple[int, ...], value: ScalarType, storage: str) -> TileType:
    check_shape(shape, "a tile")
    check_storage(storage, "a tile")
    return TileType(value.dtype, shape)


@tile_full.reference
def _full_reference(shape: tuple[int, ...], value: Any) -> Any:
    return np.full(shape, value)


@tile_full.emit
def _full_emit(cx: Any, results: Any, value: str) -> None:
    tile = cx.tile(results[0])
    with cx.each_element(tile) as index:
        cx.line(f"{tile.at(index)} = {value};")


@tile_full.adjoint
def _full_adjoint(cx: Any, grad: Any) -> dict[str, Any]:
    return {"value": lambda: cx.sum(grad)}


def tile_zeros(shape: Any, dtype: Any = float32, storage: str = "register") -> Tile:
    """A tile of zeros.

    Args:
        shape: Its shape, a compile-time constant.
        dtype: Its dtype.
        storage: A hint, ``"register"`` or ``"shared"``; without meaning on the CPU.

    Returns:
        A new tile.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_zeros(shape=(1, 3))
        tile<1x3xf32>
        [[0. 0. 0.]]
    """
    return tile_full(shape, 0, dtype, storage)  # type: ignore[no-any-return]


def tile_ones(shape: Any, dtype: Any = float32, storage: str = "register") -> Tile:
    """A tile of ones.

    Args:
        shape: Its shape, a compile-time constant.
        dtype: Its dtype.
        storage: A hint, ``"register"`` or ``"shared"``; without meaning on the CPU.

    Returns:
        A new tile.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_ones(shape=2, dtype=tk.float64)
        tile<2xf64>
        [1. 1.]
    """
    return tile_full(shape, 1, dtype, storage)  # type: ignore[no-any-return]


@builtin(operator="undefined", cooperative=True, by_element=True)
def undefined_tile(shape: Shape, dtype: DTypeLike) -> Tile:
    """What stands for a tile on a path where there is none; no path reads it."""


@builtin(cooperative=True, uninitialized=True, by_element=True)
def uninitialized_tile(shape: Shape, dtype: DTypeLike, storage: str = "register") -> Tile:
    """A tile to be written before it is read. Its elements are ``poison`` where that can be seen."""


@undefined_tile.result
@uninitialized_tile.result
def _empty_result(shape: tuple[int, ...], dtype: DType) -> TileType:
    check_shape(shape, "tile_empty")
    return TileType(dtype, shape)


@undefined_tile.reference
@uninitialized_tile.reference
def _empty_reference(shape: tuple[int, ...], dtype: DType) -> Any:
    return np.full(shape, poison(dtype), dtype.numpy)


@undefined_tile.emit
def _undefined_emit(cx: Any, results: Any) -> None:
    cx.tile(results[0])


@uninitialized_tile.emit
def _empty_emit(cx: Any, results: Any, dtype: DType) -> None:
    tile = cx.tile(results[0])
    if cx.target.checked:
        with cx.each_element(tile) as index:
            cx.line(f"{tile.at(index)} = {literal(poison(dtype), dtype)};")


def poison(dtype: DType) -> Any:
    """What is read where nothing was written: NaN, or bytes 0xcd."""
    if dtype.is_float:
        return float("nan")
    return dtype.kind == "b" or int.from_bytes(b"\xcd" * dtype.itemsize, "little", signed=dtype.kind == "i")


@builtin(operator="unread", side_effect=True)
def check_unread(factor: Scalar, text: str) -> None:
    """An error where a factor of something that holds nothing yet is not zero."""


@check_unread.result
def _unread_result(factor: ScalarType) -> None:
    return None


@check_unread.reference
def _unread_reference(factor: Any, text: str) -> None:
    if factor != 0:
        raise UninitializedError(text)


@check_unread.emit
def _unread_emit(cx: Any, factor: str, text: str) -> None:
    require(cx, f"{factor} == 0", text, "kUninitializedError")


def tile_empty(shape: Any, dtype: Any = float32, storage: str = "register") -> Tile:
    """A tile whose elements are not set yet.

    Args:
        shape: Its shape, a compile-time constant.
        dtype: Its dtype.
        storage: A hint, ``"register"`` or ``"shared"``; without meaning on the CPU.

    Returns:
        A new tile. Reading it where no write can have reached it is an error (``UninitializedError``). Where only some
        paths write it, ``tk.config.checked`` fills it with NaN, or with bytes 0xcd, first.

    Raises:
        KernelValueError: an extent is not positive, or ``storage`` is unknown.

    Example:
        >>> import tilekit as tk
        >>> t = tk.tile_empty(shape=2)
        >>> t[0] = 1.0
        >>> t[1] = 2.0
        >>> t
        tile<2xf32>
        [1. 2.]
    """
    check_storage(storage, "tile_empty()")
    tile: Tile = uninitialized_tile(shape, dtype, storage)
    tile.written = False
    return tile
