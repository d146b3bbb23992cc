"""For blocks that lack lanes: tiles with one element a lane are reduced and stored without those of missing lanes."""

from __future__ import annotations

from collections.abc import Callable

from tilekit.builtins.missing_lanes import clip_missing, fill_missing, present_lanes
from tilekit.errors import KernelValueError
from tilekit.ir.core import Block, Const, Function, Op, Value, leaves, make_op
from tilekit.ir.missing import Role, neutral_of, role_of
from tilekit.ir.regions import carried
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import ScalarType, TileType, int32


def mask_missing_lanes(fn: Function, lanes: int) -> Function:
    """The function for a launch whose points leave the last block without some lanes.

    Raises:
        KernelValueError: it does something with one element a lane that has no meaning without some of them.
    """
    partial = _partial_tiles(fn)
    rewriter = Rewriter(change=lambda op, rewriter: _masked(op, rewriter, partial, lanes))
    return fn.with_body(rewriter.block(fn.body)) if partial else fn


def _partial_tiles(fn: Function) -> set[Value]:
    """The tiles that have elements of missing lanes."""
    found: set[Value] = set()
    size = -1
    while size != len(found):
        size = len(found)
        _mark(fn.body, found)
    return found


def _mark(block: Block, found: set[Value]) -> None:
    for op in block.ops:
        if op.builtin.carries:
            for each in carried(op):
                if not found.isdisjoint(each.sources):
                    found.update(each.names)
            for inner in op.blocks:
                _mark(inner, found)
            continue
        role = role_of(op.builtin)
        reaches = any(value in found for value in op.inputs())
        if role is Role.GATHERS or (reaches and role in (Role.MAPS, Role.STORES, Role.OWN)):
            found.update(result for result in op.results if isinstance(result.type, TileType))


def _masked(op: Op, rewriter: Rewriter, partial: set[Value], lanes: int) -> list[Op] | None:
    """What stands for an op where lanes are missing."""
    if op.builtin.carries:
        return None
    op = rewriter.rebuilt(op)
    _check(op, partial, lanes)
    ops: list[Op] = []
    ops.append(_without_missing(op, partial, lanes, ops.append))
    if role_of(op.builtin) is Role.GATHERS:
        (made,) = op.results
        ops.append(_fill(made, None, lanes, op))
        (rewriter.known[made],) = ops[-1].results
        partial.update(ops[-1].results)
    return ops


def _check(op: Op, partial: set[Value], lanes: int) -> None:
    """Refuse what has no meaning where lanes are missing."""
    role = role_of(op.builtin)
    number = role is Role.LOOKS and isinstance(op.results[0].type, TileType) and not op.results[0].type.shape
    if role not in (Role.LOOKS, Role.OTHER) or number or partial.isdisjoint(op.inputs()):
        return
    raise KernelValueError(
        f"{op.written}: the tile has one element a lane, and the last block of this launch lacks lanes; such a "
        "tile can be computed with, reduced, stored, and read element by element; "
        f"for anything else let the number of points be a multiple of block_dim={lanes}, or use tk.launch_tiled",
        op.location,
    )


def _without_missing(op: Op, partial: set[Value], lanes: int, add: Callable[[Op], None]) -> Op:
    """The op on what is there; what it needs for that is added before it."""
    role = role_of(op.builtin)
    operands = dict(op.operands)
    if partial.isdisjoint(op.inputs()):
        return op
    if role is Role.REDUCES:
        for name, tile in op.operands.items():
            if isinstance(tile, Value) and tile in partial:
                assert isinstance(tile.type, TileType)
                number = neutral_of(op.builtin, tile.type, op.attrs)
                made = _fill(tile, Const(ScalarType(tile.type.dtype), number), lanes, op)
                add(made)
                (operands[name],) = made.results
    elif role is Role.COUNTS:
        count = Value(ScalarType(int32))
        add(make_op(present_lanes, {}, {"lanes": lanes}, (count,), (), op.location))
        operands[op.builtin.counted] = count
    elif role is Role.STORES:
        for name in {*op.builtin.writes, *op.builtin.atomics}:
            (array,) = leaves(op.operands[name])
            clipped = Value(array.type)
            given = {"a": array, "offset": op.operands["offset"]}
            add(make_op(clip_missing, given, {"lanes": lanes}, (clipped,), (), op.location))
            operands[name] = clipped
    return op.with_(operands=operands)


def _fill(tile: Value, fill: Const | None, lanes: int, op: Op) -> Op:
    made = Value(tile.type, tile.hint)
    return make_op(fill_missing, {"t": tile, "fill": fill}, {"lanes": lanes}, (made,), (), op.location)
