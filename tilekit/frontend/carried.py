"""How one variable passes through a loop: what an iteration starts with and passes on, and what is left after it."""

from __future__ import annotations

from typing import Any

from tilekit.frontend.binding import own
from tilekit.frontend.merge import (
    UNBOUND,
    Chosen,
    Origin,
    Slot,
    TupleSlot,
    Unmergeable,
    is_number,
    number_type,
    undefined,
)
from tilekit.frontend.syntax import RESULT
from tilekit.ir.core import Value
from tilekit.ir.handles import Array, Tile, wrap
from tilekit.ir.operands import describe
from tilekit.ir.types import ArrayType, ScalarType, TileType


class CarriedNumber(Slot):
    def __init__(self, name: str, value: Any, guess: ScalarType | None, origin: Origin) -> None:
        super().__init__(value)
        self.chosen = Chosen(guess or number_type(value), [] if value is None else [value], origin)
        self.type = self.chosen.type
        self.params = [Value(self.type, name)]
        self.inits = [self.chosen.operand(undefined(self.type) if value is None else value)]

    def enter(self) -> Any:
        return self.chosen.born(self.params[0])

    def better_guess(self, after: Any) -> Any:
        if not self.type.weak or not is_number(after):
            return None
        new = number_type(after)
        if not new.weak:
            narrower = self.type.dtype.is_float and not new.dtype.is_float
            return None if new.dtype.kind == "b" or narrower else new
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
        return [self.chosen.operand(after)]

    def rebuild(self, results: list[Any]) -> Any:
        datum = results.pop(0)
        if isinstance(datum, Value):
            return self.chosen.born(datum)
        # Unchanged. Inside the loop, a float literal had the loop's dtype, and keeps it afterwards.
        return self.chosen.held(self.value) if type(self.value) is float and self.type.weak else self.value


class Produced(Slot):
    """A name without a value before a loop that runs at least once: bound by its iterations, read after it."""

    def __init__(self, name: str, guess: Any, origin: Origin) -> None:
        super().__init__()
        self.name = name
        slot = _carried_slot(RESULT, None, True, guess, origin)
        self.slot, self.params, self.inits = slot, slot.params, slot.inits

    def leave(self, after: Any) -> list[Any]:
        return self.slot.leave(after)

    def better_guess(self, after: Any) -> Any:
        return self.slot.better_guess(after)

    def rebuild(self, results: list[Any]) -> Any:
        return self.slot.rebuild(results)


class CarriedTile(Slot):
    """A name that iterations bind to tiles: a value of its own in each iteration, and after the loop."""

    def __init__(self, name: str, value: Any, guess: TileType | None) -> None:
        super().__init__(value)
        first = undefined(guess) if value is None else value
        self.type = first.type
        self.params = [Value(first.type, name)]
        self.inits = [first.read()]

    def enter(self) -> Any:
        return own(wrap(self.params[0]))

    def leave(self, after: Any) -> list[Any]:
        if not isinstance(after, Tile) or after.type != self.type:
            raise Unmergeable(f"is a {self.type} before the loop and {describe(after)} at the end of an iteration")
        return [after.read()]

    def rebuild(self, results: list[Any]) -> Any:
        return own(wrap(results.pop(0)))


class CarriedArray(Slot):
    """A name that iterations bind to other arrays, or to other rows of one."""

    def __init__(self, name: str, value: Any, guess: ArrayType | None) -> None:
        super().__init__(value)
        first = undefined(guess) if value is None else value
        self.label = "" if name == RESULT else name
        self.type = first.type
        self.params = [Value(first.type, name)]
        self.inits = [first.datum]

    def enter(self) -> Any:
        return Array(self.params[0], self.label)

    def leave(self, after: Any) -> list[Any]:
        if not isinstance(after, Array) or after.type != self.type:
            raise Unmergeable(f"is an {self.type} before the loop and {describe(after)} at the end of an iteration")
        return [after.datum]

    def rebuild(self, results: list[Any]) -> Any:
        datum = results.pop(0)
        return self.value if datum is self.inits[0] and self.value is not None else Array(datum, self.label)


def carried_slot(name: str, value: Any, plain: bool, guess: Any, origin: Origin) -> Slot:
    """The slot of a variable that is bound to ``value`` when a loop begins."""
    slot = _carried_slot(name, value, plain, guess, origin)
    slot.name, slot.guess = name, guess
    return slot


def _carried_slot(name: str, value: Any, plain: bool, guess: Any, origin: Origin) -> Slot:
    missing = name == RESULT and value is None and guess is not None
    if isinstance(value, tuple) or (missing and isinstance(guess, tuple)):
        values = value if isinstance(value, tuple) else (None,) * len(guess)
        guesses = guess if guess is not None else (None,) * len(values)
        site, whole = origin
        origins = [(site, f"{whole}[{i}]") for i in range(len(values))]
        parts = zip(values, guesses, origins, strict=True)
        return TupleSlot([carried_slot(name, v, plain, g, place) for v, g, place in parts])
    if (isinstance(value, Tile) and plain) or (missing and isinstance(guess, TileType)):
        return CarriedTile(name, value, guess)
    if isinstance(value, Array) or (missing and isinstance(guess, ArrayType)):
        return CarriedArray(name, value, guess)
    if missing or (value is not UNBOUND and is_number(value)):
        return CarriedNumber(name, value, guess, origin)
    return Slot(value)
