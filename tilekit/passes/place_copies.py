"""Write down each copy of a tile that its place asks for, so that later passes and the emitter see no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tilekit.codegen.storage import Buffer, Storage, round_up
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.core import Block, Function, Op, Value, make_op, walk
from tilekit.ir.regions import carried_params, items, region_of
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import TileType
from tilekit.ir.views import ViewMap


def place_copies(fn: Function, storage: Storage) -> tuple[Function, Storage]:
    """The function where what a region carries, and what an op changes in place, lies where it is carried or changed.

    Args:
        fn: The function.
        storage: The place of each tile.
    """
    placer = _Placer(fn, storage)
    return fn.with_body(placer.block(fn.body)), Storage(placer.buffers, placer.size)


@dataclass(frozen=True)
class _Move:
    """A tile that must lie where another one does."""

    to: Value
    source: Value


class _Placer(Rewriter):
    def __init__(self, fn: Function, storage: Storage) -> None:
        super().__init__(change=lambda op, _: self._change(op))
        self.buffers: dict[Value, Buffer] = dict(storage.buffers)
        self.size = self._end = storage.size
        self._op: Op | None = None
        """The region op whose block is being rebuilt."""
        self._views = {op.results[0]: op for op in walk(fn.body) if op.builtin.view}

    def block(self, block: Block, params: tuple[Value, ...] | None = None) -> Block:
        owner, rebuilt = self._op, super().block(block, params)
        self._op = owner
        if owner is None or not owner.builtin.carries:
            return rebuilt
        targets = carried_params(owner) or owner.results
        leading = len(rebuilt.results) - len(targets)
        moves, yields = self._moved(targets, rebuilt.results[leading:], owner)
        return (
            Block(rebuilt.params, (*rebuilt.ops, *moves), (*rebuilt.results[:leading], *yields)) if moves else rebuilt
        )

    def _change(self, op: Op) -> Iterable[Op]:
        own, before = op.builtin, list[Op]()
        operands = {name: self.operand(operand) for name, operand in op.operands.items()}
        if own.carries and region_of(op).init:
            name = region_of(op).init
            before, moved = self._moved(carried_params(op), items(operands[name]), op)
            operands[name] = tuple(moved)
        elif own.in_place:
            before, (moved,) = self._moved(op.results[:1], (operands[own.in_place],), op)
            operands[own.in_place] = moved
        outer, self._op = self._op, op
        found = self.rebuilt(op, operands=operands) if before else self.rebuilt(op)
        self._op = outer
        return (*before, found)

    def _moved(self, targets: Sequence[Value], sources: Sequence[Any], op: Op) -> tuple[list[Op], list[Any]]:
        """The copies before sources lie where targets do, and what then stands for each source."""
        found = list(sources)
        needed = {
            number: _Move(to, source)
            for number, (to, source) in enumerate(zip(targets, sources, strict=True))
            if isinstance(source, Value) and isinstance(source.type, TileType) and not self._lies(to, source)
        }
        if not needed:
            return [], found
        moves, ops = list(needed.values()), list[Op]()
        if not self._exchanges(moves):
            moves = self._saved(moves, ops, op)
        ops.append(self._copy([move.source for move in moves], [self.buffers[move.to] for move in moves], op))
        for number, result in zip(needed, ops[-1].results, strict=True):
            found[number] = result
        return ops, found

    def _saved(self, moves: list[_Move], ops: list[Op], op: Op) -> list[_Move]:
        """The moves, of which none reads what another one writes: such sources are copied elsewhere before."""
        written = [self.buffers[move.to] for move in moves]
        early = [
            move.source for move in moves if any(self.buffer_of(move.source).overlaps(buffer) for buffer in written)
        ]
        if not early:
            return moves
        end, places = self._end, list[Buffer]()
        for source in early:
            layout, type = self.buffer_of(source).layout, source.type
            assert isinstance(type, TileType)
            places.append(Buffer(type, -1 if layout is not None else end, layout))
            end += 0 if layout is not None else round_up(places[-1].size)
        self.size = max(self.size, end)
        ops.append(self._copy(early, places, op))
        saved = dict(zip(early, ops[-1].results, strict=True))
        return [_Move(move.to, saved.get(move.source, move.source)) for move in moves]

    def _copy(self, sources: list[Value], places: list[Buffer], op: Op) -> Op:
        results = tuple(Value(source.type, source.hint) for source in sources)
        self.buffers.update(zip(results, places, strict=True))
        return make_op(REGISTRY["move_tiles"], {"sources": tuple(sources)}, {}, results, location=op.location)

    def buffer_of(self, value: Value) -> Buffer:
        """The memory, or the registers, that a tile or a view of one shows."""
        while value in self._views:
            value = next(self._views[value].inputs())
        return self.buffers[value]

    def _map_of(self, value: Value) -> ViewMap:
        assert isinstance(value.type, TileType)
        view = self._views.get(value)
        return view.attrs["map"] if view is not None else ViewMap.identity(value.type.shape)

    def _lies(self, to: Value, source: Value) -> bool:
        """Whether two tiles are the same elements of one place."""
        same = self.buffer_of(to) is self.buffer_of(source)
        return same and self._map_of(source).strides == self._map_of(to).strides

    def _exchanges(self, moves: Sequence[_Move]) -> bool:
        """Whether copies write what others read, but each element only where that same element is read."""
        places = [(move.to, other.source) for move in moves for other in moves]
        meets = [pair for pair in places if self.buffer_of(pair[0]).overlaps(self.buffer_of(pair[1]))]
        tiles = [tile for move in moves for tile in (move.to, move.source)]
        alike = {(tile.type.shape, self.buffer_of(tile).layout) for tile in tiles if isinstance(tile.type, TileType)}
        return bool(meets) and len(alike) == 1 and all(self._lies(*pair) for pair in meets)
