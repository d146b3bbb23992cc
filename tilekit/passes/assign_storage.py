"""Give every tile a buffer: values that never need to exist side by side share one, loops update in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tilekit.codegen.fragment import AnyLayout
from tilekit.codegen.storage import ALIGNMENT, SCRATCH_ALIGNMENT, Buffer, Storage, round_up
from tilekit.ir.core import Function, Op, Value, leaves
from tilekit.ir.regions import carried, carried_yields, emitted, emitted_params
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
                    liveness.conflict(operand, (result,))


def must_share(op: Op) -> Iterator[tuple[Value, Value]]:
    """A loop's parameters and results are one variable."""
    for each in carried(op) if op.builtin.carries else ():
        if each.param is not None and isinstance(each.param.type, TileType):
            yield each.param, each.result


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


class _Classes:
    """Sets of values that share one buffer."""

    def __init__(self, liveness: Liveness, layouts: Mapping[Value, AnyLayout]) -> None:
        self.liveness = liveness
        self.layouts = layouts
        self.of: dict[Value, list[Value]] = {}

    def add(self, value: Value) -> None:
        self.of.setdefault(value, [value])

    def join(self, a: Value, b: Value) -> None:
        first, second = self.of[a], self.of[b]
        if first is not second:
            first.extend(second)
            for value in second:
                self.of[value] = first

    def conflicts(self, first: list[Value], second: list[Value]) -> bool:
        members = set(second)
        return any(not members.isdisjoint(self.liveness.interferes[value]) for value in first)

    def try_join(self, a: Value, b: Value) -> None:
        first, second = self.of[a], self.of[b]
        alike = a.type == b.type and self.layouts.get(a) == self.layouts.get(b)
        if first is not second and alike and not self.conflicts(first, second):
            self.join(a, b)

    def all(self) -> list[list[Value]]:
        unique = {id(members): members for members in self.of.values()}
        return list(unique.values())


def _layout(classes: _Classes, scratch: set[Value]) -> Storage:
    """Place the largest buffers first, each at the lowest offset free of those alive with it."""
    placed: list[tuple[list[Value], Buffer]] = []
    buffers: dict[Value, Buffer] = {}
    end = 0
    for members in sorted(classes.all(), key=lambda m: -_bytes(m)):
        layout = classes.layouts.get(members[0])
        if layout is not None:
            buffers.update(dict.fromkeys(members, Buffer(members[0].type, -1, layout)))  # type: ignore[arg-type]
            continue
        size = _bytes(members)
        alignment = ALIGNMENT if scratch.isdisjoint(members) else SCRATCH_ALIGNMENT
        taken = sorted(
            (buffer.offset, buffer.offset + round_up(buffer.size))
            for others, buffer in placed
            if classes.conflicts(members, others)
        )
        offset = 0
        for start, stop in taken:
            if offset + size <= start:
                break
            offset = round_up(max(offset, stop), alignment)
        type = members[0].type
        assert isinstance(type, TileType)
        buffer = Buffer(type, offset)
        placed.append((members, buffer))
        buffers.update(dict.fromkeys(members, buffer))
        end = max(end, offset + round_up(size))
    return Storage(buffers, end)


def _bytes(members: list[Value]) -> int:
    type = members[0].type
    assert isinstance(type, TileType)
    return type.size * type.dtype.itemsize
