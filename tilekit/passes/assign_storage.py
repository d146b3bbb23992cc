"""Give every tile a buffer: values that never need to exist side by side share one, loops update in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tilekit.codegen.layouts import AnyLayout
from tilekit.codegen.storage import ALIGNMENT, SCRATCH_ALIGNMENT, Buffer, Storage, round_up
from tilekit.ir.core import Function, Op, Value, leaves
from tilekit.ir.regions import carried, carried_yields, emitted, emitted_params, region_of
from tilekit.ir.types import TileType
from tilekit.passes.liveness import Liveness


def assign_storage(fn: Function, layouts: Mapping[Value, AnyLayout] | None = None) -> Storage:
    """Buffers for the tiles of a function: in one arena, or where they have a layout, in registers."""
    found = _assigned(fn, layouts, in_place_first=False)
    if any(map(_copies(found), emitted(fn.body))):  # names that change places: in place, they may need less
        other = _assigned(fn, layouts, in_place_first=True)
        found = min(found, other, key=lambda storage: storage.size)
    return found


def _copies(storage: Storage) -> Callable[[Op], bool]:
    """Tells whether a region op copies tiles that it yields."""
    buffers = storage.buffers

    def copies(op: Op) -> bool:
        pairs = _yielded(op) if op.builtin.carries else ()
        return any(buffers.get(a) is not buffers.get(b) for a, b in pairs if isinstance(a, Value))

    return copies


def _assigned(fn: Function, layouts: Mapping[Value, AnyLayout] | None, in_place_first: bool) -> Storage:
    liveness = Liveness(fn)
    classes = _Classes(liveness, layouts or {})
    ops = list(emitted(fn.body))
    for op in ops:
        for value in (*op.results, *emitted_params(op)):
            if isinstance(value.type, TileType) and not op.builtin.view:
                classes.add(value)
    for op in ops:
        for a, b in must_share(op):
            classes.join(a, b)
    pairs = [pair for op in ops if in_place_first for pair in _reuses(op)]
    for first, second in (*pairs, *(pair for op in ops for pair in _may_share(op))):
        if isinstance(first, Value) and isinstance(second, Value) and {first, second} <= classes.of.keys():
            classes.try_join(first, second)
    for op in ops:
        _keep_apart(op, classes, liveness)
    return _layout(classes, {op.results[-1] for op in ops if op.builtin.scratch})


def _keep_apart(op: Op, classes: _Classes, liveness: Liveness) -> None:
    """A result takes over an operand's buffer whole or not at all; in part would overwrite it early."""
    for name in op.builtin.reuses:
        for operand in liveness.tiles(leaves(op.operands.get(name))):
            for result in liveness.tiles(op.results):
                if classes.of[operand] is not classes.of[result]:
                    classes.keep_apart(operand, result)


def must_share(op: Op) -> Iterator[tuple[Value, Value]]:
    """A loop's parameters and results are one variable; what a block makes, some elements at a time, is the result."""
    for each in carried(op) if op.builtin.carries else ():
        if each.param is not None and isinstance(each.param.type, TileType):
            yield each.param, each.result
    if op.blocks and region_of(op).runs == "elements":
        pairs = zip(op.blocks[0].results, op.results, strict=True)
        yield from ((own, result) for own, result in pairs if isinstance(own, Value) and isinstance(own.type, TileType))


def _yielded(op: Op) -> Iterator[tuple[object, Value]]:
    """What each block of a loop or branch yields, with the result that it becomes."""
    for block in op.blocks:
        yield from zip(carried_yields(op, block), op.results, strict=True)


def _may_share(op: Op) -> Iterator[tuple[object, object]]:
    """Pairs whose sharing saves a copy or memory, the most useful first."""
    if op.builtin.carries:
        yield from _yielded(op)
        yield from ((each.init, each.result) for each in carried(op))
    yield from _reuses(op)


def _reuses(op: Op) -> Iterator[tuple[object, object]]:
    """The operands in whose place an op may compute its result."""
    names = ([op.builtin.updates] if op.builtin.updates else []) + list(op.builtin.reuses)
    for name in names:
        for operand in leaves(op.operands.get(name)):
            for result in op.results[:1]:
                yield operand, result


@dataclass(eq=False)
class _Class:
    """Values that share one buffer."""

    members: set[Value]
    apart: set[Value]
    """What is alive together with one of them."""

    @property
    def type(self) -> TileType:
        type = next(iter(self.members)).type
        assert isinstance(type, TileType)
        return type

    @property
    def bytes(self) -> int:
        return self.type.size * self.type.dtype.itemsize

    def conflicts(self, other: _Class) -> bool:
        """Whether the two may not share a buffer; it takes as long as the smaller one has members."""
        small, large = sorted((self, other), key=lambda each: len(each.members))
        return not small.members.isdisjoint(large.apart)


class _Classes:
    """Which values share a buffer."""

    def __init__(self, liveness: Liveness, layouts: Mapping[Value, AnyLayout]) -> None:
        self.liveness = liveness
        self.layouts = layouts
        self.of: dict[Value, _Class] = {}

    def add(self, value: Value) -> None:
        if value not in self.of:
            self.of[value] = _Class({value}, self.liveness.interferes[value].copy())

    def join(self, a: Value, b: Value) -> None:
        small, large = sorted((self.of[a], self.of[b]), key=lambda each: len(each.members))
        if small is not large:  # the small one moves, so that each value moves a few times at most
            large.members |= small.members
            large.apart |= small.apart
            self.of.update(dict.fromkeys(small.members, large))

    def try_join(self, a: Value, b: Value) -> None:
        alike = a.type == b.type and self.layouts.get(a) == self.layouts.get(b)
        if self.of[a] is not self.of[b] and alike and not self.of[a].conflicts(self.of[b]):
            self.join(a, b)

    def keep_apart(self, a: Value, b: Value) -> None:
        self.of[a].apart.add(b)
        self.of[b].apart.add(a)

    def all(self) -> list[_Class]:
        return list(dict.fromkeys(self.of.values()))


def _layout(classes: _Classes, scratch: set[Value]) -> Storage:
    """Place the largest buffers first, each at the lowest offset free of those alive with it."""
    buffers: dict[_Class, Buffer] = {}
    end = 0
    for each in sorted(classes.all(), key=lambda each: -each.bytes):
        layout = classes.layouts.get(next(iter(each.members)))
        if layout is not None:
            buffers[each] = Buffer(each.type, -1, layout)
            continue
        alignment = ALIGNMENT if scratch.isdisjoint(each.members) else SCRATCH_ALIGNMENT
        near = {classes.of[value] for value in each.apart if value in classes.of}
        placed = (buffers[other] for other in near if other in buffers)
        taken = sorted((it.offset, it.offset + round_up(it.size)) for it in placed if it.layout is None)
        offset = 0
        for start, stop in taken:
            if offset + each.bytes <= start:
                break
            offset = round_up(max(offset, stop), alignment)
        buffers[each] = Buffer(each.type, offset)
        end = max(end, offset + round_up(each.bytes))
    return Storage({value: buffers[each] for value, each in classes.of.items()}, end)
