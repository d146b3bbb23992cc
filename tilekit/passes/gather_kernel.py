"""The kernels that stand for atomic additions: what is kept for all of them, and one that gathers for each array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilekit.builtins.array_elements import array_until
from tilekit.builtins.grid import coordinate
from tilekit.builtins.memory import tile_load, tile_store
from tilekit.errors import Location
from tilekit.ir.context import Builder, using
from tilekit.ir.core import Const, Function, Value, map_operand
from tilekit.ir.handles import OPERATORS, Array, wrap
from tilekit.ir.program import Computed, Launch, Program, Scratch
from tilekit.ir.sizes import CeilDiv, Min, Size, simplified
from tilekit.ir.types import ArrayType, ScalarType, TileType, int32, int64
from tilekit.passes.contributions import Contribution, Counter, Grid, Source, entries, trips_of
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.gather_conditions import Kept
from tilekit.passes.gather_nest import Nest, number_of, widened, zeros
from tilekit.passes.gather_widths import widths_of

MOST_DIMENSIONS = 4
"""Of a launch's grid."""


class Memory:
    """The scratch arrays and computed numbers of a program, with those that its new launches need."""

    def __init__(self, program: Program) -> None:
        self.scratch = dict(program.scratch)
        self.computed = dict(program.computed)
        self._program = program
        self._numbers: dict[Size, str] = {}

    def _free_name(self, stem: str) -> str:
        return replace(self._program, scratch=self.scratch, computed=self.computed).free_name(stem)

    def add(self, stem: str, type: ArrayType, shape: tuple[Size, ...]) -> tuple[str, Value]:
        """A new array, and its name."""
        name = self._free_name(stem)
        self.scratch[name] = Scratch(Value(type, stem), shape)
        return name, self.scratch[name].value

    def number(self, size: Size) -> tuple[str, Value]:
        """A size as a number that kernels take, and its name."""
        if size not in self._numbers:
            name = self._numbers[size] = self._free_name("count")
            self.computed[name] = Computed(Value(ScalarType(int32), name), size)
        return self._numbers[size], self.computed[self._numbers[size]].value


class Kernel:
    """A kernel that is being recorded, beside the one that it takes work from."""

    def __init__(self, fn: Function, name: str, dims: tuple[Size, ...], memory: Memory) -> None:
        self.fn = fn
        self.name = f"{fn.name}_{name}"
        self.dims = dims
        self.memory = memory
        self.params = dict(fn.params)
        self.here: Location | None = fn.location
        self.builder = Builder(locate=lambda: self.here)

    def number(self, size: Size) -> Any:
        """A size as an operand."""
        if isinstance(size, int):
            return Const(ScalarType(int32), size)
        name, value = self.memory.number(size)
        self.params[name] = value
        return value

    def done(self) -> Function:
        """The function, with the parameters that it uses."""
        body = self.builder.block(())
        used = {key: value for key, value in self.params.items() if value in body.free}
        return eliminate_dead_code(replace(self.fn, name=self.name, params=used, body=body))


def gather(
    fn: Function,
    name: str,
    contributions: list[Contribution],
    dims: tuple[Size, ...],
    kept: Mapping[Any, Kept],
    memory: Memory,
    own: Value | None = None,
) -> Launch:
    """The launch whose blocks each add up a part of an array; ``own`` is what stands for it, of another dtype."""
    kernel, first = Kernel(fn, name, dims, memory), contributions[0]
    widths = widths_of(contributions)

    def load(source: Source, value: Value, axes: Mapping[int, Any]) -> Value | None:
        found = kept.get(source.prints.of(value)) if kept else None
        if found is None:
            return None
        kernel.params[found.name] = found.array
        return found.load(axes, dims, kernel.number)

    nests = [Nest(each, kernel.builder, kernel.number, dims, load, widths) for each in contributions]
    with using(kernel.builder):
        counts = [coordinate(axis) * width for axis, width in enumerate(_along(first, widths))]
        total = zeros(TileType(first.type.dtype, widened(first.type.shape, widths)))
        for each, nest in zip(contributions, nests, strict=True):
            kernel.here = each.location
            nest.move(dict(zip(each.moving, counts, strict=True)))
            total = nest.add_to(total)
        kernel.here = first.location
        at = tuple(number_of(nests[0].value(item)) for item in entries(first.add.operands["offset"]))
        array = first.array if own is None else own
        kernel.params[name] = array
        array = _part(array, first, nests[0])
        for axis in widths:
            array = _until(array, axis, at[axis], first, counts, kernel)
        old = OPERATORS["cast"](tile_load(Array(array), total.shape, at), first.type.dtype)
        tile_store(Array(array), OPERATORS["cast"](old + total, array.type.dtype), at)
    return Launch(kernel.done(), _grid(contributions, dims, widths))


