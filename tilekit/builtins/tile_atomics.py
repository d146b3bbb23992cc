"""Atomic updates of arrays by whole tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.builtins.memory import GROUP, emitted_offset, full_offset, windows
from tilekit.codegen.layouts import OpaqueLayout
from tilekit.codegen.register_memory import add_registers
from tilekit.errors import KernelTypeError, KernelValueError, counted
from tilekit.ir.builtin import REGISTRY, builtin
from tilekit.ir.handles import OPERATORS, Array, Tile
from tilekit.ir.interpret import conform_elements, from_memory, to_memory
from tilekit.ir.operands import Index
from tilekit.ir.types import ArrayType, TileType, as_dtype, bfloat16


@builtin(group=GROUP, atomics=("a",), unused="tile_add_to", cooperative=True, by_element=True)
def tile_atomic_add(
    a: Array,
    t: Tile,
    offset: Index | None = None,
    bounds_check: bool = True,
) -> Tile:
    """Add a tile to a part of an array, each element atomically.

    Args:
        a: The array, of 1 to 4 dimensions.
        t: The tile, of ``a``'s dtype and with as many axes; 16-bit floats are added in float32 and rounded once.
        offset: Index in ``a`` of the tile's first element, run time or constant, of any sign; 0 by default.
        bounds_check: Accepted for Warp's sake; elements outside ``a`` are dropped in any case.

    Returns:
        A new tile with the elements of ``a`` as they were before, zero outside ``a``. On the CPU, kernels that add
        floats atomically or use this tile run their blocks in order, so that results are the same every time.

    Raises:
        KernelTypeError: the dtypes differ, or are bool.
        KernelValueError: the numbers of dimensions differ.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> total = np.ones(4, np.float32)
        >>> tk.tile_atomic_add(total, tk.tile_full(3, 2.0), offset=2)
        tile<3xf32>
        [1. 1. 0.]
        >>> total
        array([1., 1., 3., 3.], dtype=float32)
    """


@tile_atomic_add.result
def _result(a: ArrayType, t: TileType, offset: tuple[Any, ...]) -> TileType:
    if t.dtype != a.dtype:
        remedy = f"tk.tile_astype(t, tk.{a.dtype.name})"
        raise KernelTypeError(f"tile_atomic_add(): t is a {t} but the array holds {a.dtype.name}; use {remedy}")
    if a.dtype.kind == "b":
        raise KernelTypeError("tile_atomic_add(): bools cannot be added; use an integer array")
    if len(t.shape) != a.ndim:
        raise KernelValueError(f"tile_atomic_add(): a {t} does not fit an {a}; it needs {counted(a.ndim, 'axis')}")
    full_offset(offset, a.ndim, "tile_atomic_add()")
    return t


@tile_atomic_add.reference
def _reference(a: Any, t: Any, offset: tuple[Any, ...], types: Any) -> Any:
    (type,) = types
    inside, part = windows(a, t.shape, offset)
    old = np.zeros(t.shape, type.dtype.numpy)
    old[part] = from_memory(a[inside], type.dtype)
    a[inside] = to_memory(conform_elements(old[part] + t[part], type.dtype), type.dtype, a.dtype)
    return old


@tile_atomic_add.adds
def _adds() -> str:
    return "t"


@tile_atomic_add.alone
def _alone(a: Array, t: Tile, offset: Any) -> Any:
    old = REGISTRY["tile_load"](a, t.shape, offset)
    REGISTRY["tile_store"](a, OPERATORS["+"](old, t), offset)
    return old


@tile_atomic_add.emit
def _emit(cx: Any, results: Any, a: str, t: Any, offset: tuple[str, ...], types: Any) -> None:
    old = cx.tile(results[0])
    starts = [cx.fresh("at") for _ in t.shape]
    with cx.braces():
        for start, value in zip(starts, emitted_offset(offset, types["offset"], len(t.shape)), strict=True):
            cx.line(f"const tk::i64 {start} = {value};")
        with cx.each_element(t) as index:
            places = [f"((tk::u64){start} + {i})" for start, i in zip(starts, index, strict=True)]
            inside = " && ".join(f"{place} < (tk::u64){a}.shape[{axis}]" for axis, place in enumerate(places))
            steps = "".join(f" + {place} * (tk::u64){a}.stride[{axis}]" for axis, place in enumerate(places))
            address = f"({t.element}*)((tk::u64){a}.data{steps})"
            cx.line(f"{old.at(index)} = {inside} ? tk::atomic_add({address}, {t.at(index)}) : {t.element}{{}};")


@tile_atomic_add.adjoint
def _adjoint(cx: Any, value: Any) -> dict[str, Any]:
    if cx.flows():
        raise cx.refuse("what it returns depends on the order in which blocks run")
    a, offset = cx.array("a"), value("offset")
    return {"t": lambda: cx.widen(REGISTRY["tile_load"](a, cx.zeros("t").shape, offset))}


@builtin(late=True, atomics=("a",), cooperative=True, by_element=True)
def tile_add_to(a: Array, t: Tile, offset: Index, bounds_check: bool = True) -> None:
    """``tile_atomic_add`` whose old elements nothing needs: neighbours are added together where the GPU can."""


@tile_add_to.result
def _add_result(a: ArrayType, t: TileType, offset: tuple[Any, ...]) -> None:
    _result(a, t, offset)


@tile_add_to.reference
def _add_reference(a: Any, t: Any, offset: tuple[Any, ...]) -> None:
    bits = a.dtype.itemsize == 2 and t.dtype == np.float32
    _reference(a, t, offset, (TileType(bfloat16 if bits else as_dtype(t.dtype), t.shape),))


@tile_add_to.emit
def _add_emit(cx: Any, a: str, t: Any, offset: tuple[str, ...], types: Any) -> None:
    dims, held = ", ".join(map(str, t.shape)), t.layout
    with cx.braces():
        cx.line(f"const tk::i64 at[] = {{{', '.join(emitted_offset(offset, types['offset'], len(t.shape)))}}};")
        if isinstance(held, OpaqueLayout):
            cx.line(f"tk::add_unit<{cx.layout_name(held)}>({t.pointer}, {a}, at);")
        elif held is not None:
            add_registers(cx, t, "a", "offset")
        else:
            cx.line(f"const tk::i64 steps[] = {{{', '.join(map(str, t.strides))}}};")
            cx.line(f"tk::tile_atomic_add<{t.element}, {dims}>(team, {t.pointer}, steps, {a}, at);")
