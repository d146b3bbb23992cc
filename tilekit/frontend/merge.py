"""How one variable passes through a branch or a loop: which values it yields, and what it is bound to afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilekit.errors import KernelTypeError, TilekitError
from tilekit.frontend.sameness import BoundTile, bound, same
from tilekit.frontend.syntax import RESULT
from tilekit.ir.core import Const, Value
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile, wrap
from tilekit.ir.operands import common_dtype, constant, convert_constant, describe
from tilekit.ir.types import ScalarType, TileType


class _Marker:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


UNBOUND: Any = _Marker("unbound")
MISSING: Any = _Marker("missing")
"""What a side of a branch yields where its value is never read."""


class Unmergeable(Exception):
    """Two values of one variable cannot be told apart at run time; the message continues "'name' ..."."""


def is_number(value: Any) -> bool:
    return isinstance(value, Scalar) or (not isinstance(value, Tile | Array | str) and constant(value) is not None)


def number_type(value: Any) -> ScalarType:
    if isinstance(value, Scalar):
        return value.type
    found = constant(value)
    assert found is not None
    return found.type


def numeric_operand(value: Any, wanted: ScalarType) -> Any:
    """A scalar or number in the wanted type; records a cast where one is needed."""
    if isinstance(value, Scalar):
        if value.type.dtype == wanted.dtype:
            return value.datum
        return OPERATORS["cast"](value, wanted.dtype).datum
    found = constant(value)
    assert found is not None
    return found if found.type == wanted else Const(wanted, convert_constant(found, wanted.dtype, "merge").value)


def merged_type(values: list[Any]) -> ScalarType:
    """The type of numbers that meet.

    Raises:
        Unmergeable: their dtypes differ.
    """
    types = {str(i): number_type(value) for i, value in enumerate(values)}
    kinds = {type.dtype.kind == "b" for type in types.values()}
    try:
        if len(kinds) > 1:
            raise KernelTypeError("")
        return common_dtype(types, "") if kinds == {False} else next(iter(types.values()))
    except TilekitError:
        listed = " and ".join(dict.fromkeys(type.dtype.name for type in types.values()))
        raise Unmergeable(f"would be {listed} depending on the path taken; cast to one dtype") from None


def undefined(type: Any) -> Any:
    """A value of a type that stands where no value was bound; never read on a path that matters."""
    if isinstance(type, TileType):
        return OPERATORS["undefined"](type.shape, type.dtype)
    return Scalar(OPERATORS["cast"](0, type.dtype).datum)


class Slot:
    """One variable; this base is for one that stays bound to one object."""

    name = ""
    guess: Any = None
    """The type that it was given, where the first value did not tell."""

    def __init__(self, value: Any = UNBOUND) -> None:
        self.value = value
        self.params: list[Value] = []
        self.inits: list[Any] = []

    def operands(self, side: int) -> list[Any]:
        return []

    def rebuild(self, results: list[Any]) -> Any:
        return self.value

    # Loops only.

    def enter(self) -> Any:
        return self.value

    def better_guess(self, after: Any) -> Any:
        if self.name == RESULT and self.value is None and self.guess is None and after is not None:
            return guess_of(after)
        return None

    def leave(self, after: Any) -> list[Any]:
        if self.value is UNBOUND or same(self.value, after):
            return []
        raise Unmergeable(
            f"is bound to {describe(self.value)} before the loop and to {describe(after)} in it; "
            "only numbers, tiles and tuples of them can change at run time"
        )


def guess_of(value: Any) -> Any:
    """The types of a value that can be carried, or None."""
    if isinstance(value, tuple):
        found = tuple(map(guess_of, value))
        return None if None in found else found
    if isinstance(value, Tile):
        return value.type
    return ScalarType(number_type(value).dtype) if is_number(value) else None


# Branches.


class NumberSlot(Slot):
    def __init__(self, sides: list[Any]) -> None:
        super().__init__()
        self.sides = sides
        self.type = merged_type([side for side in sides if side is not MISSING])

    def operands(self, side: int) -> list[Any]:
        value = self.sides[side]
        return [numeric_operand(undefined(self.type) if value is MISSING else value, self.type)]

    def rebuild(self, results: list[Any]) -> Any:
        return Scalar(results.pop(0))


class TileSlot(Slot):
    def __init__(self, sides: list[Any]) -> None:
        super().__init__()
        self.sides = sides
        types = {side.type for side in sides if side is not MISSING}
        if len(types) > 1:
            raise Unmergeable(f"would be {' and '.join(sorted(map(str, types)))} depending on the path taken")
        (self.type,) = types

    def operands(self, side: int) -> list[Any]:
        value = self.sides[side]
        return [undefined(self.type).read() if value is MISSING else value.datum]

    def rebuild(self, results: list[Any]) -> Any:
        tile = wrap(results.pop(0))
        for side in self.sides:
            if side is not MISSING:
                tile.stand_for(side.tile)
        return tile


class TupleSlot(Slot):
    def __init__(self, items: list[Slot]) -> None:
        super().__init__()
        self.items = items
        self.params = [param for item in items for param in item.params]
        self.inits = [init for item in items for init in item.inits]

    def operands(self, side: int) -> list[Any]:
        return [operand for item in self.items for operand in item.operands(side)]

    def rebuild(self, results: list[Any]) -> Any:
        return tuple(item.rebuild(results) for item in self.items)

    def enter(self) -> Any:
        return tuple(item.enter() for item in self.items)

    def _match(self, after: Any) -> Any:
        if not isinstance(after, tuple) or len(after) != len(self.items):
            found = f"a tuple of {len(after)}" if isinstance(after, tuple) else describe(after)
            raise Unmergeable(
                f"is a tuple of {len(self.items)} before the loop and {found} at the end of an iteration; "
                "a loop that builds a tuple must be unrolled: use tk.static_range"
            )
        return after

    def better_guess(self, after: Any) -> Any:
        found = [item.better_guess(value) for item, value in zip(self.items, self._match(after), strict=True)]
        if all(guess is None for guess in found):
            return None
        return tuple(item.guess if new is None else new for item, new in zip(self.items, found, strict=True))

    def leave(self, after: Any) -> list[Any]:
        pairs = zip(self.items, self._match(after), strict=True)
        return [datum for item, value in pairs for datum in item.leave(value)]


def merge(name: str, before: Any, sides: list[Any]) -> Slot:
    """The slot of a variable after a branch that leaves it bound to one of ``sides``."""
    known = [side for side in sides if side is not MISSING]
    if not known:
        return Slot(None if name == RESULT else UNBOUND)
    if any(side is UNBOUND for side in known):
        return Slot(UNBOUND)
    settled = len(known) == len(sides) or not is_recorded(known[0]) or same(known[0], bound(before))
    if settled and all(same(known[0], side) for side in known[1:]):
        first = known[0]
        return Slot(first.tile if isinstance(first, BoundTile) else first)
    if all(map(is_number, known)):
        return NumberSlot(sides)
    if all(isinstance(side, BoundTile) for side in known):
        return TileSlot(sides)
    if all(isinstance(side, tuple) and len(side) == len(known[0]) for side in known):
        columns = [[side if side is MISSING else side[i] for side in sides] for i in range(len(known[0]))]
        return TupleSlot([merge("", UNBOUND, column) for column in columns])
    shown = " or ".join(map(_shown, known))
    raise Unmergeable(
        f"would be {shown} depending on the path taken; only numbers, tiles and tuples of them can be "
        "chosen at run time"
    )


def shown_name(name: str) -> str:
    """A variable as errors name it."""
    return "the returned value" if name == RESULT else repr(name)


def is_recorded(value: Any) -> bool:
    """Whether a value is, or holds, the result of an op."""
    if isinstance(value, tuple):
        return any(map(is_recorded, value))
    return isinstance(value, Scalar | BoundTile | Array)


def _shown(side: Any) -> str:
    return f"a {side.type}" if isinstance(side, BoundTile) else describe(side)


# Loops.


class CarriedNumber(Slot):
    def __init__(self, name: str, value: Any, guess: ScalarType | None) -> None:
        super().__init__(value)
        self.type = guess or number_type(value)
        self.params = [Value(self.type, name)]
        self.inits = [numeric_operand(undefined(self.type) if value is None else value, self.type)]

    def enter(self) -> Any:
        return Scalar(self.params[0])

    def better_guess(self, after: Any) -> Any:
        if not self.type.weak or not is_number(after):
            return None
        new = number_type(after)
        if not new.weak:
            return None if new.dtype.kind == "b" else new
        return new if new.dtype.is_float and not self.type.dtype.is_float else None

    def leave(self, after: Any) -> list[Any]:
        if not is_number(after):
            raise Unmergeable(f"is a number before the loop and {describe(after)} in it")
        new = number_type(after)
        literal = new.weak and "b" not in (new.dtype.kind, self.type.dtype.kind)
        fits = self.type.dtype.is_float or not new.dtype.is_float
        if not (literal and fits) and new.dtype != self.type.dtype:
            raise Unmergeable(
                f"is {self.type.dtype.name} before the loop and {new.dtype.name} at the end of an iteration; "
                "cast to one dtype"
            )
        return [numeric_operand(after, self.type)]

    def rebuild(self, results: list[Any]) -> Any:
        datum = results.pop(0)
        return Scalar(datum) if isinstance(datum, Value) else self.value


class Produced(Slot):
    """A name without a value before a loop that runs at least once: bound by its iterations, read after it."""

    def __init__(self, name: str, guess: Any) -> None:
        super().__init__()
        self.name = name
        slot = _carried_slot(RESULT, None, True, guess)
        self.slot, self.params, self.inits = slot, slot.params, slot.inits

    def leave(self, after: Any) -> list[Any]:
        return self.slot.leave(after)

    def better_guess(self, after: Any) -> Any:
        return self.slot.better_guess(after)

    def rebuild(self, results: list[Any]) -> Any:
        return self.slot.rebuild(results)


class CarriedTile(Slot):
    """A name that iterations bind to other tiles: each iteration starts with a handle of its own."""

    def __init__(self, name: str, value: Any, guess: TileType | None) -> None:
        super().__init__(value)
        first = undefined(guess) if value is None else value
        self.type = first.type
        self.params = [Value(first.type, name)]
        self.inits = [first.read()]
        self.handle: Tile | None = None
        """What the name is bound to in an iteration, and after the loop."""
        self.after: Tile | None = None
        """What it is bound to at the end of an iteration."""

    def enter(self) -> Any:
        self.handle = self._stand_in(self.params[0])
        return self.handle

    def _stand_in(self, datum: Any) -> Tile:
        handle: Tile = wrap(datum)
        if self.value is not None:
            handle.stand_for(self.value)
        return handle

    def leave(self, after: Any) -> list[Any]:
        if not isinstance(after, Tile) or after.type != self.type:
            raise Unmergeable(f"is a {self.type} before the loop and {describe(after)} at the end of an iteration")
        self.after = after
        return [after.read()]

    def rebuild(self, results: list[Any]) -> Any:
        datum = results.pop(0)
        if self.inits and datum is self.inits[0] and self.value is not None:
            self.handle = self.value
        else:
            self.handle = self._stand_in(datum)
        return self.handle


def carried_tiles(slot: Slot) -> Iterator[CarriedTile]:
    """The tiles that a slot carries."""
    if isinstance(slot, CarriedTile):
        yield slot
    for item in slot.items if isinstance(slot, TupleSlot) else [slot.slot] if isinstance(slot, Produced) else []:
        yield from carried_tiles(item)


def carried_slot(name: str, value: Any, plain: bool, guess: Any) -> Slot:
    """The slot of a variable that is bound to ``value`` when a loop begins."""
    slot = _carried_slot(name, value, plain, guess)
    slot.name, slot.guess = name, guess
    return slot


def _carried_slot(name: str, value: Any, plain: bool, guess: Any) -> Slot:
    missing = name == RESULT and value is None and guess is not None
    if isinstance(value, tuple) or (missing and isinstance(guess, tuple)):
        values = value if isinstance(value, tuple) else (None,) * len(guess)
        guesses = guess if guess is not None else (None,) * len(values)
        return TupleSlot([carried_slot(name, v, plain, g) for v, g in zip(values, guesses, strict=True)])
    if (isinstance(value, Tile) and plain) or (missing and isinstance(guess, TileType)):
        return CarriedTile(name, value, guess)
    if missing or (value is not UNBOUND and is_number(value)):
        return CarriedNumber(name, value, guess)
    return Slot(value)
