"""Gathers what a kernel adds to arrays atomically: a kernel of its own for each array, whose blocks own their tiles.

``differentiate`` adds the gradient of a load where the load was, atomically, since other blocks add to the same elements.
Where the tiles of all loads of an array are the same parts of it, each moved by indices of the grid or of loops, a block
for each part can add up what there is: over the other indices, ascending. That needs no atomics, gives the same bits
every time, and what was *load, load, multiply* is so again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilekit.builtins.array_elements import array_until
from tilekit.builtins.grid import coordinate
from tilekit.builtins.memory import tile_load, tile_store
from tilekit.errors import KernelNotImplementedError, Location
from tilekit.ir.context import Builder, using
from tilekit.ir.core import Block, Const, Function, Op, Value, walk
from tilekit.ir.handles import OPERATORS, Array, wrap
from tilekit.ir.program import Launch, Program, Scratch, Summed
from tilekit.ir.sizes import CeilDiv, Dim, Size
from tilekit.ir.types import ArrayType, ScalarType, TileType, int32, uint8
from tilekit.passes.activity import written_parameters
from tilekit.passes.contributions import (
    Contribution,
    Counter,
    Grid,
    NotGathered,
    Source,
    additions,
    entries,
    without,
)
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.gather_conditions import Conditions, Kept
from tilekit.passes.gather_nest import Nest, like, number_of, widened
from tilekit.passes.gather_widths import widths_of
from tilekit.passes.host_sizes import folded
from tilekit.passes.scope import zero_of
from tilekit.passes.wanted import read_parameters


def gather_gradients(program: Program, ndim: int, deterministic: bool = False) -> Program:
    """The program with atomic additions replaced by launches that gather, where that is possible.

    Args:
        program: As ``differentiate`` gives it.
        ndim: Dimensions of the user's launch.
        deterministic: Whether a float that must be added atomically is an error.

    Returns:
        A program that gives the same sums. ``sums`` says of each array whether it is gathered, or why not.

    Raises:
        KernelNotImplementedError: ``deterministic``, and an array cannot be gathered.
    """
    gathering = _Gathering(program, ndim)
    launches = [new for launch in program.launches for new in gathering.expand(launch)]
    if deterministic:
        _require_gathered(program, gathering.failed)
    scratch = {**program.scratch, **gathering.scratch}
    return replace(program, launches=tuple(launches), scratch=scratch, sums=tuple(gathering.sums))


def _require_gathered(program: Program, failed: Mapping[str, NotGathered]) -> None:
    for name, why in failed.items():
        raise KernelNotImplementedError(
            f"{program.name}: {name!r} would be added up by atomics, in another order in every run, and the option "
            f"deterministic is on: {why.text}",
            why.location,
        )


class _Gathering:
    """What the launches of a program share while they are replaced."""

    def __init__(self, program: Program, ndim: int) -> None:
        self.program = program
        self.ndim = ndim
        self.scratch: dict[str, Scratch] = {}
        self.sums: list[Summed] = []
        self.failed: dict[str, NotGathered] = {}
        self.numbers: dict[Size, str] = {}

    def fresh(self, stem: str) -> str:
        """A name that neither a parameter nor a scratch array has."""
        known = {*self.program.params, *self.program.scratch, *self.scratch}
        return next(name for number in range(len(known) + 1) if (name := f"{stem}{number}") not in known)

    def expand(self, launch: Launch) -> Iterator[Launch]:
        """What stands for a launch."""
        fn = launch.function
        dims = launch.grid or tuple(Dim(axis) for axis in range(self.ndim))
        found, gathered = additions(fn), dict[Value, list[Contribution]]()
        if not launch.tiled or any(op.builtin.lane for op in walk(fn.body)) or not found:
            yield launch
            return
        names = {value: name for name, value in fn.params.items()}
        sized = {value: name for value, name in names.items() if name in self.program.params}
        conditions = Conditions(fn, len(dims))
        for array, ops in found.items():
            try:
                gathered[array] = contributions_to(conditions, array, ops, sized)
            except NotGathered as why:
                self._note(names, array, why)
        kept = self._keep(conditions, gathered, names, dims)
        rest = without(fn, lambda op: any(op in found[array] for array in gathered))
        made = {array: gather(fn, names[array], each, dims, kept, self) for array, each in gathered.items()}
        first = [_keeping(fn, kept, dims, self)] if kept else []
        last = [rest] if any(op.has_effect for op in rest.body.ops) else []
        if first and last and _goes_first(rest, made.values()):
            first, last = [_joined(first[0], rest)], []
        yield from (replace(launch, function=each) for each in first)
        for array, contributions in gathered.items():
            self.sums.append(Summed(names[array], True, _how(contributions, made[array], dims)))
            yield made[array]
        yield from (replace(launch, function=each) for each in last)

    def _note(self, names: Mapping[Value, str], array: Value, why: NotGathered) -> None:
        name = names.get(array, "an array")
        self.failed[name] = why
        self.sums.append(Summed(name, False, why.text))

    def _keep(
        self, conditions: Conditions, gathered: dict[Value, list[Contribution]], names: Any, dims: tuple[Size, ...]
    ) -> dict[Any, Kept]:
        """The values that are computed once, for all kernels that gather; arrays for which that fails are taken out."""
        kept: dict[Any, Kept] = {}
        for array, contributions in list(gathered.items()):
            try:
                wanted = [(each, *found) for each in contributions for found in conditions.kept_by(each)]
            except NotGathered as why:
                del gathered[array]
                self._note(names, array, why)
                continue
            for each, value, axes in wanted:
                key = each.source.prints.of(value)
                if key not in kept:
                    type = value.type
                    assert isinstance(type, TileType)
                    scratch = Value(ArrayType(type.dtype, len(type.shape)), "kept")
                    kept[key] = Kept(scratch, self.fresh("kept"), value, each, axes)
                    self.scratch[kept[key].name] = Scratch(scratch, kept[key].shape(dims))
        return kept

    def number(self, size: Size, params: dict[str, Value]) -> Any:
        """A size as an operand: the extent of an array without elements, if the host must compute it."""
        if isinstance(size, int):
            return Const(ScalarType(int32), size)
        if size not in self.numbers:
            name = self.fresh("extent")
            self.numbers[size] = name
            self.scratch[name] = Scratch(Value(ArrayType(uint8, 2), "extent"), (size, 0))
        name = self.numbers[size]
        array = self.scratch[name].value
        params[name] = array
        return OPERATORS["shape"](Array(array), 0).datum


def contributions_to(
    conditions: Conditions, array: Value, ops: list[Op], sized: Mapping[Value, str]
) -> list[Contribution]:
    """The contributions to an array in the forward's order, if one kernel can gather them all.

    Raises:
        NotGathered: it cannot.
    """
    fn, ndim = conditions.source.fn, conditions.source.ndim
    if array not in fn.params.values():
        raise NotGathered(1, "which array it is, is only known at run time", ops[0].location)
    other = conditions.stores(array)
    if other is not None:
        raise NotGathered(4, "the kernel also writes the array", other.location)
    found = [Contribution(fn, op, ndim, sized) for op in reversed(ops)]
    first = found[0]
    for each in found[1:]:
        if [p.key for p in each.positions] != [p.key for p in first.positions]:
            line = first.location.line if first.location else 0
            raise NotGathered(
                1, f"its tiles are not the same parts of the array as those of line {line}", each.location
            )
    return found


def gather(
    fn: Function,
    name: str,
    contributions: list[Contribution],
    dims: tuple[Size, ...],
    kept: Mapping[Any, Kept],
    gathering: _Gathering,
) -> Launch:
    """The launch whose blocks each add up a tile of an array."""
    first = contributions[0]
    params = dict(fn.params)
    here: Location | None = first.location
    builder = Builder(locate=lambda: here)

    def number(size: Size) -> Any:
        with using(builder):
            return gathering.number(size, params)

    def load(source: Source, value: Value, axes: Mapping[int, Any]) -> Value | None:
        found = kept.get(source.prints.of(value)) if kept else None
        if found is None:
            return None
        params[found.name] = found.array
        return found.load(axes, dims, number)

    widths = widths_of(contributions)
    nests = []
    with using(builder):
        counts = [_first(coordinate(axis), width) for axis, width in enumerate(_along(first, widths))]
        total = wrap(zero_of(TileType(first.type.dtype, widened(first.type.shape, widths))))
        for each in contributions:
            here = each.location
            nests.append(Nest(each, builder, number, dims, load, widths))
            nests[-1].move(dict(zip(each.moving, counts, strict=True)))
            total = nests[-1].add_to(total)
        here = first.location
        at = tuple(number_of(nests[0].value(item)) for item in entries(first.add.operands["offset"]))
        (target,) = (first.add.operands[key] for key in first.add.builtin.atomics)
        array = nests[0].value(target)
        for axis in widths:
            array = _until(array, axis, at[axis], first, counts, number, dims)
        tile_store(Array(array), tile_load(Array(array), total.shape, at) + total, at)
    body = builder.block(())
    used = {key: value for key, value in params.items() if value in body.free}
    made = Function(f"{fn.name}_{name}", used, body, fn.location, fn.options)
    return Launch(eliminate_dead_code(made), grid_of(first, dims, widths))


def _first(count: Any, width: int) -> Any:
    """How many tiles lie before those of a block."""
    return count if width == 1 else count * width


def _along(contribution: Contribution, widths: Mapping[int, int]) -> list[int]:
    """The tiles of a block along each axis that it moves on."""
    first = len(contribution.positions) - len(contribution.type.shape)
    positions = enumerate(contribution.positions)
    return [widths.get(number - first, 1) for number, position in positions if position.index is not None]


def _until(
    array: Value,
    axis: int,
    start: Any,
    contribution: Contribution,
    counts: list[Any],
    number: Callable[[Size], Any],
    dims: tuple[Size, ...],
) -> Value:
    """The array up to where the last tile ends: of several side by side, some may lie beyond."""
    position = contribution.positions[len(contribution.positions) - len(contribution.type.shape) + axis]
    assert position.index is not None
    count = counts[contribution.moving.index(position.index)]
    left = number_of(number(_trips(position.index, dims))) - count
    found = array_until(Array(array), start + like(start, left * position.extent), axis).datum
    assert isinstance(found, Value)
    return found


def _trips(index: Counter, dims: tuple[Size, ...]) -> Size:
    return dims[index.axis] if isinstance(index, Grid) else index.trips


def grid_of(contribution: Contribution, dims: tuple[Size, ...], widths: Mapping[int, int]) -> tuple[Size, ...]:
    """The grid of the kernel that gathers: a block for each position of its tile."""
    along = zip(contribution.moving, _along(contribution, widths), strict=True)
    sizes = [
        folded(_trips(index, dims) if width == 1 else CeilDiv(_trips(index, dims), width)) for index, width in along
    ]
    return tuple(size for size in sizes if size is not None) or (1,)


def _how(contributions: list[Contribution], launch: Launch, dims: tuple[Size, ...]) -> str:
    """In words, what a kernel that gathers does."""
    over = f"over a grid of ({', '.join(map(str, launch.grid or ()))})"
    sums = [" and ".join(str(_trips(index, dims)) for index in each.summed) for each in contributions]
    return f"{over}, each the sum of {'; then of '.join(text or 'one' for text in sums)}"


def _goes_first(rest: Function, gathering: Iterable[Launch]) -> bool:
    """Whether what is left of a function may run before the kernels that gather: it only stores what they do not read."""
    read = {name for launch in gathering for name in read_parameters(launch.function)}
    return not additions(rest) and read.isdisjoint(written_parameters(rest))


def _joined(first: Function, then: Function) -> Function:
    """One function of two over the same grid."""
    body = Block((), (*first.body.ops, *then.body.ops))
    return Function(first.name, {**first.params, **then.params}, body, first.location, first.options)


def _keeping(fn: Function, kept: Mapping[Any, Kept], dims: tuple[Size, ...], gathering: _Gathering) -> Function:
    """The function that computes values and stores them in scratch memory, and does nothing else."""
    builder = Builder(locate=lambda: fn.location)
    params, done = dict(fn.params), dict[Any, Value]()

    def number(size: Size) -> Any:
        return gathering.number(size, params)

    def find(source: Source, value: Value, axes: Mapping[int, Any]) -> Value | None:
        return done.get(source.prints.of(value))

    with using(builder):
        at = {Grid(axis): coordinate(axis) for axis in range(len(dims))}
        axes = {index.axis: value.datum for index, value in at.items()}
        for each in kept.values():
            nest = Nest(each.contribution, builder, number, dims, find, {}, done)
            nest.move(at)
            found = nest.value(each.value)
            params[each.name] = each.array
            tile_store(Array(each.array), wrap(found), each.offset(axes, dims, number))
    body = builder.block(())
    used = {key: value for key, value in params.items() if value in body.free}
    return eliminate_dead_code(Function(f"{fn.name}_kept", used, body, fn.location, fn.options))
