"""Whether what a contribution adds can be computed in another kernel, and what is better kept in memory for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilekit.builtins.grid import coordinate
from tilekit.builtins.memory import tile_load
from tilekit.ir.affine import affine_of
from tilekit.ir.core import Function, Op, Value, leaves, walk
from tilekit.ir.handles import Array
from tilekit.ir.regions import inputs_of
from tilekit.ir.sizes import Product, Size, simplified
from tilekit.ir.types import TileType
from tilekit.passes.contributions import (
    Contribution,
    Counter,
    Grid,
    Index,
    Scattered,
    Source,
    entries,
    is_heavy,
    trips_of,
)
from tilekit.passes.gather_nest import is_product, number_of, split, unrounded
from tilekit.passes.loops import is_counted
from tilekit.passes.scope import datum_of
from tilekit.passes.wraparound import Move


@dataclass(frozen=True, eq=False)
class Kept:
    """A tile that one launch stores in scratch memory, for launches that follow."""

    array: Value
    name: str
    value: Value
    contribution: Contribution
    """That it belongs to."""
    axes: tuple[tuple[int, ...], ...]
    """By which coordinates of the grid it lies along each of its axes, the slowest first."""

    @property
    def type(self) -> TileType:
        assert isinstance(self.value.type, TileType)
        return self.value.type

    @staticmethod
    def size(extent: int, grid: tuple[int, ...], dims: tuple[Size, ...]) -> Size:
        """Of the scratch array along an axis: the tiles of all blocks side by side."""
        size: Size = extent
        for axis in grid:
            size = Product(size, dims[axis])
        return simplified(size)

    def offset(self, at: Mapping[int, Any], dims: tuple[Size, ...], number: Callable[[Size], Any]) -> tuple[Any, ...]:
        """Where the tile of a block begins, from the block's coordinates."""
        found = []
        for extent, grid in zip(self.type.shape, self.axes, strict=True):
            place: Any = 0
            for axis in grid:
                here = number_of(at[axis])
                place = here if isinstance(place, int) else place * number_of(number(dims[axis])) + here
            found.append(place * extent)
        return tuple(found)

    def load(self, at: Mapping[int, Any], dims: tuple[Size, ...], number: Callable[[Size], Any]) -> Value:
        """Record a load of the tile."""
        found = datum_of(tile_load(Array(self.array), self.type.shape, self.offset(at, dims, number)))
        assert isinstance(found, Value)
        return found


