"""Gathers what a kernel adds to arrays atomically: a kernel of its own for each array, whose blocks own their tiles.

``differentiate`` adds the gradient of a load where the load was: atomically, as other blocks add to the same elements.
Where the tiles of all loads of an array are the same parts of it, each moved by indices of the grid or of loops, one
block for each part can add up what there is: over the other indices, ascending. That needs no atomics, gives the same
bits every time, and what was *load, load, multiply* is so again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilekit.ir.core import Block, Function, Op, Value, type_of, walk
from tilekit.ir.program import Launch, Limit, Program, Summed
from tilekit.ir.sizes import Dim, Size
from tilekit.ir.types import ArrayType, TileType
from tilekit.passes.activity import read_parameters, written_parameters
from tilekit.passes.contributions import Contribution, Scattered, added_by, additions, trips_of, without
from tilekit.passes.gather_conditions import Conditions, Kept
from tilekit.passes.gather_kernel import Memory, gather, keep


def gather_gradients(program: Program, ndim: int, tiled: bool, apart: Mapping[str, Value]) -> Program:
    """The program with atomic additions of tiles replaced by launches that gather, where that is possible.

    Args:
        program: As ``differentiate`` gives it.
        ndim: Dimensions of the user's launch.
        tiled: Whether each point of the user's grid is a block.
        apart: Gradients that are summed in a wider dtype than they have, as arrays of their own dtype.

    Returns:
        A program that gives the same sums; what gathers adds to the arrays of ``apart``. ``sums`` says of each array to
        which only tiles of blocks are added whether it is gathered, or why not.
    """
    gathering = _Gathering(program, ndim, tiled, apart)
    launches = [new for launch in program.launches for new in gathering.expand(launch)]
    memory, sums, limits = gathering.memory, tuple(gathering.sums.values()), tuple(gathering.limits)
    made = replace(program, launches=tuple(launches), scratch=memory.scratch, computed=memory.computed)
    return replace(made, sums=sums, limits=limits)


class _Gathering:
    """What the launches of a program share while they are replaced."""

    def __init__(self, program: Program, ndim: int, tiled: bool, apart: Mapping[str, Value]) -> None:
        self.program = program
        self.ndim = ndim
        self.tiled = tiled
        self.current = ""
        """The function that is looked at."""
        self.memory = Memory(program)
        self.apart = apart
        self.sums: dict[str, Summed] = {}
        self.limits: list[Limit] = []

    def expand(self, launch: Launch) -> Iterator[Launch]:
        """What stands for a launch."""
        self.current = launch.function.name
        fn, found = launch.function, additions(launch.function)
        dims = launch.grid or tuple(Dim(axis) for axis in range(self.ndim))
        names = {value: name for name, value in fn.params.items()}
        conditions = Conditions(fn, dims)
        gathered = self._gathered(launch, found, names, conditions)
        kept = self._keep(conditions, gathered, names, dims)
        if not gathered:
            yield launch
            return
        rest = without(fn, lambda op: any(op in found[array] for array in gathered))
        made = {
            array: gather(fn, names[array], each, dims, kept, self.memory, self.apart.get(names[array]))
            for array, each in gathered.items()
        }
        first = [keep(fn, kept, dims, self.memory)] if kept else []
        last = [rest] if any(op.has_effect for op in rest.body.ops) else []
        together = any(each.once for contributions in gathered.values() for each in contributions)
        if first and last and not together and _goes_first(rest, made.values()):
            first, last = [_joined(first[0], rest)], []
        yield from (replace(launch, function=each) for each in first)
        for array, each in made.items():
            how, name = _how(gathered[array], each, dims), each.function.name
            self.sums[names[array]] = Summed(names[array], "gathered", how, name)
            self.limits += (limit for contribution in gathered[array] for limit in contribution.limits)
            yield each
        yield from (replace(launch, function=each) for each in last)

    def _gathered(
        self, launch: Launch, found: Mapping[Value, list[Op]], names: Mapping[Value, str], conditions: Conditions
    ) -> dict[Value, list[Contribution]]:
        """The contributions to each array that gathers as far as its tiles decide."""
        fn, gathered = launch.function, dict[Value, list[Contribution]]()
        sized = {value: name for value, name in names.items() if name in self.program.params}
        if any(op.builtin.lane for op in walk(fn.body)) or not (self.tiled if launch.grid is None else launch.tiled):
            return {}
        for array, ops in found.items():
            if not all(isinstance(type_of(added_by(op)), TileType) for op in ops):
                continue
            try:
                gathered[array] = _contributions(conditions, array, ops, sized)
            except Scattered as why:
                self._note(names, array, why)
        return gathered

    def _note(self, names: Mapping[Value, str], array: Value, why: Scattered) -> None:
        name = names.get(array, "an array")
        self.sums[name] = why.of(name, self.current)

    def _keep(
        self,
        conditions: Conditions,
        gathered: dict[Value, list[Contribution]],
        names: Mapping[Value, str],
        dims: tuple[Size, ...],
    ) -> dict[Any, Kept]:
        """The values that are computed once, for all kernels that gather; arrays that then fail are taken out."""
        kept: dict[Any, Kept] = {}
        for array, contributions in list(gathered.items()):
            try:
                wanted = [(each, *found) for each in contributions for found in conditions.kept_by(each)]
            except Scattered as why:
                del gathered[array]
                self._note(names, array, why)
                continue
            for each, value, axes in wanted:
                key = each.source.prints.of(value)
                if key not in kept:
                    assert isinstance(value.type, TileType)
                    shape = tuple(Kept.size(*along, dims) for along in zip(value.type.shape, axes, strict=True))
                    name, scratch = self.memory.add("kept", ArrayType(value.type.dtype, len(shape)), shape)
                    kept[key] = Kept(scratch, name, value, each, axes)
        return kept


def _contributions(
    conditions: Conditions, array: Value, ops: list[Op], sized: Mapping[Value, str]
) -> list[Contribution]:
    """The contributions to an array in the forward's order, if one kernel can gather them all.

    Raises:
        Scattered: it cannot.
    """
    fn = conditions.source.fn
    if array not in fn.params.values():
        raise Scattered(1, "which array it is, is only known at run time", ops[0].location)
    other = conditions.stores(array, ops)
    if other is not None:
        raise Scattered(4, "the kernel also writes the array", other.location)
    found = [Contribution(fn, op, conditions.dims, sized, conditions.table) for op in reversed(ops)]
    first = found[0]
    for each in found[1:]:
        if [p.key for p in each.positions] != [p.key for p in first.positions]:
            line = first.location.line if first.location else 0
            raise Scattered(1, f"its tiles are not the same parts of the array as those of line {line}", each.location)
    return found


def _how(contributions: list[Contribution], launch: Launch, dims: tuple[Size, ...]) -> str:
    """In words, what a kernel that gathers does."""
    over = f"over a grid of ({', '.join(map(str, launch.grid or ()))})"
    sums = [" and ".join(str(trips_of(index, dims)) for index in each.added) for each in contributions]
    return f"{over}, each the sum of {'; then of '.join(text or 'one' for text in sums)}"


def _goes_first(rest: Function, gathering: Iterable[Launch]) -> bool:
    """Whether what is left of a function may run before kernels that gather: it only stores what they do not read."""
    read = {name for launch in gathering for name in read_parameters(launch.function)}
    return not additions(rest) and read.isdisjoint(written_parameters(rest))


def _joined(first: Function, then: Function) -> Function:
    """One function of two over the same grid."""
    body = Block((), (*first.body.ops, *then.body.ops))
    return replace(first, params={**first.params, **then.params}, body=body)
