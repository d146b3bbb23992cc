"""Decide which tiles threads hold in registers: those that are only read and written element by element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilekit.codegen.layout import Blocked
from tilekit.codegen.target import Target
from tilekit.ir.core import Function, Op, Value, walk
from tilekit.ir.types import ArrayType, TileType
from tilekit.passes.assign_storage import must_share

VECTOR_BYTES = 16
"""The widest load and store of a thread."""
MOST_BYTES = 256
"""Of a tile in one thread's registers, of which it has 255 of four bytes."""


def assign_layouts(fn: Function, target: Target) -> Mapping[Value, Blocked]:
    """The layout of each tile that lies in registers; all others lie in memory that the block's threads share."""
    if target.is_cpu:
        return {}
    ops = list(walk(fn.body))
    itemsize = _widest(ops)
    layouts: dict[Value, Blocked | None] = {}
    for op in ops:
        for value in (*op.inputs(), *op.results, *(p for block in op.blocks for p in block.params)):
            type = value.type
            if isinstance(type, TileType) and not (op.builtin.by_element and type.shape):
                layouts[value] = None
            elif isinstance(type, TileType):
                layouts.setdefault(value, _layout(type, target.threads, itemsize))
    changed = True
    while changed:  # what shares a place has one layout
        changed = False
        for op in ops:
            for a, b in must_share(op):
                if layouts.get(a) != layouts.get(b):
                    layouts[a] = layouts[b] = None
                    changed = True
    return {value: layout for value, layout in layouts.items() if layout is not None}


def _widest(ops: Iterable[Op]) -> int:
    """Bytes of the largest elements that move between arrays and registers."""
    sizes = [
        value.type.dtype.itemsize
        for op in ops
        if op.builtin.by_element
        for value in op.inputs()
        if isinstance(value.type, ArrayType)
    ]
    return max(sizes, default=VECTOR_BYTES)


def _layout(type: TileType, threads: int, itemsize: int) -> Blocked | None:
    vector = VECTOR_BYTES // itemsize
    while type.shape[-1] % vector:
        vector //= 2
    found = Blocked(type.size, threads, vector)
    return found if found.registers * max(type.dtype.itemsize, 4) <= MOST_BYTES else None
