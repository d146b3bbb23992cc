"""Control flow on run-time values: what a branch or an iteration changes becomes the results of a region op.

Two kinds of state are carried. A *name* that a body binds to another value is read and set through the body's closure
cells. A *tile* that a body updates in place keeps its handle; its value is carried, whatever names hold the handle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CellType
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.frontend import joins
from tilekit.frontend.binding import holds_tile, own, value_of
from tilekit.frontend.carried import Produced, carried_slot
from tilekit.frontend.merge import MISSING, UNBOUND, Slot, Unmergeable, guess_of, merge, shown_name
from tilekit.frontend.sameness import bound
from tilekit.frontend.state import Body, Cells, Names, Snapshot, current_builder
from tilekit.frontend.syntax import JUMP_FLAGS, RESULT, RETURNED
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.context import Builder, building, fail, using
from tilekit.ir.core import Block, Value, leaves, walk
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.operands import constant
from tilekit.ir.regions import Region, keep_in_block
from tilekit.ir.rewrite import substitute
from tilekit.ir.types import ScalarType

ATTEMPTS = 32
"""How often a loop is traced anew, besides once for each variable, which may need another dtype after each attempt."""


def _region_name(kind: str) -> str:
    place = current_builder().location()
    return f"the {kind} at line {place.line}" if place is not None else f"a {kind}"


# Branches.


@dataclass
class _Branch:
    """What one side of an ``if`` leaves behind."""

    builder: Builder
    names: dict[str, Any]
    tiles: list[Any]


def trace_if(
    test: Scalar,
    then: Body,
    orelse: Body,
    names: Names,
    flags: tuple[str, ...] = (),
    sources: tuple[Body, ...] = (),
    site: joins.Site | None = None,
) -> None:
    """Record both branches and select what they change.

    ``flags`` are the jumps of which one has happened where the second side is taken; ``sources`` hold the cells of
    ``names`` where the bodies themselves do not.
    """
    cells = Cells(names, *(sources or (then, orelse)))
    before, tiles = cells.read(), Snapshot.take()
    region = _region_name("branch")
    sides = []
    for body in (then, orelse):
        with building() as builder:
            body()
            after = cells.read()
            # A view's value has to be read while the branch is being recorded.
            read = {name: bound(value) for name, value in after.items()}
            sides.append(_Branch(builder, read, tiles.values()))
        tiles.restore()
        cells.write(before)
    slots = _merge_names(cells, before, [side.names for side in sides], flags, site)
    for name, slot in slots.items():
        joins.record(site, name, slot, [side.names[name] for side in sides])
    changed = [i for i, (_, old) in enumerate(tiles.tiles) if any(side.tiles[i] is not old for side in sides)]
    yields: tuple[list[Any], list[Any]] = ([], [])
    for index, side in enumerate(sides):
        for slot in slots.values():
            with using(side.builder):  # casts of what a branch yields belong to it
                yields[index].extend(slot.operands(index))
        yields[index].extend(side.tiles[i] for i in changed)
    blocks = tuple(side.builder.block((), tuple(y)) for side, y in zip(sides, yields, strict=True))
    results = record_region("if_else", {"test": test.datum}, blocks)
    tiles.forget_later(region)
    cells.write({name: slot.rebuild(results) for name, slot in slots.items()})
    for i in changed:
        tiles.tiles[i][0].rebind(results.pop(0))
    settle(cells, site)


def settle(cells: Cells, site: joins.Site | None) -> None:
    """Give the names that a branch or loop binds values of their own, whichever way was taken."""
    for name, value in cells.read().items():
        if cells.plain[name] and holds_tile(value):
            joins.record_value(site, name)
            cells.write({name: own(value_of(value))})


def _left_by(flags: Iterable[str]) -> str:
    """How a side of a branch was left for certain: ``"return"``, ``"jump"`` out of an iteration, or not at all."""
    kinds = {"return" if flag == RETURNED else "jump" for flag in flags if flag.startswith(JUMP_FLAGS)}
    return "jump" if "jump" in kinds else "return" if kinds else ""


def _merge_names(
    cells: Cells,
    before: dict[str, Any],
    sides: list[dict[str, Any]],
    flags: tuple[str, ...],
    site: joins.Site | None,
) -> dict[str, Slot]:
    """The slots of the variables after a branch; what a side that returns leaves in them is of no account."""
    if flags == (RETURNED,) and RETURNED in sides[1]:
        sides[1][RETURNED] = True
    left = [_left_by(name for name, value in side.items() if value is True) for side in sides]
    left[1] = left[1] or _left_by(flags)
    slots = {}
    for name in cells.cells:
        found = [side[name] for side in sides]
        if name == RESULT:
            found = [MISSING if v is None and left[i] != "return" else v for i, v in enumerate(found)]
        elif name not in cells.live:
            found = [UNBOUND, UNBOUND]
        elif not name.startswith("__"):
            found = [_dropped(cells.cells[name], value, left[i], found[1 - i]) for i, value in enumerate(found)]
        try:
            slots[name] = merge(name, before[name], found, (site, name))
        except Unmergeable as error:
            if name not in cells.later:
                raise fail(unmergeable(name, error)) from None
            current_builder().dropped[name] = f"it {error}"
            slots[name] = Slot()
    return slots


def unmergeable(name: str, reason: object) -> KernelTypeError:
    """A variable cannot have one value after a branch or an iteration."""
    error = KernelTypeError(f"{shown_name(name)} {reason}")
    error.variable = name
    return error


def _dropped(cell: CellType, value: Any, left: str, other: Any) -> Any:
    """What one side of a branch leaves in a variable, or that it does not matter."""
    if left == "jump" and value is UNBOUND and other is not UNBOUND:
        around = current_builder().partial
        if around:
            around[-1].append(cell)
        return MISSING
    return MISSING if left == "return" else value


def run_iteration(cells: Cells, body: Callable[[], Any]) -> Any:
    """Run one iteration; what is bound only where no jump left it has no value afterwards."""
    around = current_builder().partial
    around.append([])
    try:
        result = body()
    finally:
        found = around.pop()
    cells.write({name: UNBOUND for name, cell in cells.cells.items() if any(cell is item for item in found)})
    return result


def record_region(name: str, operands: dict[str, Any], blocks: tuple[Block, ...]) -> list[Any]:
    """Record a region op; its results as data."""
    builtin = REGISTRY[name]
    types = builtin.result_types({n: _types(o) for n, o in operands.items()}, {}, blocks)
    return list(current_builder().apply(builtin, operands, {}, types, blocks))


def _types(operand: Any) -> Any:
    return tuple(item.type for item in operand) if isinstance(operand, tuple) else operand.type


# Loops.


def tile_names(bodies: tuple[Body, ...]) -> dict[Tile, str]:
    """What the variables that bodies read call the tiles they hold, for errors."""
    found: dict[Tile, str] = {}
    for body in bodies:
        for name, cell in zip(body.__code__.co_freevars, body.__closure__ or (), strict=True):
            value = Cells.get(cell)
            if isinstance(value, Tile):
                found.setdefault(value.base, name)
    return found


class Loop:
    """Traces a loop's body, again where a carried literal turns out to need another dtype."""

    def __init__(self, names: Names, *bodies: Body, runs: bool = False, site: joins.Site | None = None) -> None:
        self.site = site
        self.cells = Cells(names, *bodies)
        self.runs = runs
        """Whether there is at least one iteration for certain, so that what it binds is bound afterwards."""
        self.before = self.cells.read()
        self.tiles = Snapshot.take()
        self.region = _region_name("loop")
        self.tile_names = tile_names(bodies)
        self.guesses: dict[str, ScalarType] = {}

    def trace(self, step: Callable[[list[Value]], list[Any]], lead: list[Any]) -> tuple[Block, list[Any], list[Slot]]:
        """Record ``step`` on fresh parameters for ``lead`` and the carried state until the types settle."""
        literals = current_builder().literals
        for _ in range(ATTEMPTS + len(self.before)):
            known = literals.state() if literals is not None else None
            found = self._attempt(step, lead)
            if found is not None:
                return found
            self.restore()
            if literals is not None:
                literals.restore(known)
        raise fail(KernelTypeError("the dtypes of this loop's variables change in every iteration; cast them"))

    def restore(self) -> None:
        self.tiles.restore()
        self.cells.write(self.before)
        self.tiles.forget_later(self.region)

    def _attempt(
        self, step: Callable[[list[Value]], list[Any]], lead: list[Any]
    ) -> tuple[Block, list[Any], list[Slot]] | None:
        slots = {name: self._slot(name, value) for name, value in self.before.items()}
        leading = [Value(item.type) for item in lead]
        held = [Value(tile.type, self.tile_names.get(tile, "")) for tile, _ in self.tiles.tiles]
        with building() as builder:
            for (tile, _), param in zip(self.tiles.tiles, held, strict=True):
                tile.rebind(param)
            self.cells.write({name: slot.enter() for name, slot in slots.items()})
            # The loop goes on only where no jump has left it.
            self.cells.write(dict.fromkeys((name for name in slots if name.startswith(JUMP_FLAGS)), False))
            first = run_iteration(self.cells, lambda: step(leading))
            after = self.cells.read()
            again = [name for name, slot in slots.items() if self._mismatch(name, slot, after[name])]
            if again:
                return None
            for name, slot in slots.items():
                joins.record(self.site, name, slot, [self.before[name], after[name]])
                if self.cells.plain[name] and (holds_tile(self.before[name]) or holds_tile(after[name])):
                    joins.record_value(self.site, name)
            finals = [datum for name in list(slots) for datum in self._leave(slots, name, after[name], builder)]
            finals += self.tiles.values()
        params = [*leading, *(p for slot in slots.values() for p in slot.params), *held]
        inits = [*lead, *(i for slot in slots.values() for i in slot.inits), *(datum for _, datum in self.tiles.tiles)]
        block = builder.block(tuple(params), (*first, *finals))
        return block, inits, list(slots.values())

    def _slot(self, name: str, value: Any) -> Slot:
        guess = self.guesses.get(name)
        if value is UNBOUND and guess is not None:
            return Produced(name, guess, (self.site, name))
        return carried_slot(name, value, self.cells.plain[name], guess, (self.site, name))

    def _leave(self, slots: dict[str, Slot], name: str, after: Any, builder: Builder) -> list[Any]:
        """What a variable passes to the next iteration; one that is set anew in each needs not fit what it was."""
        try:
            return slots[name].leave(after)
        except Unmergeable as error:
            used = _used(builder)
            if any(param in used for param in slots[name].params) or not slots[name].params:
                raise fail(unmergeable(name, error)) from None
            current_builder().dropped[name] = f"it {error}"
            slots[name] = carried_slot(name, UNBOUND, True, None, (self.site, name))
            return []

    def _mismatch(self, name: str, slot: Slot, after: Any) -> bool:
        """Whether a literal's guessed dtype must change; remembers the better guess."""
        try:
            better = slot.better_guess(after)
        except Unmergeable as error:
            raise fail(unmergeable(name, error)) from None
        if self.before[name] is UNBOUND and self.runs and name in self.cells.live and not isinstance(slot, Produced):
            better = guess_of(after)
        if better is None:
            return False
        if self.guesses.get(name) == better:
            raise fail(unmergeable(name, "changes its dtype in every iteration; cast it to one dtype"))
        self.guesses[name] = better
        return True

    def finish(self, name: str, operands: dict[str, Any], block: Block, inits: list[Any], slots: list[Slot]) -> None:
        """Record the region op without what it leaves unchanged, and bind its results."""
        region = REGISTRY[name].region
        assert region is not None
        inits = inits[region.leading :]
        keep, block = drop_unchanged(region, block, inits)
        results = record_region(name, {**operands, region.init: tuple(inits[i] for i in keep)}, (block,))
        found = dict(zip(keep, results, strict=True))
        self.tiles.forget_later(self.region)
        position = 0
        values: dict[str, Any] = {}
        for slot in slots:
            data = [found.get(position + i, init) for i, init in enumerate(slot.inits)]
            position += len(slot.params)
            values[slot.name] = slot.rebuild(data)
        self.cells.write(values)
        for i, (tile, datum) in enumerate(self.tiles.tiles):
            tile.rebind(found.get(position + i, datum))
        settle(self.cells, self.site)


