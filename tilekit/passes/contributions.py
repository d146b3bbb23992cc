"""What a kernel adds to an array, tile by tile, and whether another kernel can gather it without atomics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilekit.builtins.grid import coordinate
from tilekit.errors import Location
from tilekit.ir.affine import Affine, affine_of, definitions
from tilekit.ir.array_parts import whole_of
from tilekit.ir.core import Block, Const, Function, Op, Value, leaves, used_values, walk
from tilekit.ir.program import Limit, Summed
from tilekit.ir.regions import carried_params, inputs_of, repeats
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.sizes import Size
from tilekit.ir.types import ScalarType, TileType, int32
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.fingerprints import Fingerprints
from tilekit.passes.host_sizes import size_of, trips
from tilekit.passes.loops import is_counted
from tilekit.passes.wraparound import Move


class Scattered(Exception):
    """Why additions need atomics: the number of the condition that fails, and what fails it."""

    def __init__(self, condition: int, why: str, location: Location | None = None) -> None:
        super().__init__(why)
        self.condition = condition
        self.why = why
        self.location = location

    def of(self, array: str, launch: str) -> Summed:
        """What a program says of an array that is so added to."""
        return Summed(array, "scattered", self.why, launch, CONDITIONS[self.condition], self.location)


CONDITIONS = {
    1: "tiles must be parts of the array side by side, each axis moved by one index",
    2: "loops around must be bounded by launch scalars and shapes",
    3: "no condition at run time may stand around",
    4: "what is added must be computable again without effects",
    5: "each coordinate of the grid must move the index along an axis, past all elements that a point adds to there",
}
"""What a kernel that gathers asks of the loads of an array; and last, what adding in place asks."""


@dataclass(frozen=True)
class Grid:
    """A coordinate of the launch's grid."""

    axis: int

    def __str__(self) -> str:
        return f"coordinate {self.axis} of the grid"


@dataclass(frozen=True, eq=False)
class Index:
    """The index of a loop around a contribution."""

    loop: Op
    start: Size
    stop: Size
    step: int

    @property
    def trips(self) -> Size:
        return trips(self.start, self.stop, self.step)

    @property
    def value(self) -> Value:
        return self.loop.blocks[0].params[0]

    def __str__(self) -> str:
        line = f" at line {self.loop.location.line}" if self.loop.location else ""
        return f"the index of the loop{line}"


Counter = Grid | Index
"""What counts blocks or iterations."""


@dataclass(frozen=True)
class Position:
    """Where the tiles of a contribution lie along an axis of the array."""

    extent: int
    """Of the tile."""
    index: Counter | None
    """What moves them; None where they all begin at one place."""
    step: int
    """How far that moves them, counting up; 0 without an index."""
    bits: int
    """Of the offset."""
    key: tuple[Any, ...]
    """Equal for contributions whose tiles are the same parts of the array, in the same order."""


class Source:
    """What is known of a function whose contributions are gathered."""

    def __init__(self, fn: Function, ndim: int, sized: Mapping[Value, str], table: dict[Any, int]) -> None:
        self.fn = fn
        self.ndim = ndim
        self.sized = sized
        """The names of the parameters that sizes may depend on."""
        self.defined = definitions(fn.body)
        self.around: dict[Op, tuple[Op, ...]] = {}
        """The ops whose blocks an op stands in, outermost first."""
        self.home: dict[Op, Block] = {}
        self.indices: dict[Value, Op] = {}
        self.params = {value: name for name, value in fn.params.items()}
        self.prints = Fingerprints(self.defined, table)
        self._enter(fn.body, ())
        self.depends: dict[Value, frozenset[Any]] = dict.fromkeys(fn.params.values(), frozenset())
        """On which coordinates, loops and carried values (as themselves) a value depends."""
        self.heavy: set[Value] = set()
        """Values that take a product or a loop to compute."""
        for op in walk(fn.body):
            self._spread(op)

    def _enter(self, block: Block, around: tuple[Op, ...]) -> None:
        for op in block.ops:
            self.around[op], self.home[op] = around, block
            for inner in op.blocks:
                self._enter(inner, (*around, op))

    def _spread(self, op: Op) -> None:
        inputs = inputs_of(op)
        depends = frozenset[Any]().union(*(self.depends.get(value, frozenset()) for value in inputs))
        if op.builtin is coordinate:
            depends = frozenset((Grid(op.attrs["axis"]),))
        for block in op.blocks:
            for param in block.params:
                self.depends[param] = frozenset((param,))
            if is_counted(op):
                self.indices[block.params[0]] = op
        for result in op.results:
            self.depends[result] = depends
            if is_heavy(op) or not self.heavy.isdisjoint(inputs):
                self.heavy.add(result)

    def size(self, operand: Any) -> Size | None:
        return size_of(operand, self.defined, self.sized)

    def root(self, array: Value) -> tuple[Value, tuple[Op, ...]]:
        """The parameter that an array is, or is a part of, and the ops that take the parts, outermost first."""
        return whole_of(array, self.defined)


