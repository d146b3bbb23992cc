"""Products in place whose accumulator shares elements with an operand."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.codegen.checks import require
from tilekit.errors import KernelValueError
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.operands import known_number
from tilekit.ir.types import ScalarType

Ranges = tuple[tuple[int, int], ...]


@builtin(side_effect=True)
def check_apart(out: Scalar, operand: Scalar, ranges: Ranges, text: str) -> None:
    """In checked mode, an error where ``out - operand`` lies in one of the ranges."""


@check_apart.result
def _result(out: ScalarType, operand: ScalarType) -> None:
    return None


@check_apart.reference
def _reference(out: Any, operand: Any, ranges: Ranges, text: str) -> None:
    distance = int(out) - int(operand)
    if any(low <= distance <= high for low, high in ranges):
        raise KernelValueError(text)


@check_apart.emit
def _emit(cx: Any, out: str, operand: str, ranges: Ranges, text: str) -> None:
    if not cx.target.checked:
        return
    distance = cx.fresh()
    cx.line(f"const tk::i64 {distance} = (tk::i64){out} - (tk::i64){operand};")
    meets = " || ".join(f"({distance} >= {low} && {distance} <= {high})" for low, high in ranges)
    require(cx, f"!({meets})", text, "kValueError")


def require_apart(out: Tile, operand: Tile, name: str) -> None:
    """Refuse an accumulator that shares elements with an operand.

    Where run-time offsets decide, they are compared in checked mode; otherwise the operands are read first.

    Raises:
        KernelValueError: it surely does.
    """
    made = _common_tile(out, operand)
    if made is None:
        return
    text = (
        f"tile_matmul(): out overlaps {name}: both are parts of {made}; "
        "multiply into another tile, or use the form that gives a new one, t = tk.tile_matmul(a, b)"
    )
    here, there = _start(out), _start(operand)
    if here is not None and there is not None:
        if operand.view_map.meets(out.view_map, here - there):
            raise KernelValueError(text)
    elif _same_offset(out, operand):
        if operand.view_map.meets(out.view_map):
            raise KernelValueError(text)
    elif ranges := operand.view_map.distances(out.view_map):
        check_apart(_or_zero(out), _or_zero(operand), tuple(ranges), text)


def _common_tile(out: Tile, operand: Tile) -> str | None:
    """What both are parts of, as errors name it; None where they are not."""
    if out.base is not operand.base:
        return None
    return f"the tile made at {f'line {out.made_at.line}' if out.made_at is not None else 'one place'}"


def _start(t: Tile) -> int | None:
    """The offset of a view, where it is known now."""
    if t.view_offset is None:
        return 0
    number = known_number(t.view_offset)
    return None if number is None else int(number)


def _same_offset(a: Tile, b: Tile) -> bool:
    first, second = a.view_offset, b.view_offset
    return isinstance(first, Scalar) and isinstance(second, Scalar) and first.datum is second.datum


def _or_zero(t: Tile) -> Any:
    return 0 if t.view_offset is None else t.view_offset


def refuse_shifted(out: Tile, operand: Tile, what: str) -> None:
    """Refuse a destination that shares some elements with a source, but not each with the same one.

    Where run-time offsets decide, they are compared in checked mode; otherwise the source is read first.

    Raises:
        KernelValueError: it surely does.
    """
    made = _common_tile(out, operand)
    if made is None:
        return
    text = (
        f"{what} overlap, but are not the same elements of {made}: a repeat would read what another "
        "one has written; copy the source first, tk.tile_astype(t, t.dtype)"
    )
    first, second = _start(out), _start(operand)
    known = first is not None and second is not None
    if known or _same_offset(out, operand):
        here, there = out.places() + (first or 0), operand.places() + (second or 0)
        if not np.array_equal(here, there) and np.intersect1d(here, there).size:
            raise KernelValueError(text)
    elif out.shape == operand.shape and (ranges := _without_zero(operand.view_map.distances(out.view_map))):
        check_apart(_or_zero(out), _or_zero(operand), ranges, text)


def _without_zero(ranges: list[tuple[int, int]]) -> Ranges:
    """The distances at which views of one shape share elements and are not the same."""
    parts = [part for low, high in ranges for part in ((low, min(high, -1)), (max(low, 1), high))]
    return tuple((low, high) for low, high in parts if low <= high)
