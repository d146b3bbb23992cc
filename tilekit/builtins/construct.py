"""New tiles from constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.errors import KernelValueError
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.operands import DTypeLike, Shape
from tilekit.ir.types import DType, ScalarType, TileType, float32

__all__ = ["tile_ones", "tile_zeros"]
GROUP = "Tile construction"


def check_storage(storage: str, name: str) -> None:
    if storage not in ("register", "shared"):
        raise KernelValueError(f"{name}: storage must be 'register' or 'shared', got {storage!r}")


@builtin(group=GROUP, operator="full", cooperative=True)
def tile_full(shape: Shape, value: Scalar, dtype: DTypeLike = None, storage: str = "register") -> Tile:  # type: ignore[assignment]
    """A tile with every element the same.

    Args:
        shape: Its shape, a compile-time constant.
        value: The element, run time or constant.
        dtype: Its dtype; by default that of ``value``.
        storage: A hint, ``"register"`` or ``"shared"``; without meaning on the CPU.

    Returns:
        A new tile.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_full(shape=(1, 3), value=7, dtype=int)
        tile<1x3xi32>
        [[7 7 7]]
    """


@tile_full.coerce
def _full_coerce(value: ScalarType, dtype: DType | None) -> dict[str, ScalarType]:
    return {"value": ScalarType(dtype or value.dtype)}


@tile_full.result
def _full_result(shape: tuple[int, ...], value: ScalarType, storage: str) -> TileType:
    check_storage(storage, "tile_full")
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
