"""Loops that add a contribution up: each op stands in the outermost of them where all that it depends on is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tilekit.builtins.control import datum, for_range
from tilekit.builtins.grid import coordinate
from tilekit.builtins.views import view_of
from tilekit.ir.context import Builder, using
from tilekit.ir.core import Block, Const, Op, Value, leaves, make_op, map_operand
from tilekit.ir.handles import OPERATORS, wrap
from tilekit.ir.regions import inputs_of
from tilekit.ir.sizes import Size
from tilekit.ir.types import DType, ScalarType, TileType, float32, float64, int32
from tilekit.ir.views import ViewMap
from tilekit.passes.contributions import Contribution, Counter, Grid, Index, Source
from tilekit.passes.find_gemm_loops import swaps
from tilekit.passes.recompute import repeat
from tilekit.passes.scope import datum_of

INDEX = ScalarType(int32)


class Nest:
    """The loops of one contribution, around ops that compute it again.

    Args:
        contribution: What is added up.
        builder: Of the function.
        number: Gives a size as an operand.
        load: Gives a value that lies in scratch memory, from what the coordinates are; None for others.
    """

    def __init__(
        self,
        contribution: Contribution,
        builder: Builder,
        number: Callable[[Size], Any],
        dims: tuple[Size, ...],
        load: Callable[[Source, Value, Mapping[int, Any]], Value | None],
        widths: Mapping[int, int],
        done: dict[Any, Value] | None = None,
    ) -> None:
        self.contribution = contribution
        self.source: Source = contribution.source
        self.levels = [builder]
        self.at: dict[Counter, Any] = {}
        self.number = number
        self.dims = dims
        self.load = load
        self.done = done
        """By fingerprint, what was computed outside of loops, for nests that follow."""
        self.level: dict[Value, int] = {}
        self.known: dict[Value, Any] = {value: value for value in self.source.params}
        self.bounds: list[tuple[Any, Any, Any]] = []
        self.indices: list[Value] = []
        self.widths = widths
        """How many tiles a block sums side by side along axes of the product; one along others."""

    def move(self, counts: Mapping[Counter, Any]) -> None:
        """Set the indices that move the tiles, from how many lie before that of the block."""
        self.at.update(dict.fromkeys(self.contribution.once or (), Const(INDEX, 0)))
        for index, count in counts.items():
            if isinstance(index, Index):
                first, _, step = self._range(index)
                start, type = number_of(first), index.value.type
                assert isinstance(type, ScalarType) and isinstance(step, Const)
                there = count if type.dtype is int32 else OPERATORS["cast"](count, type.dtype)
                there = there if step.value == 1 else there * int(step.value)
                found = datum(there if isinstance(start, int) and start == 0 else there + start, type)
                self.known[index.value] = found
                self.at[index] = found
            else:
                self.at[index] = datum_of(count)

    def open(self) -> None:
        """Begin the loops."""
        for index in self.contribution.added:
            self.bounds.append(self._range(index))
            value = Value(index.value.type if isinstance(index, Index) else INDEX)
            self.indices.append(value)
            self.levels.append(Builder(locate=self.levels[0].locate))
            self.level[value] = len(self.levels) - 1
            self.at[index] = value
            if isinstance(index, Index):
                self.known[index.value] = value

    def _range(self, index: Counter) -> tuple[Any, Any, Any]:
        """Start, stop and step of a loop that counts up."""
        if isinstance(index, Grid):
            return Const(INDEX, 0), self.number(self.dims[index.axis]), Const(INDEX, 1)
        operands, type = index.loop.operands, index.value.type
        start, stop = (number_of(self.value(operands[name])) for name in ("start", "stop"))
        step = index.step
        if step < 0:
            count = index.trips
            if isinstance(start, int) and isinstance(count, int):
                start, stop = start + step * (count - 1), start + 1
            elif step == -1:
                start, stop = stop + 1, start + 1
            else:
                start, stop = start + like(start, (number_of(self.number(count)) - 1) * step), start + 1
            step = -step
        assert isinstance(type, ScalarType)
        return datum(start, type), datum(stop, type), Const(type, step)

    def value(self, item: Any) -> Any:
        """What a value of the contribution's function is here."""
        if not isinstance(item, Value):
            return item
        waiting = [item]  # no recursion: Python's stack is too short for the chains of unrolled loops
        while waiting:
            at = unrounded(self.source, waiting.pop())
            if at in self.known or (op := self.source.defined[at]).builtin is coordinate:
                continue
            if (found := self._loaded(at)) is not None:
                self.known[at] = found
            elif first := [each for each in map(partial(unrounded, self.source), inputs_of(op)) if not self._has(each)]:
                waiting += (at, *reversed(first))
            else:
                self.known[at] = self._repeated(op, at)
        item = unrounded(self.source, item)
        return self.known[item] if item in self.known else self.at[Grid(self.source.defined[item].attrs["axis"])]

    def _has(self, item: Value) -> bool:
        return item in self.known or self.source.defined[item].builtin is coordinate

    def _loaded(self, item: Value) -> Value | None:
        axes = {index.axis: value for index, value in self.at.items() if isinstance(index, Grid)}
        level = max((self.level.get(value, 0) for value in axes.values() if isinstance(value, Value)), default=0)
        with using(self.levels[level]):
            found = self.load(self.source, item, axes)
        if found is not None:
            self.level[found] = level
        return found

    def _repeated(self, op: Op, item: Value) -> Value:
        inputs = (*op.inputs(), *(value for block in op.blocks for value in block.free))
        given = [self.value(value) for value in inputs]
        level = max((self.level.get(value, 0) for value in given if isinstance(value, Value)), default=0)
        if op.runs_anyway and not op.builtin.part_of:
            level = len(self.levels) - 1  # it may report what only an iteration would
        found = repeat(op, self.value, self.levels[level])
        self.known.update(zip(op.results, found, strict=True))
        self.level.update(dict.fromkeys(found, level))
        if self.done is not None:
            self.done.update((self.source.prints.of(old), new) for old, new in zip(op.results, found, strict=True))
        return found[op.results.index(item)]

    def add_to(self, total: Any) -> Any:
        """The loops, which add the contribution to a tile; gives the tile with it."""
        self.open()
        core, tail, swapped = product_of(self.source, self.contribution.value)
        assert isinstance(core.type, TileType)
        shape = core.type.shape[::-1] if swapped else core.type.shape
        type = TileType(core.type.dtype, widened(shape, self.widths))
        with using(self.levels[0]):
            sums = total if not tail else zeros(type)
        params = [Value(type) for _ in self.indices]
        inner = params[-1] if params else datum_of(sums)
        result = self._product(core, inner, swapped) if is_product(self.source, core) else self._sum(core, inner)
        result = self._close(params, datum_of(sums), result)
        if not tail:
            return wrap(result)
        with using(self.levels[0]):
            return total + wrap(self._through(tail, result))

    def _product(self, core: Value, total: Value, swapped: bool) -> Value:
        op = self.source.defined[core]
        names = op.builtin.contraction
        operands = {name: map_operand(item, self.value) for name, item in op.operands.items() if name not in names}
        for axis, name in enumerate(names[:2]):
            operands[name] = self._factor(op.operands[names[1 - axis] if swapped else name], axis, swapped)
        beta = op.operands["beta"]
        assert beta is not None and not isinstance(beta, tuple)
        operands = {name: operands.get(name, total) for name in op.operands} | {"beta": Const(beta.type, 1.0)}  # type: ignore[arg-type]
        result = Value(total.type)
        self.levels[-1].ops.append(make_op(op.builtin, operands, op.attrs, (result,), (), op.location))
        return result

    def _factor(self, factor: Any, axis: int, swapped: bool) -> Value:
        """A factor of the product, with as many tiles side by side as its block sums along ``axis`` of it."""
        value, turned = turned_of(self.source, factor)
        turned ^= swapped
        if axis in self.widths:
            found = self._wide(self.source.defined[value], 1 - axis if turned else axis, self.widths[axis])
        else:
            found = self.value(value)
        if not turned:
            return found
        assert isinstance(found.type, TileType)
        shape = found.type.shape[::-1]
        result = Value(TileType(found.type.dtype, shape))
        map = ViewMap(shape, ViewMap.identity(shape[::-1]).strides[::-1])
        level = self.level.get(found, 0)
        operands = {"base": found, "offset": None}
        self.levels[level].ops.append(make_op(view_of, operands, {"map": map}, (result,)))
        self.level[result] = level
        return result

    def _wide(self, load: Op, axis: int, width: int) -> Value:
        """A load of so many tiles side by side along an axis."""
        offset = map_operand(load.operands["offset"], self.value)
        arrays = {name: self.value(load.operands[name]) for name in load.builtin.reads}
        level = max(self.level.get(value, 0) for value in (*leaves(offset), *arrays.values()))
        shape = widened(load.attrs["shape"], {axis: width})
        operands, attrs = {**load.operands, **arrays, "offset": offset}, {**load.attrs, "shape": shape}
        result = Value(TileType(load.results[0].type.dtype, shape))
        self.levels[level].ops.append(make_op(load.builtin, operands, attrs, (result,), (), load.location))
        self.level[result] = level
        return result

    def _sum(self, core: Value, total: Value) -> Value:
        more = self.value(core)
        with using(self.levels[-1]):
            found = datum_of(wrap(total) + wrap(more))
        assert isinstance(found, Value)
        return found

    def _close(self, params: list[Value], first: Any, result: Any) -> Any:
        for number in reversed(range(len(self.indices))):
            init = params[number - 1] if number else first
            block = self.levels[number + 1].block((self.indices[number], params[number]), (result,))
            start, stop, step = self.bounds[number]
            with using(self.levels[number]):
                found = for_range.record({"start": start, "stop": stop, "step": step, "init": (init,)}, {}, (block,))
            result = datum_of(found)
        return result

    def _through(self, tail: list[Op], value: Any) -> Any:
        """What became of a product, as of their sum."""
        for op in reversed(tail):
            name = "base" if op.builtin.view else "value"
            operands = {key: map_operand(item, self.value) for key, item in op.operands.items() if key != name}
            result = Value(op.results[0].type)
            operands = {key: operands.get(key, value) for key in op.operands}
            self.levels[0].ops.append(make_op(op.builtin, operands, op.attrs, (result,), (), op.location))
            value = result
        return value