def is_heavy(op: Op) -> bool:
    """Whether an op is a product or a loop."""
    return bool(op.builtin.contraction) or (op.builtin.carries and repeats(op))


def without(fn: Function, dropped: Callable[[Op], bool]) -> Function:
    """The function without some ops, and without what only they needed."""
    kept = Rewriter(change=lambda op, rewriter: () if dropped(op) else None)
    return eliminate_dead_code(fn.with_body(kept.block(fn.body)))


def has_own_effect(op: Op) -> bool:
    """Whether an op itself, not one inside it, does more than yield its results."""
    return op.builtin.side_effect or bool(op.builtin.writes or op.builtin.atomics)


def added_by(op: Op) -> Any:
    """The operand that an op adds to an array atomically; None where it does not add."""
    name = op.builtin.apply("adds", {}, op.attrs) if op.builtin.has("adds") else ""
    return op.operands[name] if name else None


def additions(fn: Function) -> dict[Value, list[Op]]:
    """The atomic additions to each array, in order: those whose old values nothing needs.

    An array is a parameter, or what stands for one where it is only known at run time which.
    """
    source = Source(fn, 0, {}, {})
    used = used_values(fn.body)
    found: dict[Value, list[Op]] = {}
    for op in walk(fn.body):
        adds = added_by(op) is not None and used.isdisjoint(op.results)
        for name in op.builtin.atomics if adds else ():
            for array in leaves(op.operands[name]):
                found.setdefault(source.root(array)[0], []).append(op)
    return found


