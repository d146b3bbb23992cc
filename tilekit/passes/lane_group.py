"""One loop over lanes: the ops of a group, what it reads from other groups, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilekit.builtins.array_elements import undefined_array
from tilekit.builtins.lanes import lane_get, lane_loop, lane_set, lane_slots
from tilekit.errors import KernelNotImplementedError
from tilekit.ir.core import Block, Const, Op, Value, make_op
from tilekit.ir.handles import Scalar
from tilekit.ir.regions import inputs_of
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import ArrayType, ScalarType, TileType, int32
from tilekit.passes.lowering import lowered
from tilekit.passes.uniformity import updated_base, updated_operand, writes_tile

INDEX = ScalarType(int32)


def in_lane(known: dict[Value, Any], lane: Any, lanes: int, fresh: bool = False) -> Rewriter:
    """Rebuilds ops, or ``fresh`` copies, so that what depends on the lane becomes what it means in that lane."""

    def change(op: Op, rewriter: Rewriter) -> list[Op] | None:
        if not (op.builtin.lane and op.builtin.has("lower")):
            return None
        operands = {name: rewriter.operand(operand) for name, operand in op.operands.items()}
        ops, (rewriter.known[op.results[0]],) = lowered(op, operands, lane=lane, lanes=lanes)
        return ops

    return Rewriter(known, change, fresh=fresh)


@dataclass
class Known:
    """How a group gets at values from outside it; a nested block has a copy."""

    slots: dict[Value, Value] = field(default_factory=dict)
    """Numbers that differ between lanes, by the tile that holds them."""
    renamed: dict[Value, Any] = field(default_factory=dict)
    """Tiles and uniform numbers, by the result of the loop that made them."""
    again: dict[Value, Op] = field(default_factory=dict)
    """Values that each group computes for itself: the lane, its indices, views at them."""

    def copy(self) -> Known:
        return Known(dict(self.slots), dict(self.renamed), dict(self.again))


class LaneGroup:
    """Builds one loop over the lanes."""

    def __init__(self, known: Known, lanes: int, ragged: bool) -> None:
        self.known = known
        self.lanes = lanes
        self.ragged = ragged
        """Whether some lanes may be missing: their threads then learn from lane 0 what is the same for all."""
        self.lane = Value(INDEX, "lane")
        self.before: list[Op] = []
        self.after: list[Op] = []
        self.body: list[Op] = []
        self.rewriter = in_lane({}, Scalar(self.lane), lanes)
        self.swap = self.rewriter.known
        self.carried: list[tuple[Any, Value, Any, Value]] = []
        """Start, parameter, yield and result of each value that the loop carries."""

    def build(self, ops: list[Op], escapes: Callable[[Value], bool], varies: Callable[[Value], bool]) -> list[Op]:
        """The loop for a group of ops; their results become known."""
        made = {result for op in ops for result in op.results}
        for op in ops:
            for value in inputs_of(op):
                if value not in made:
                    self._provide(value)
        for op in ops:
            updates = writes_tile(op)
            rewriter = in_lane(self._updating(op), Scalar(self.lane), self.lanes) if updates else self.rewriter
            self.body += rewriter.op(op)
        for op in ops:
            for result in op.results:
                if not isinstance(result.type, TileType) and escapes(result) and result not in self.known.again:
                    self._leave(result, varies(result), op)
        return self.finish(ops[0])

    def finish(self, first: Op | None) -> list[Op]:
        inits = tuple(start for start, _, _, _ in self.carried)
        params = (self.lane, *(param for _, param, _, _ in self.carried))
        yields = tuple(value for _, _, value, _ in self.carried)
        results = tuple(result for _, _, _, result in self.carried)
        block = Block(params, tuple(self.body), yields)
        location = first.location if first is not None else None
        loop = make_op(lane_loop, {"init": inits}, {"lanes": self.lanes}, results, (block,), location)
        return [*self.before, loop, *self.after]

    def _provide(self, value: Value) -> None:
        """Make a value from outside readable in the loop."""
        if value in self.swap:
            return
        if value in self.known.again:
            self._compute(self.known.again[value])
        elif value in self.known.slots:
            found = Value(value.type, value.hint)
            operands = {"t": self.known.slots[value], "lane": self.lane}
            assert isinstance(value.type, ScalarType)
            self.body.append(make_op(lane_get, operands, {"weak": value.type.weak}, (found,)))
            self.swap[value] = found
        elif value in self.known.renamed:
            self.swap[value] = self.known.renamed[value]

    def _compute(self, op: Op) -> None:
        for value in inputs_of(op):
            self._provide(value)
        self.body += in_lane(self.swap, Scalar(self.lane), self.lanes, fresh=True).op(op)

    def _updating(self, op: Op) -> dict[Value, Any]:
        """The swaps for an op that updates tiles: it finds them in what the loop carries."""
        swap = dict(self.swap)
        for position, result in enumerate(op.results):
            if isinstance(result.type, TileType):
                base = updated_base(op, position) if op.blocks else updated_operand(op)
                assert base is not None
                param, after = Value(result.type, result.hint), Value(result.type, result.hint)
                self.carried.append((self.swap.get(base, base), param, result, after))
                self.known.renamed[result] = after
                swap[base] = param
        return swap

    def _leave(self, result: Value, varies: bool, op: Op) -> None:
        """Let a number outlive the loop: in a slot for each lane, or as one where all lanes have the same."""
        value = self.swap.get(result, result)
        if varies:
            self.known.slots[result] = self.store(value, number_in_lanes(result, op))
            return
        after = Value(result.type, result.hint)
        if self.ragged:
            type = number_in_lanes(result, op)
            operands: dict[str, Any] = {"t": self.store(value, type), "lane": Const(INDEX, 0)}
            self.after.append(make_op(lane_get, operands, {"weak": type.weak}, (after,)))
            self.known.renamed[result] = after
            return
        start = self._nothing(result.type)
        self.carried.append((start, Value(result.type), value, after))
        self.known.renamed[result] = after

    def _nothing(self, type: Any) -> Any:
        """What a value of the type is before the loop; nothing reads it."""
        if isinstance(type, ScalarType):
            return Const(type, False if type.dtype.kind == "b" else 0)
        found = Value(type)
        self.before.append(make_op(undefined_array, {}, {"ndim": type.ndim, "dtype": type.dtype}, (found,)))
        return found

    def store(self, value: Any, type: ScalarType) -> Value:
        """A tile that holds what a value is in each lane."""
        tile = TileType(type.dtype, (self.lanes,))
        start, param, changed, after = (Value(tile) for _ in range(4))
        self.before.append(make_op(lane_slots, {}, {"lanes": self.lanes, "dtype": type.dtype}, (start,)))
        operands = {"t": param, "lane": self.lane, "x": value}
        self.body.append(make_op(lane_set, operands, {}, (changed,)))
        self.carried.append((start, param, changed, after))
        return after

    def slot_for(self, item: Any) -> tuple[list[Op], Value]:
        """A loop that does nothing but store a value from outside in each lane, and the tile that holds it."""
        if isinstance(item, Value):
            self._provide(item)
        found = self.store(self.swap.get(item, item), item.type)
        if isinstance(item, Value):
            self.known.slots[item] = found
        return self.finish(None), found


def number_in_lanes(value: Value, op: Op) -> ScalarType:
    """The type of a number that ``op`` gives and that is kept for each lane.

    Raises:
        KernelNotImplementedError: it is an array.
    """
    if isinstance(value.type, ScalarType):
        return value.type
    what = f"{value.hint!r}" if value.hint else f"an {value.type}"
    raise KernelNotImplementedError(
        f"{what} may be another array in each lane, which cannot be kept for after a tile operation; keep its index "
        "and take the row again there, as in r = x[i]",
        op.location,
    )


def computed_again(op: Op, known: Known, uniform: Callable[[Value], bool]) -> bool:
    """Whether each group should compute an op for itself rather than keep its result for every lane."""
    if op.has_effect or op.blocks or len(op.results) != 1:
        return False
    (result,) = op.results
    if op.builtin.view or isinstance(result.type, ArrayType):
        return True
    if op.builtin.lane:
        return not op.operands
    cheap = op.builtin.elementwise and isinstance(result.type, ScalarType) and not result.type.dtype.is_float
    return cheap and all(uniform(value) or value in known.again for value in op.inputs())
