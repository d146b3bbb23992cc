"""Decide which tiles threads hold in registers: those that are only read and written element by element."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tilekit.codegen.exchanges import exchanged
from tilekit.codegen.layouts import AnyLayout, Layout
from tilekit.codegen.layouts.cores import in_turn
from tilekit.codegen.target import Target
from tilekit.ir.core import Function, Op, Value, leaves, walk
from tilekit.ir.regions import carried, emitted, emitted_params
from tilekit.ir.types import ArrayType, TileType
from tilekit.passes.assign_storage import must_share

VECTOR_BYTES = 16
"""The widest load and store of a thread."""
MOST_BYTES = 256
"""Of a tile in one thread's registers, of which it has 255 of four bytes."""


def assign_layouts(fn: Function, target: Target) -> Mapping[Value, AnyLayout]:
    """The layout of each tile that lies in registers; all others lie in memory that the block's threads share."""
    if target.is_cpu:
        return {}
    ops = list(emitted(fn.body))
    itemsize = _widest(ops)
    fragments = _fragments(ops)
    layouts: dict[Value, AnyLayout | None] = {}
    regions = (op for op in ops if op.builtin.carries and not op.builtin.by_element)
    in_lanes = {inner for op in regions for block in op.blocks for inner in walk(block)}
    for op in ops:
        for value in tiles_of(op):
            type = value.type
            assert isinstance(type, TileType)
            if op.builtin.along and value is next(op.inputs()) and _reduces(op, fragments.get(value)):
                layouts.setdefault(value, fragments[value])
                continue
            if not (op.builtin.by_element and type.shape) or value in _in_memory(op) or op in in_lanes:
                layouts[value] = None
                continue
            layout = fragments[value] if value in fragments else _layout(type, target.threads, itemsize)
            layouts.setdefault(value, layout)
            if not _keeps_runs(op, layout):
                layouts[value] = None
    layouts.update((value, None) for value in _of_lanes(ops))
    changed = True
    while changed:  # what shares a place has one layout
        changed = False
        for op in ops:
            for a, b in must_share(op):
                if layouts.get(a) != layouts.get(b):
                    layouts[a] = layouts[b] = None
                    changed = True
    return {value: layout for value, layout in layouts.items() if layout is not None}


def _of_lanes(ops: Iterable[Op]) -> Iterator[Value]:
    """The tiles that single lanes read and write, each any element."""
    for op in ops:
        if op.builtin.carries and not op.builtin.by_element:
            yield from (value for block in op.blocks for inner in walk(block) for value in tiles_of(inner))


def tiles_of(op: Op) -> Iterator[Value]:
    """The tiles that an op reads or makes, those of its blocks' parameters included."""
    values = (*op.inputs(), *op.results, *emitted_params(op))
    yield from (value for value in values if isinstance(value.type, TileType))


def _in_memory(op: Op) -> tuple[Value, ...]:
    read = (value for name in op.builtin.in_memory for value in leaves(op.operands[name]))
    return (*read, *(op.results[-1:] if op.builtin.scratch else ()))


def exchanged_bytes(fn: Function, layouts: Mapping[Value, AnyLayout]) -> int:
    """Bytes of shared memory at most that warps need to reduce the tiles that they hold as products leave them."""
    sizes = [0]
    for op in emitted(fn.body):
        tile = next(op.inputs()) if op.builtin.along else None
        layout = layouts.get(tile) if tile is not None else None
        if tile is not None and isinstance(layout, Layout):
            sizes.append(exchanged(layout, op.attrs[op.builtin.along] % 2, tile.type.dtype.itemsize)[1])
    return max(sizes)


def _reduces(op: Op, layout: AnyLayout | None) -> bool:
    """Whether threads reduce a tile along an axis where they hold it."""
    return op.attrs[op.builtin.along] is not None and isinstance(layout, Layout)


def _keeps_runs(op: Op, layout: AnyLayout | None) -> bool:
    """Whether one thread holds the neighbours that an op takes together."""
    run = op.attrs[op.builtin.run] if op.builtin.run else 1
    if layout is None or run == 1 or layout.threads == 1:
        return True
    return run > 0 and isinstance(layout, Layout) and layout.run % run == 0


def _fragments(ops: Iterable[Op]) -> dict[Value, AnyLayout | None]:
    """For the tiles that are computed element by element with sums of products: how threads hold those.

    None where they meet products whose sums are held in different ways.
    """
    parents: dict[Value, Value] = {}

    def root(value: Value) -> Value:
        while (above := parents.setdefault(value, value)) is not value:
            value = above
        return value

    held: dict[Value, set[AnyLayout]] = {}
    for op in ops:
        for first, second in _together(op):
            parents[root(first)] = root(second)
    for op in ops:
        if "plan" in op.attrs and op.builtin.by_element:
            held.setdefault(root(op.results[0]), set()).add(op.attrs["plan"].layout)
    only = {value: next(iter(found)) if len(found) == 1 else None for value, found in held.items()}
    return {value: only[root(value)] for value in parents if root(value) in only}


def _together(op: Op) -> Iterator[tuple[Value, Value]]:
    """Pairs of tiles whose elements one thread reads and writes."""
    if op.builtin.carries:
        for each in carried(op):
            tiles = [v for v in (*each.names, *each.sources) if isinstance(v, Value) and isinstance(v.type, TileType)]
            yield from ((tiles[0], tile) for tile in tiles)
    elif op.builtin.by_element:
        tiles = [value for value in tiles_of(op) if value not in _in_memory(op)]
        yield from ((tiles[0], tile) for tile in tiles)


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


def _layout(type: TileType, threads: int, itemsize: int) -> Layout | None:
    vector = VECTOR_BYTES // itemsize
    while type.shape[-1] % vector:
        vector //= 2
    found = in_turn(type.shape, threads, vector)
    return found if found.registers * max(type.dtype.itemsize, 4) <= MOST_BYTES else None