def zeros(type: TileType) -> Any:
    """A tile of zeros."""
    return OPERATORS["full"](type.shape, 0, type.dtype)


def widened(shape: tuple[int, ...], widths: Mapping[int, int]) -> tuple[int, ...]:
    """A tile's shape with several tiles side by side along some axes."""
    return tuple(extent * widths.get(axis, 1) for axis, extent in enumerate(shape))


def product_of(source: Source, value: Value) -> tuple[Value, list[Op], bool]:
    """The product that a tile is, the ops that put its elements in other places, and whether it is to be transposed
    first; of a tile that is no product, itself."""
    core, tail = split(source, value)
    if not is_product(source, core):
        return value, [], False
    swapped = len(tail) == 1 and is_transposition(tail[0])
    return core, [] if swapped else tail, swapped


def is_transposition(op: Op) -> bool:
    """Whether an op that moves all elements of a tile swaps its two axes."""
    map = op.attrs["map"]
    assert isinstance(map, ViewMap)
    return len(map.shape) == 2 and map == ViewMap(map.shape, ViewMap.identity(map.shape[::-1]).strides[::-1])


def turned_of(source: Source, value: Any) -> tuple[Value, bool]:
    """The tile that another one shows, and whether it shows it with its axes swapped."""
    turned = False
    while (op := source.defined.get(value)) is not None and op.builtin.view and swaps(op):
        turned, value = not turned, next(op.inputs())
    assert isinstance(value, Value)
    return value, turned