def _part(array: Value, contribution: Contribution, nest: Nest) -> Value:
    """The part of an array that a contribution is added to, as in ``a[i]``."""
    for part in contribution.parts:
        index, type = map_operand(part.operands["index"], nest.value), part.results[0].type
        assert isinstance(type, ArrayType) and part.builtin.part_of is not None
        result = Value(ArrayType(array.type.dtype, type.ndim))
        operands = {**part.operands, part.builtin.part_of: array, "index": index}
        nest.levels[0].ops.append(part.with_(operands=operands, results=(result,)))
        array = result
    return array


def _along(contribution: Contribution, widths: Mapping[int, int]) -> list[int]:
    """The tiles of a block along each axis that it moves on."""
    first = len(contribution.positions) - len(contribution.type.shape)
    positions = enumerate(contribution.positions)
    return [widths.get(number - first, 1) for number, position in positions if position.index is not None]


def _until(array: Value, axis: int, start: Any, contribution: Contribution, counts: list[Any], kernel: Kernel) -> Value:
    """The array up to where the last tile ends: of several side by side, some may lie beyond."""
    position = contribution.positions[len(contribution.positions) - len(contribution.type.shape) + axis]
    assert position.index is not None
    count = counts[contribution.moving.index(position.index)]
    left = number_of(kernel.number(trips_of(position.index, kernel.dims))) - count
    found = array_until(Array(array), _wide(start) + _wide(left) * position.extent, axis).datum
    assert isinstance(found, Value)
    return found


def _wide(number: Any) -> Any:
    """An integer of which a tile's extent can be taken as often as it likes without wrapping around."""
    return number if isinstance(number, int) else OPERATORS["cast"](number, int64)


def _grid(contributions: list[Contribution], dims: tuple[Size, ...], widths: Mapping[int, int]) -> tuple[Size, ...]:
    """A block for each position of their tile; none where the user's launch has no blocks."""
    first = contributions[0]
    along = zip(first.moving, _along(first, widths), strict=True)
    sizes = [(trips_of(index, dims), width) for index, width in along]
    moving = [simplified(size if width == 1 else CeilDiv(size, width)) for size, width in sizes]
    once = {index for each in contributions for index in each.once or ()}
    some = (Min(trips_of(index, dims), 1) for index in first.summed if index in once)
    return (*moving, *some)[:MOST_DIMENSIONS] or (1,)


def keep(fn: Function, kept: Mapping[Any, Kept], dims: tuple[Size, ...], memory: Memory) -> Function:
    """The function that computes values and stores them in scratch memory, and does nothing else."""
    kernel, done = Kernel(fn, "kept", dims, memory), dict[Any, Value]()

    def find(source: Source, value: Value, axes: Mapping[int, Any]) -> Value | None:
        return done.get(source.prints.of(value))

    with using(kernel.builder):
        at: dict[Counter, Any] = {Grid(axis): coordinate(axis) for axis in range(len(dims))}
        axes = {axis: at[Grid(axis)].datum for axis in range(len(dims))}
        for each in kept.values():
            kernel.here = each.contribution.location
            nest = Nest(each.contribution, kernel.builder, kernel.number, dims, find, {}, done)
            nest.move(at)
            found = nest.value(each.value)
            kernel.params[each.name] = each.array
            tile_store(Array(each.array), wrap(found), each.offset(axes, dims, kernel.number))
    return kernel.done()