class Conditions:
    """What of a function's values can be computed again elsewhere."""

    def __init__(self, fn: Function, dims: tuple[Size, ...]) -> None:
        self.source = Source(fn, len(dims), {value: name for name, value in fn.params.items()}, {})
        self.dims = dims
        self.table: dict[Any, int] = {}
        """Of the fingerprints of all contributions."""
        self.writers: dict[Value, list[Op]] = {}
        for op in walk(fn.body):
            for name in dict.fromkeys((*op.builtin.writes, *op.builtin.atomics)):
                for array in leaves(op.operands[name]):
                    self.writers.setdefault(self.source.root(array)[0], []).append(op)

    def stores(self, array: Value, added: list[Op]) -> Op | None:
        """An op that writes an array and is none of those that only add to it."""
        return next((op for op in self.writers.get(array, ()) if op not in added), None)

    def kept_by(self, contribution: Contribution) -> Iterator[tuple[Value, tuple[tuple[int, ...], ...]]]:
        """The values of a contribution to be kept in scratch memory, and by which coordinates they lie there.

        Raises:
            Scattered: something else cannot be computed again.
        """
        own, factors = _own_values(contribution)
        source, seen = contribution.source, set[Value]()
        counters = {Grid(axis) for axis in range(source.ndim)} | {index.value for index in contribution.loops}
        waiting = [contribution.value]
        while waiting:
            value = unrounded(source, waiting.pop())
            if value in seen or value in source.params:
                continue
            seen.add(value)
            op = source.defined.get(value)
            if op is None:
                continue  # the index of a loop
            again = not counters <= source.depends[value]
            if value not in own and self._is_kept(source, value, again and value in factors):
                self._check_all(contribution, value)
                yield value, self._axes(source, value)
                continue
            if again and value not in own and is_heavy(op):
                where = "a product" if op.builtin.contraction else "a loop"
                raise Scattered(4, f"{where} would be computed again for each tile", op.location)
            self._check(contribution, op, conditions=True)
            waiting += inputs_of(op)

    def _is_kept(self, source: Source, value: Value, is_factor: bool) -> bool:
        """Whether a value is a tile of the block that takes longer to compute than to load, or that products read."""
        op = source.defined[value]
        of_block = all(isinstance(on, Grid) for on in source.depends[value])
        if not of_block or not isinstance(value.type, TileType) or not value.type.shape or len(value.type.shape) > 4:
            return False
        if op not in source.fn.body.ops and any(each.runs_anyway for each in _slice(source, value)):
            return False  # of a loop that may have no iteration
        return value in source.heavy or (is_factor and not op.builtin.reads and bool(source.depends[value]))

    def _axes(self, source: Source, value: Value) -> tuple[tuple[int, ...], ...]:
        """Along which axis of a kept tile each coordinate moves: as in an array of which such a tile is loaded."""
        assert isinstance(value.type, TileType)
        found: dict[int, int] = {}
        for op in _slice(source, value):
            if op.builtin.reads and "offset" in op.operands and op.results[0].type.shape == value.type.shape:  # type: ignore[union-attr]
                for axis, item in enumerate(entries(op.operands["offset"])):
                    on = [source.defined.get(term) for term in affine_of(item, source.defined).terms]
                    moving = [each.attrs["axis"] for each in on if each is not None and each.builtin is coordinate]
                    if len(moving) == 1:
                        found.setdefault(moving[0], axis)
        if not found and source.ndim > 1 and len(value.type.shape) > 1:
            found[source.ndim - 1] = len(value.type.shape) - 1
        every = range(source.ndim)
        loose = [axis for axis in every if axis not in found]
        lying = [[axis for axis in every if found.get(axis) == number] for number in range(len(value.type.shape))]
        return tuple((*loose, *axes) if number == 0 else tuple(axes) for number, axes in enumerate(lying))

    def _check_all(self, contribution: Contribution, value: Value) -> None:
        for op in _slice(contribution.source, value):
            self._check(contribution, op, conditions=False)

    def _check(self, contribution: Contribution, op: Op, conditions: bool) -> None:
        """Raise for an op that cannot run in another kernel."""
        source = contribution.source
        for each in (op, *(inner for block in op.blocks for inner in walk(block))):
            own = each.builtin
            if own.side_effect or own.writes or own.atomics:
                why = f"computing it again would repeat the effect of {each.written}"
                raise Scattered(4, why, each.location)
            if conditions and own.carries and not is_counted(each) and _does_much(each):
                raise Scattered(3, "what it adds is computed under a condition", each.location)
            for name in own.reads:
                for array in leaves(each.operands[name]):
                    root, _ = source.root(array)
                    if root in self.writers:
                        self._check_taken(contribution, root, each)

    def _check_taken(self, contribution: Contribution, array: Value, load: Op) -> None:
        """Raise unless what a load reads is overwritten next, by its own block: then another kernel finds the same."""
        together, moves = self._together(array, load) or (None, [])
        if together is None or not together <= set(contribution.summed):
            name = contribution.source.params.get(array, array.hint)
            raise Scattered(4, f"it depends on array {name!r}, which the kernel writes", load.location)
        if contribution.once not in (None, together):
            raise Scattered(4, "it depends on arrays that different blocks write", load.location)
        contribution.once = together
        for move, size in moves:
            contribution.limits += move.limits(size, self.source.params[contribution.array], load.location)

    def _together(self, array: Value, load: Op) -> tuple[frozenset[Counter], list[tuple[Move, Size]]] | None:
        """By which coordinates the blocks differ that overwrite next what a load reads: only the first of these finds
        something. None where others may overwrite it."""
        store, *others = self.writers[array]
        home = self.source.home
        if others or not store.builtin.writes or "offset" not in store.operands or home.get(load) is None:
            return None
        if home[load] is not home[store]:
            return None
        arrays = [load.operands[load.builtin.reads[0]], store.operands[store.builtin.writes[0]]]
        alike = load.operands["offset"] == store.operands["offset"] and arrays[0] is arrays[1]
        if not alike or load.results[0].type.shape != _tile(store).shape:  # type: ignore[union-attr]
            return None
        ops = home[store].ops
        return self._not_apart(store) if ops.index(load) < ops.index(store) else None

    def _not_apart(self, store: Op) -> tuple[frozenset[Counter], list[tuple[Move, Size]]] | None:
        """The coordinates that do not move what an op writes; None where other blocks or iterations may write there."""
        source, around = self.source, self.source.around[store]
        parts = source.root(next(leaves(store.operands[store.builtin.writes[0]])))[1]
        items = [(item, 1) for part in parts for item in entries(part.operands["index"])]
        items += list(zip(entries(store.operands["offset"]), _tile(store).shape, strict=False))
        left, moves = self._counters(around), list[tuple[Move, Size]]()
        if left is None:
            return None
        for item, extent in items:
            sum = affine_of(item, source.defined)
            moving = [(self._counter(value), by) for value, by in sum.terms.items() if source.size(value) is None]
            if len(moving) == 1 and (counter := left.pop(moving[0][0], None)) is not None:
                step = moving[0][1] * (counter.step if isinstance(counter, Index) else 1)
                move, size = Move(counter, step, extent, sum.bits), trips_of(counter, self.dims)
                if abs(step) < extent or not move.may_hold(size):
                    return None
                moves.append((move, size))
            elif moving:
                return None
        found = frozenset(index for index in left.values() if isinstance(index, Grid))
        return (found, moves) if len(found) == len(left) else None

    def _counters(self, around: tuple[Op, ...]) -> dict[Any, Counter] | None:
        """What tells runs of an op in loops apart, each by its value; None where it is not known how often they run."""
        found: dict[Any, Counter] = {Grid(axis): Grid(axis) for axis in range(self.source.ndim)}
        for op in around:
            if not is_counted(op):
                return None
            start, stop, step = (self.source.size(op.operands[name]) for name in ("start", "stop", "step"))
            if start is None or stop is None or not isinstance(step, int) or not step:
                return None
            found[op.blocks[0].params[0]] = Index(op, start, stop, step)
        return found

    def _counter(self, value: Value) -> Any:
        op = self.source.defined.get(value)
        return Grid(op.attrs["axis"]) if op is not None and op.builtin is coordinate else value