def number_of(operand: Any) -> Any:
    """An integer operand as a Python number or a handle."""
    return int(operand.value) if isinstance(operand, Const) else wrap(operand)


def like(number: Any, other: Any) -> Any:
    """An int32 in the dtype of a number that it is added to."""
    if isinstance(number, int) or number.dtype is int32 or isinstance(other, int):
        return other
    return OPERATORS["cast"](other, number.dtype)


def is_product(source: Source, value: Value) -> bool:
    """Whether a value is a matrix product that is added to nothing."""
    op = source.defined.get(value)
    if op is None or not op.builtin.contraction or not isinstance(op.operands.get("beta"), Const):
        return False
    old = op.operands[op.builtin.contraction[2]]
    return old is None or is_zero(source, old) or op.operands["beta"].value == 0  # type: ignore[union-attr]


def is_zero(source: Source, value: Any) -> bool:
    """Whether a tile is filled with zeros."""
    op = source.defined.get(value)
    if op is None or op.builtin is not OPERATORS["full"]:
        return False
    filled = op.operands["value"]
    return isinstance(filled, Const) and filled.value == 0


def split(source: Source, value: Value) -> tuple[Value, list[Op]]:
    """The value whose elements a tile has in other places, and the ops that put them there, the last one first."""
    tail: list[Op] = []
    while True:
        value = unrounded(source, value)
        op = source.defined.get(value)
        if op is None or not _moves_all(source, op):
            return value, tail
        tail.append(op)
        moved = op.operands["base" if op.builtin.view else "value"]
        assert isinstance(moved, Value)
        value = moved