class Contribution:
    """One atomic addition of a tile, in a function that does nothing else."""

    def __init__(
        self, fn: Function, add: Op, dims: tuple[Size, ...], sized: Mapping[Value, str], table: dict[Any, int]
    ) -> None:
        self.location = add.location
        self.once: frozenset[Counter] | None = None
        """Coordinates by which blocks differ of which only the first contributes; None where that is not known yet."""
        alone = without(fn, lambda op: has_own_effect(op) and op is not add)
        self.source = Source(alone, len(dims), sized, table)
        self.add = next(op for op in walk(alone.body) if op is add)
        value = added_by(add)
        assert isinstance(value, Value) and isinstance(value.type, TileType)
        self.value = value
        self.type: TileType = value.type
        self.loops = [self._index(op) for op in self.source.around[add]]
        self._refuse_carried()
        (array,) = (found for name in add.builtin.atomics for found in leaves(add.operands[name]))
        self.array, self.parts = self.source.root(array)
        self.positions = tuple(self._positions())
        used = [position.index for position in self.positions if position.index is not None]
        if len(set(used)) < len(used):
            twice = next(index for index in used if used.count(index) > 1)
            raise Scattered(1, f"{twice} moves its tiles along two axes", self.location)
        everything: list[Counter] = [*(Grid(axis) for axis in range(len(dims))), *self.loops]
        self.moving: list[Counter] = used
        """What moves the tiles, in order of the array's axes."""
        self.summed: list[Counter] = [index for index in everything if index not in used]
        """What is added up to one tile, the outermost first."""
        self.limits: tuple[Limit, ...] = ()
        """Up to which sizes it can be gathered."""
        for position in self.positions:
            self._limit(position, dims)

    @property
    def added(self) -> list[Counter]:
        """What is added up to one tile, without what contributes once."""
        return [index for index in self.summed if index not in (self.once or ())]

    def _index(self, op: Op) -> Index:
        where = op.location
        if not is_counted(op):
            what = "a loop that ends when a condition does" if len(op.blocks) == 1 else "a condition"
            raise Scattered(3, f"it stands under {what} that is only known at run time", where)
        start, stop, step = (self.source.size(op.operands[name]) for name in ("start", "stop", "step"))
        if start is None or stop is None:
            raise Scattered(2, "the bounds of a loop around it depend on more than launch scalars and shapes", where)
        if not isinstance(step, int) or step == 0:
            raise Scattered(2, "the step of a loop around it is only known at run time", where)
        return Index(op, start, stop, step)

    def _refuse_carried(self) -> None:
        """Raise where the contribution of an iteration depends on those before."""
        depends = self.source.depends[self.value]
        for index in self.loops:
            if not depends.isdisjoint(carried_params(index.loop)):
                at = f" at line {index.loop.location.line}" if index.loop.location else ""
                raise Scattered(4, f"it depends on what the loop{at} carries", self.location)

    def _positions(self) -> Iterator[Position]:
        for part in self.parts:
            for item in entries(part.operands["index"]):
                yield self._position(item, 1)
        given = entries(self.add.operands["offset"])
        for axis, extent in enumerate(self.type.shape):
            yield self._position(given[axis] if axis < len(given) else Const(ScalarType(int32), 0), extent)

    def _position(self, offset: Any, extent: int) -> Position:
        found = affine_of(offset, self.source.defined)
        moved = [(value, self.counter(value)) for value in found.terms]
        rest = Affine(found.constant, {value: found.factor(value) for value, index in moved if index is None})
        base = self._base(rest)
        moving = [(index, found.factor(value)) for value, index in moved if index is not None]
        merged: dict[Any, int] = {}
        for index, factor in moving:
            merged[index] = merged.get(index, 0) + factor
        merged = {index: factor for index, factor in merged.items() if factor}
        if not merged:
            return Position(extent, None, 0, found.bits, (extent, base, found.bits))
        if len(merged) > 1:
            raise Scattered(1, f"{' and '.join(map(str, merged))} move its tiles along one axis", self.location)
        ((index, factor),) = merged.items()
        step = factor * (index.step if isinstance(index, Index) else 1)
        if abs(step) != extent:
            raise Scattered(
                1, f"{index} moves its tiles by {abs(step)}, and they have {extent} elements there", self.location
            )
        range_key = index if isinstance(index, Grid) else (index.start, index.stop, index.step)
        up = step if isinstance(index, Grid) or index.step > 0 else -step
        return Position(extent, index, up, found.bits, (extent, base, found.bits, factor, range_key))

    def _limit(self, position: Position, dims: tuple[Size, ...]) -> None:
        """Raise where tiles surely come back to the same elements; else limit what may bring them there."""
        if position.index is None:
            return
        move, size = Move(position.index, position.step, position.extent, position.bits), trips_of(position.index, dims)
        if not move.may_hold(size):
            raise Scattered(1, move.wraps, self.location)
        self.limits += move.limits(size, self.source.params[self.array], self.location)

    def counter(self, value: Value) -> Counter | None:
        """The index that a term of an offset is; None for what is the same in the whole launch."""
        op = self.source.defined.get(value)
        if op is not None and op.builtin is coordinate:
            return Grid(op.attrs["axis"])
        return next((index for index in self.loops if index.value is value), None)

    def _base(self, rest: Affine) -> Any:
        if any(self.source.size(value) is None for value in rest.terms):
            raise Scattered(1, "where its tiles lie is computed from more than one index at a time", self.location)
        return (rest.constant, frozenset((self.source.prints.of(value), by) for value, by in rest.terms.items()))


def trips_of(index: Counter, dims: tuple[Size, ...]) -> Size:
    """How many values an index takes."""
    return dims[index.axis] if isinstance(index, Grid) else index.trips


def entries(operand: Any) -> tuple[Any, ...]:
    """The integers of an index or offset."""
    return operand if isinstance(operand, tuple) else (operand,)