def _used(builder: Builder) -> set[Value]:
    """The values that recorded ops read, and those that their blocks yield."""
    ops = list(walk(builder.block(())))
    yielded = {value for op in ops for inner in op.blocks for value in leaves(inner.results)}
    return yielded.union(*(op.inputs() for op in ops))


def drop_unchanged(region: Region, block: Block, inits: list[Any]) -> tuple[list[int], Block]:
    """Remove the carried values that every iteration passes on as they are; the numbers of those that stay."""
    params, yielded = region.params(block), region.yields(block)
    gone = _unchanged(params, yielded, inits)
    kept = [i for i in range(len(params)) if i not in gone]
    replaced = {params[i]: inits[i] for i in gone}
    return kept, substitute(keep_in_block(region, block, set(kept)), replaced)


def _unchanged(params: tuple[Value, ...], yielded: tuple[Any, ...], inits: list[Any]) -> set[int]:
    """The numbers of what every iteration starts with as the first one does."""
    known: dict[Any, Any] = {}
    gone: set[int] = set()
    while True:
        found = {i for i, r in enumerate(yielded) if r is params[i] or known.get(r, r) is inits[i]}
        if found == gone:
            return gone
        gone = found
        known = {params[i]: inits[i] for i in gone}


def as_operand(value: Any) -> Any:
    """A traced scalar or a Python number as an operand."""
    return value.datum if isinstance(value, Scalar) else constant(value)
