"""Tiles from and to arrays. Offsets may be negative or past the end: outside the array reads give zero and writes are
dropped."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.builtins.construct import check_shape
from tilekit.codegen.layouts import OpaqueLayout
from tilekit.codegen.register_memory import load_registers, store_registers
from tilekit.codegen.text import signed
from tilekit.errors import KernelTypeError, KernelValueError, counted
from tilekit.ir.builtin import REGISTRY, builtin
from tilekit.ir.handles import OPERATORS, Array, Tile
from tilekit.ir.interpret import from_memory, stored
from tilekit.ir.operands import Index, Shape
from tilekit.ir.types import ArrayType, ScalarType, TileType

GROUP = "Tile memory"


def full_offset(offset: tuple[Any, ...], ndim: int, name: str) -> None:
    """Check that an offset has one entry an axis; a single 0 stands for all."""
    if len(offset) != ndim and not (len(offset) == 1 and ndim > 1):
        raise KernelValueError(
            f"{name}: offset has {counted(len(offset), 'entry')} for an array of {counted(ndim, 'dimension')}"
        )


def spread(offset: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """One entry an axis; a single one is for the first axis, as in Warp."""
    return (*offset, *(0,) * (ndim - len(offset)))


def emitted_offset(offset: tuple[str, ...], types: tuple[ScalarType, ...], ndim: int) -> tuple[str, ...]:
    """One i64 expression an axis."""
    given = (signed(item, type.dtype) for item, type in zip(offset, types, strict=True))
    return tuple(map(str, spread(tuple(given), ndim)))


def _check_shape(a: ArrayType, shape: tuple[int, ...], offset: tuple[Any, ...], name: str) -> None:
    if len(shape) != a.ndim:
        raise KernelValueError(
            f"{name}: a tile of shape {shape} does not fit an {a}; it needs {counted(a.ndim, 'dimension')}"
        )
    full_offset(offset, a.ndim, name)


def windows(array: np.ndarray[Any, Any], shape: tuple[int, ...], offset: tuple[Any, ...]) -> tuple[Any, Any]:
    """The slices of the part of a tile that lies inside the array: of the array, and of the tile."""
    inside, part = [], []
    for start, extent, limit in zip(map(int, spread(offset, array.ndim)), shape, array.shape, strict=True):
        first, last = min(max(start, 0), limit), min(max(start + extent, 0), limit)
        inside.append(slice(first, max(first, last)))
        part.append(slice(first - start, max(first, last) - start) if last > first else slice(0, 0))
    return tuple(inside), tuple(part)


@builtin(group=GROUP, reads=("a",), cooperative=True, by_element=True, for_factors="load_factor")
def tile_load(
    a: Array,
    shape: Shape,
    offset: Index | None = None,
    storage: str = "register",
    bounds_check: bool = True,
    aligned: bool = False,
) -> Tile:
    """Load a tile from an array.

    Args:
        a: The array, of 1 to 4 dimensions.
        shape: The tile's shape, with one extent a dimension of ``a``; a compile-time constant.
        offset: Index in ``a`` of the tile's first element, run time or constant, of any sign; 0 by default.
        storage: A hint, ``"register"`` or ``"shared"``; without meaning on the CPU.
        bounds_check: Accepted for Warp's sake; elements outside ``a`` are zero in any case.
        aligned: Accepted for Warp's sake; alignment is found at launch.

    Returns:
        A new tile of ``a``'s dtype; elements outside ``a`` are zero.

    Raises:
        KernelValueError: ``shape`` or ``offset`` has another number of dimensions than ``a``, or an extent is zero.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> tk.tile_load(np.arange(6.0), shape=4, offset=3)
        tile<4xf64>
        [3. 4. 5. 0.]
    """


@tile_load.result
def _load_result(a: ArrayType, shape: tuple[int, ...], offset: tuple[Any, ...], storage: str) -> TileType:
    if storage not in ("register", "shared"):
        raise KernelValueError(f"tile_load(): storage must be 'register' or 'shared', got {storage!r}")
    check_shape(shape, "tile_load")
    _check_shape(a, shape, offset, "tile_load()")
    return TileType(a.dtype, shape)


@tile_load.reference
def _load_reference(a: Any, shape: tuple[int, ...], offset: tuple[Any, ...], types: Any) -> Any:
    (type,) = types
    tile = np.zeros(shape, type.dtype.numpy)
    inside, part = windows(a, shape, offset)
    tile[part] = from_memory(a[inside], type.dtype)
    return tile


@tile_load.emit
def _load_emit(cx: Any, results: Any, a: str, shape: tuple[int, ...], offset: tuple[str, ...], types: Any) -> None:
    tile = cx.tile(results[0])
    with cx.braces():
        cx.line(f"const tk::i64 at[] = {{{', '.join(emitted_offset(offset, types['offset'], len(shape)))}}};")
        dims = ", ".join(map(str, shape))
        held = tile.layout
        if isinstance(held, OpaqueLayout):
            cx.line(f"tk::load_unit<{cx.layout_name(held)}>({tile.pointer}, {a}, at);")
        elif held is not None:
            load_registers(cx, tile, "a", "offset")
        else:
            cx.line(f"tk::load<{tile.element}, {dims}>(team, {tile.pointer}, {a}, at);")


@tile_load.adjoint
def _load_adjoint(cx: Any, grad: Any, value: Any) -> dict[str, Any]:
    REGISTRY["tile_atomic_add"](cx.array("a"), grad, value("offset"))
    return {}


@builtin(group=GROUP, writes=("a",), cooperative=True, side_effect=True, by_element=True)
def tile_store(
    a: Array,
    t: Tile,
    offset: Index | None = None,
    bounds_check: bool = True,
    aligned: bool = False,
) -> None:
    """Store a tile to an array.

    Args:
        a: The array, of the tile's dtype.
        t: The tile, with as many dimensions as ``a``.
        offset: Index in ``a`` of the tile's first element, run time or constant, of any sign; 0 by default.
        bounds_check: Accepted for Warp's sake; elements outside ``a`` are dropped in any case.
        aligned: Accepted for Warp's sake; alignment is found at launch.

    Raises:
        KernelTypeError: the dtypes differ; cast with ``tile_astype``.
        KernelValueError: the numbers of dimensions differ.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> out = np.zeros(5, np.float32)
        >>> tk.tile_store(out, tk.tile_ones(shape=3), offset=3)
        >>> out
        array([0., 0., 0., 1., 1.], dtype=float32)
    """


@tile_store.result
def _store_result(a: ArrayType, t: TileType, offset: tuple[Any, ...]) -> None:
    if t.dtype != a.dtype:
        raise KernelTypeError(
            f"tile_store(): t is a {t} but the array holds {a.dtype.name}; use tk.tile_astype(t, tk.{a.dtype.name})"
        )
    _check_shape(a, t.shape, offset, "tile_store()")


@tile_store.reference
def _store_reference(a: Any, t: Any, offset: tuple[Any, ...]) -> None:
    inside, part = windows(a, t.shape, offset)
    a[inside] = stored(t[part], a)


@tile_store.emit
def _store_emit(cx: Any, a: str, t: Any, offset: tuple[str, ...], types: Any) -> None:
    with cx.braces():
        cx.line(f"const tk::i64 at[] = {{{', '.join(emitted_offset(offset, types['offset'], len(t.shape)))}}};")
        dims = ", ".join(map(str, t.shape))
        held = t.layout
        if isinstance(held, OpaqueLayout):
            packed = str(cx.packs_of("a", "offset") == (1, True)).lower()
            cx.line(f"tk::store_unit<{cx.layout_name(held)}, {packed}>({t.pointer}, {a}, at);")
        elif held is not None:
            store_registers(cx, t, "a", "offset")
        elif t.dense:
            cx.line(f"tk::store<{t.element}, {dims}>(team, {t.pointer}, {a}, at);")
        else:
            cx.line(f"const tk::i64 steps[] = {{{', '.join(map(str, t.strides))}}};")
            cx.line(f"tk::store_strided<{t.element}, {dims}>(team, {t.pointer}, steps, {a}, at);")


@tile_store.adjoint
def _store_adjoint(cx: Any, value: Any) -> dict[str, Any]:
    a, offset, shape = cx.array("a"), value("offset"), cx.op.operands["t"].type.shape
    grad = tile_load(a, shape, offset)
    # What was there before the store has no effect on what came after.
    tile_store(a, OPERATORS["full"](shape, 0, a.dtype), offset)
    return {"t": cx.widen(grad)}
