"""Turn what the lanes of a block do into loops over the lanes, between the ops that all lanes do together.

After this pass every op outside a ``lane_loop`` runs once for each block. Numbers that differ between lanes and outlive
a loop are kept in tiles of one element a lane. Lanes share tiles as if they met after every statement: a loop ends
before an element is read that it wrote, and before a tile is written that it read.
"""

from __future__ import annotations

from typing import Any

from tilekit.ir.core import Block, Function, Op, Value, leaves, map_operand
from tilekit.ir.regions import Region, inputs_of, items, region_of
from tilekit.ir.types import ScalarType, TileType
from tilekit.passes.lane_group import (
    Known,
    LaneGroup,
    computed_again,
    in_lane,
    number_in_lanes,
)
from tilekit.passes.lowering import lowered
from tilekit.passes.uniformity import Uniformity, is_cooperative, is_update, writes_tile


def form_lanes(fn: Function, lanes: int | None, ragged: bool = False, whole: int = 0) -> Function:
    """The function for blocks of so many lanes; None where a block or point has no lanes of its own.

    Args:
        ragged: Whether a block may lack lanes, though never the first.
        whole: Leading coordinates of a point that all lanes of a block share.
    """
    if lanes is None:
        return fn.with_body(in_lane({}, None, 1).block(fn.body))
    former = _Former(Uniformity(fn, whole), lanes, ragged)
    return fn.with_body(_Block(former, Known(), fn.body).run())


class _Former:
    def __init__(self, uniformity: Uniformity, lanes: int, ragged: bool) -> None:
        self.uniformity = uniformity
        self.lanes = lanes
        self.ragged = ragged

    def group(self, known: Known) -> LaneGroup:
        return LaneGroup(known, self.lanes, self.ragged)

    def varies(self, value: Value) -> bool:
        return value in self.uniformity.cause

    def per_lane(self, op: Op) -> bool:
        """Whether each lane runs an op by itself."""
        if is_cooperative(op):
            return False
        if op.blocks and op not in self.uniformity.divergent and _touches_tiles(op):
            return False
        if op.has_effect or op in self.uniformity.divergent or is_update(op):
            return True
        return any(self.varies(value) for value in (*op.results, *inputs_of(op)))


def _touches_tiles(op: Op) -> bool:
    return any(isinstance(value.type, TileType) for value in (*inputs_of(op), *op.results))


def _runs_once(op: Op, known: Known) -> bool:
    """Whether an op must run in the loop of its own group, and not only where another group computes it again."""
    return op.runs_anyway or not op.results or not known.again.keys() >= set(op.results)


