"""``t[i, j]``, ``t[2:6, ::-1]`` and writing to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilekit.builtins.array_elements import by_name
from tilekit.builtins.assign import write_tile
from tilekit.builtins.updates import UPDATES
from tilekit.builtins.view_shapes import require_tile, start_on_axis, sub_view
from tilekit.builtins.views import element
from tilekit.errors import KernelIndexError, KernelTypeError, KernelValueError, TilekitError, counted
from tilekit.ir.context import fail
from tilekit.ir.handles import OPERATORS, Scalar, Tile, in_place
from tilekit.ir.operands import describe, one_element
from tilekit.ir.views import dense_strides

__all__ = ["tile_extract"]
GROUP = "Tile views"


def _entries(t: Tile, index: Any) -> list[Any]:
    """One integer or slice for each axis, and None where one of extent 1 is added."""
    entries = list(index) if isinstance(index, tuple | list) else [index]
    dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    given = len(entries) - len(dots) - sum(entry is None for entry in entries)
    if len(dots) > 1:
        raise KernelIndexError("an index can have one '...' only")
    if given > t.ndim:
        raise KernelIndexError(f"{counted(given, 'index')} for a {t.type}, which has {counted(t.ndim, 'axis')}")
    missing = [slice(None)] * (t.ndim - given)
    at = dots[0] if dots else len(entries)
    return [*entries[:at], *missing, *entries[at + 1 :]]


def _slice(t: Tile, axis: int, wanted: slice) -> tuple[int, int, int]:
    """Start, count and step of a slice of an axis."""
    for bound in (wanted.start, wanted.stop, wanted.step):
        if isinstance(bound, Scalar):
            raise KernelTypeError(
                "the bounds of a slice must be compile-time constants, as a tile's shape is; "
                "use tk.tile_view(t, offset, shape) for a part that begins at a run-time index"
            )
        if bound is not None and not hasattr(bound, "__index__"):
            raise KernelTypeError(f"the bounds of a slice must be integers, got {describe(bound)}")
    if wanted.step is not None and not wanted.step:
        raise KernelValueError("the step of a slice must not be zero")
    picked = range(t.shape[axis])[wanted]
    if not picked:
        raise KernelValueError(f"the slice of axis {axis} of a {t.type} is empty; tiles have at least one element")
    return picked.start, len(picked), picked.step


def part_of(t: Tile, index: Any) -> Tile:
    """The view that an index names; without axes where it names one element."""
    starts: list[tuple[int, Scalar | None]] = []
    shape, strides = [], []
    axes = iter(enumerate(dense_strides(t.shape)))
    for entry in _entries(t, index):
        if entry is None:
            shape.append(1)
            strides.append(0)
            continue
        axis, dense = next(axes)
        if isinstance(entry, slice):
            start, count, step = _slice(t, axis, entry)
            starts.append((start, None))
            shape.append(count)
            strides.append(step * dense)
        elif isinstance(entry, Tile):
            raise KernelTypeError(f"{describe(entry)} cannot index a {t.type}; use integers and slices")
        else:
            starts.append(start_on_axis(t, axis, entry, 1, wrap=True))
    return sub_view(t, starts, shape, strides)


def read_index(t: Tile, index: Any) -> Any:
    """``t[index]``: an element where every axis has an integer, else a view."""
    try:
        part = part_of(t, index)
        return element(part) if not part.shape else part
    except TilekitError as error:
        raise fail(error) from None


def write_index(t: Tile, index: Any, value: Any) -> None:
    """``t[index] = value``: a number to every element that the index names, or a tile of their shape."""
    try:
        part = part_of(t, index)
        if not isinstance(value, Tile):
            part.fill(value)
        elif value.shape != part.shape:
            remedy = f"; {one_element(value)}" if part.shape == () and one_element(value) else ""
            raise KernelValueError(
                f"cannot write a {value.type} to the part of shape {part.shape} of a {t.type}{remedy}"
            )
        else:
            write_tile(part, value)
    except TilekitError as error:
        raise fail(error) from None


def _update_in_place(symbol: str) -> Callable[[Tile, Any, Any], None]:
    """``t[index] += value`` and its kin."""

    def call(t: Tile, index: Any, value: Any) -> None:
        try:
            part = part_of(t, index)
            if part.shape:
                in_place(symbol)(part, value)
            else:
                part.update(symbol, value)
        except TilekitError as error:
            raise fail(error) from None

    return call


OPERATORS["tile[]"] = read_index
OPERATORS["tile[]="] = write_index
OPERATORS.update({f"tile[]{symbol}=": _update_in_place(symbol) for symbol in UPDATES})


def tile_extract(a: Tile, *index: Any, **named: Any) -> Any:
    """One element of a tile; ``a[i, j]`` is the same.

    Args:
        a: The tile.
        index: An integer for each axis (keywords ``i``, ``j``, ...), constant or run time; negative ones count from the
            end.

    Returns:
        A number of ``a``'s dtype.

    Raises:
        KernelIndexError: there are more or fewer integers than axes, or one is outside its axis; where it is known at
            run time only, raised then.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_extract(tk.tile_arange(4, dtype=int), 2)
        2
    """
    require_tile(a, "tile_extract", "a")
    try:
        found = tuple(by_name("tile_extract", a, index, named, ())) if named else index
        if len(found) != a.ndim or any(isinstance(entry, slice) or entry is Ellipsis for entry in found):
            raise KernelIndexError(f"tile_extract() needs {a.ndim} integers for a {a.type}, got {len(found)}")
    except TilekitError as error:
        raise fail(error) from None
    return read_index(a, found)