def _moves_all(source: Source, op: Op) -> bool:
    """Whether an op gives each element of one tile another place, and nothing else."""
    if op.builtin is OPERATORS["view"]:
        base, whole = next(op.inputs()).type, op.results[0].type
    elif op.builtin is OPERATORS["view="] and is_zero(source, op.operands["base"]):
        base = whole = op.results[0].type
    else:
        return False
    map = op.attrs["map"]
    assert isinstance(base, TileType) and isinstance(whole, TileType) and isinstance(map, ViewMap)
    return op.operands["offset"] is None and map.size == base.size and not map.overlaps_itself()


def unrounded(source: Source, value: Value) -> Value:
    """The first of the values that are the same number, through conversions that lose nothing."""
    chain = [value]
    while (step := _converted(source, chain[-1])) is not None:
        chain.append(step)
    for number in reversed(range(1, len(chain))):
        dtypes = [item.type.dtype for item in chain[: number + 1]]
        if dtypes[0] is dtypes[-1] and all(_holds(dtype, dtypes[0]) for dtype in dtypes):
            return chain[number]
    return value


def _holds(dtype: DType, other: DType) -> bool:
    return dtype is other or dtype is float64 or (dtype is float32 and other.bits == 16)


def _converted(source: Source, value: Value) -> Value | None:
    """What a tile is converted from, element by element."""
    op = source.defined.get(value)
    if op is None or op.builtin.carries or len(op.blocks) != 1 or not isinstance(value.type, TileType):
        return None
    (block,), inputs = op.blocks, tuple(op.inputs())
    if len(inputs) != 1 or len(block.params) != 1 or not inputs[0].type.dtype.is_float or not _is_chain(block):
        return None
    return inputs[0] if isinstance(inputs[0].type, TileType) and inputs[0].type.shape == value.type.shape else None


def _is_chain(block: Block) -> bool:
    """Whether a block converts its parameter and does nothing else, without loss on the way."""
    value: Any = block.params[0]
    for op in block.ops:
        known = op.builtin is OPERATORS["cast"] and next(op.inputs(), None) is value
        if not known or not _holds(op.results[0].type.dtype, block.results[0].type.dtype):
            return False
        value = op.results[0]
    return value is block.results[0]
