"""Tiles that take a product or a loop to compute."""

from __future__ import annotations

from collections.abc import Iterator

from tilekit.ir.core import Block, Function, Op, Value, walk
from tilekit.ir.regions import carried_params, region_of
from tilekit.ir.types import TileType


def heavy_tiles(fn: Function) -> Iterator[tuple[Value, str]]:
    """Those of floats that products, loops, or calls and branches with such inside give in the outermost block, and
    what the kernel calls them; empty where it does not."""
    for op in fn.body.ops:
        if any(map(_is_heavy, walk(Block((), (op,))))):
            inside = [param.hint for param in carried_params(op)] if op.blocks else []
            for number, value in enumerate(op.results):
                if isinstance(value.type, TileType) and value.type.dtype.is_float:
                    yield value, value.hint or (inside[number] if number < len(inside) else "")


def _is_heavy(op: Op) -> bool:
    if op.builtin.contraction:
        return True
    return bool(op.blocks) and region_of(op).runs == "loop" and region_of(op).carries