def _tile(store: Op) -> TileType:
    (type,) = (value.type for value in store.inputs() if isinstance(value.type, TileType))
    return type


def _own_values(contribution: Contribution) -> tuple[set[Value], set[Value]]:
    """What is the contribution itself, in other places, and the factors of the product that it is."""
    source = contribution.source
    core, tail = split(source, contribution.value)
    own = {contribution.value, unrounded(source, contribution.value), core, *(op.results[0] for op in tail)}
    factors: set[Value] = set()
    if is_product(source, core):
        product = source.defined[core]
        for name in product.builtin.contraction[:2]:
            factor = product.operands[name]
            assert isinstance(factor, Value)
            factors.add(split(source, factor)[0])
    return own, factors


def _does_much(op: Op) -> bool:
    """Whether a branch or loop does more than choose numbers."""
    inner = [each for block in op.blocks for each in walk(block)]
    return any(each.builtin.reads or each.builtin.contraction or each.builtin.cooperative for each in inner)


def _slice(source: Source, value: Value) -> Iterator[Op]:
    """The ops that a value comes from."""
    seen, waiting = set[Op](), [value]
    while waiting:
        op = source.defined.get(waiting.pop())
        if op is not None and op not in seen:
            seen.add(op)
            yield op
            waiting += inputs_of(op)
