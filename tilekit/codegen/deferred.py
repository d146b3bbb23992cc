"""Loads that a thread does element by element where their only reader is, so that it need not hold all elements."""

from __future__ import annotations

from collections.abc import Iterator

from tilekit.codegen.fragment import Fragment
from tilekit.codegen.storage import Storage
from tilekit.ir.core import Block, Function, Op, Value, leaves, walk


def deferred_loads(fn: Function, storage: Storage) -> frozenset[Value]:
    """The tiles in fragments that are loaded for one elementwise op, before which nothing is written."""
    bodies = [fn.body, *(block for op in walk(fn.body) for block in op.blocks)]
    return frozenset(value for block in bodies for value in _of_block(block, storage))


def _of_block(block: Block, storage: Storage) -> Iterator[Value]:
    for at, op in enumerate(block.ops):
        if op.builtin.for_factors is None:
            continue
        (tile,) = op.results
        buffer = storage.buffers.get(tile)
        if buffer is not None and isinstance(buffer.layout, Fragment) and _waits(tile, block, at):
            yield tile


def _waits(tile: Value, block: Block, at: int) -> bool:
    """Whether the only use of a tile is an elementwise op of its block, with no effect between."""
    if any(tile is value for value in leaves(block.results)):
        return False
    users = [op for op in block.ops if tile in (*op.inputs(), *(v for inner in op.blocks for v in inner.free))]
    if len(users) != 1:
        return False
    (user,) = users
    own = user.builtin
    plain = own.by_element and not (own.carries or own.writes or own.atomics or own.scratch or own.in_memory)
    between = block.ops[at + 1 : block.ops.index(user)]
    return plain and not any(_acts(op) for op in between)


def _acts(op: Op) -> bool:
    inner = [op, *(found for block in op.blocks for found in walk(block))]
    return any(each.builtin.side_effect or each.builtin.writes or each.builtin.atomics for each in inner)