class _Block:
    """Rewrites one block that all lanes run together."""

    def __init__(self, former: _Former, known: Known, block: Block) -> None:
        self.former = former
        self.known = known
        self.rewriter = in_lane(known.renamed, None, 1)
        self.block = block
        self.out: list[Op] = []
        self.group: dict[int, Op] = {}
        """The ops of the open group, by their place in the block."""
        self.made: set[Value] = set()
        """What the open group defines."""
        self.read: set[Value] = set()
        """The tiles that the open group reads."""
        self.bases: dict[Value, Value] = {}
        self.uses: dict[Value, set[int]] = {}
        for index, op in enumerate(block.ops):
            for value in inputs_of(op):
                self.uses.setdefault(value, set()).add(index)
            if op.builtin.view:
                first = next(op.inputs())
                self.bases[op.results[0]] = self.bases.get(first, first)
        for value in leaves(block.results):
            self.uses.setdefault(value, set()).add(len(block.ops))

    def run(self, slotted: frozenset[int] = frozenset(), params: tuple[Value, ...] | None = None) -> Block:
        """The block; its results at the places in ``slotted`` become tiles of one element a lane."""
        for index, op in enumerate(self.block.ops):
            if self.former.per_lane(op):
                self._add(index, op)
            else:
                self._outer(op)
        self._close()
        yields = tuple(
            self._slot(r) if i in slotted else self.rewriter.look_up(r) for i, r in enumerate(self.block.results)
        )
        return Block(self.block.params if params is None else params, tuple(self.out), yields)

    # Groups.

    def _add(self, index: int, op: Op) -> None:
        tiles = {self.bases.get(v, v) for v in inputs_of(op) if isinstance(v.type, TileType)}
        if not tiles.isdisjoint(self.made) or (writes_tile(op) and not tiles.isdisjoint(self.read)):
            self._close()
        if computed_again(op, self.known, lambda value: not self.former.varies(value)):
            self.known.again[op.results[0]] = op
        self.group[index] = op
        self.made.update(op.results)
        if not (op.builtin.view or writes_tile(op)):
            self.read |= tiles

    def _close(self) -> None:
        places, ops = set(self.group), list(self.group.values())
        self.group, self.made, self.read = {}, set(), set()
        if not any(_runs_once(op, self.known) for op in ops):
            return

        def escapes(value: Value) -> bool:
            return not self.uses.get(value, places) <= places or any(
                value in inputs_of(op) for op in self.known.again.values()
            )

        self.out += self.former.group(self.known).build(ops, escapes, self.former.varies)

    def _slot(self, item: Any) -> Value:
        """The tile that holds an item in each lane."""
        if isinstance(item, Value) and item in self.known.slots:
            return self.known.slots[item]
        ops, found = self.former.group(self.known).slot_for(item)
        self.out += ops
        return found

    # Ops of all lanes together.

    def _outer(self, op: Op) -> None:
        if not self._may_pass(op):
            self._close()
        per_lane = op.builtin.per_lane
        operands = {
            name: map_operand(operand, self._slot) if name in per_lane else self.rewriter.operand(operand)
            for name, operand in op.operands.items()
        }
        if (per_lane or op.builtin.lane) and op.builtin.has("lower"):  # a coordinate that is lane 0's for all of them
            lane = 0 if op.builtin.lane else None
            ops, (self.known.renamed[op.results[0]],) = lowered(op, operands, lane=lane, lanes=self.former.lanes)
            self.out += ops
        elif op.builtin.carries:
            self._region(op)
        else:
            self.out.append(self.rewriter.rebuilt(op, operands=operands))

    def _may_pass(self, op: Op) -> bool:
        """Whether an op may run before the open group."""
        if op.has_effect or op.blocks or op.builtin.per_lane or writes_tile(op):
            return False
        if op.builtin.reads and any(inner.has_effect for inner in self.group.values()):
            return False
        return self.made.isdisjoint(self.bases.get(value, value) for value in inputs_of(op))

    def _region(self, op: Op) -> None:
        region = region_of(op)
        slotted = frozenset(j for j, result in enumerate(op.results) if self.former.varies(result))
        for j in slotted:
            number_in_lanes(op.results[j], op)
        operands = {name: self.rewriter.operand(o) for name, o in op.operands.items() if name != region.init}
        if region.init:
            inits = enumerate(items(op.operands[region.init]))
            operands[region.init] = tuple(self._slot(i) if j in slotted else self.rewriter.look_up(i) for j, i in inits)
        blocks = tuple(self._inner(region, block, slotted) for block in op.blocks)
        results = tuple(self._held(r) if j in slotted else r for j, r in enumerate(op.results))
        self.known.slots.update((op.results[j], results[j]) for j in slotted)
        self.out.append(self.rewriter.rebuilt(op, operands=operands, blocks=blocks, results=results))

    def _held(self, value: Value) -> Value:
        assert isinstance(value.type, ScalarType)
        return Value(TileType(value.type.dtype, (self.former.lanes,)), value.hint)

    def _inner(self, region: Region, block: Block, slotted: frozenset[int]) -> Block:
        known = self.known.copy()
        params = list(block.params)
        for j in slotted if region.init else ():
            param = region.params(block)[j]
            params[region.leading + j] = known.slots[param] = self._held(param)
        yields = frozenset(region.decides + j for j in slotted)
        return _Block(self.former, known, block).run(yields, tuple(params))
