"""The bits of tiles under another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.builtins.view_shapes import require_tile
from tilekit.codegen.refs import TileRef
from tilekit.codegen.text import cpp_type
from tilekit.errors import KernelTypeError, KernelValueError, TilekitError
from tilekit.ir.bit_views import BitsTile
from tilekit.ir.builtin import builtin
from tilekit.ir.context import fail
from tilekit.ir.handles import Tile
from tilekit.ir.interpret import from_memory, to_memory
from tilekit.ir.operands import DTypeLike, Shape
from tilekit.ir.types import DType, TileType, as_dtype, bfloat16, bool_
from tilekit.ir.views import ViewMap

__all__ = ["tile_bitcast"]
GROUP = "Tile views"


@builtin(operator="bits", view=True, puns=True)
def bits_of(t: Tile, dtype: DTypeLike, shape: Shape, given: DTypeLike) -> Tile:
    """The elements of a tile, one after the other, read as elements of another dtype; ``given`` is what they are."""


@bits_of.result
def _result(t: TileType, dtype: DType, shape: tuple[int, ...]) -> TileType:
    found = TileType(dtype, shape)
    if found.size * dtype.itemsize != t.size * t.dtype.itemsize:
        raise KernelValueError(f"the bits of a {t} cannot be read as a {found}, which has another number of bits")
    return found


@bits_of.reference
def _reference(t: Any, dtype: DType, shape: tuple[int, ...], given: DType) -> Any:
    bits = np.dtype(f"u{given.itemsize}")
    memory = np.ascontiguousarray(to_memory(t, given, bits) if given is bfloat16 else t)
    held = np.dtype(np.uint16) if dtype is bfloat16 else dtype.numpy
    return from_memory(memory.view(held).reshape(shape), dtype)


@bits_of.emit
def _emit(cx: Any, results: Any, t: Any, dtype: DType, shape: tuple[int, ...]) -> None:
    type = TileType(dtype, shape)
    cx.tiles[results[0]] = TileRef(f"(({cpp_type(dtype)}*){t.pointer})", type, ViewMap.identity(shape), t.buffer)


@bits_of.ignores
def _ignores() -> tuple[str, ...]:
    return ("t",)  # a view of an unwritten tile is unwritten too


bits_of.has_no_adjoint("it reads the bits of numbers as other numbers")


def tile_bitcast(t: Tile, dtype: Any) -> Tile:
    """The bits of a tile under another dtype, as a view.

    Args:
        t: The tile.
        dtype: The dtype. A wider one takes neighbours of the last axis together, the first in the lowest bits; a
            narrower one takes elements apart.

    Returns:
        A view of that dtype: writing to it writes to ``t``. Its last extent is as many times smaller as ``dtype`` is
        wider, or larger as it is narrower.

    Raises:
        KernelTypeError: ``t`` or ``dtype`` is bool, which holds only 0 or 1.
        KernelValueError: the last extent is no multiple of the neighbours that go together.

    Example:
        >>> import tilekit as tk
        >>> t = tk.tile_ones(shape=(2, 2), dtype=tk.float16)
        >>> packed = tk.tile_bitcast(t, tk.uint32)
        >>> packed
        tile<2x1xu32>
        [[1006648320]
         [1006648320]]
        >>> packed[0, 0] = tk.pack2(2.0, 3.0, tk.float16)
        >>> t
        tile<2x2xf16>
        [[2. 3.]
         [1. 1.]]
    """
    require_tile(t, "tile_bitcast")
    try:
        wanted = as_dtype(dtype)
        if bool_ in (wanted, t.dtype):
            raise KernelTypeError(
                f"tile_bitcast(): a bool holds only 0 or 1, so its bits cannot be reinterpreted; t is a {t.type}"
            )
        return BitsTile.of(t, wanted, _shape(t, wanted))
    except TilekitError as error:
        raise fail(error) from None


def _shape(t: Tile, dtype: DType) -> tuple[int, ...]:
    if dtype.itemsize == t.dtype.itemsize:
        return t.shape
    last = (t.shape or (1,))[-1] * t.dtype.itemsize
    if last % dtype.itemsize or not t.shape:
        raise KernelValueError(
            f"tile_bitcast(): {dtype.itemsize // t.dtype.itemsize} neighbours of the last axis make one {dtype.name}, "
            f"but t is a {t.type}"
        )
    return (*t.shape[:-1], last // dtype.itemsize)
