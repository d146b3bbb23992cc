"""How one variable passes through a branch: which values it yields, and what it is bound to afterwards."""

from __future__ import annotations

from typing import Any

from tilekit.errors import KernelTypeError, TilekitError
from tilekit.frontend.binding import own
from tilekit.frontend.sameness import BoundTile, bound, same
from tilekit.frontend.syntax import RESULT
from tilekit.ir.core import Const, Value
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile, wrap
from tilekit.ir.literals import adopt, current_place, tracked
from tilekit.ir.operands import adapted, common_dtype, constant, describe
from tilekit.ir.types import ArrayType, ScalarType, TileType


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
        return adopt(value.datum, wanted)
    found = constant(value)
    assert found is not None
    return adapted(found, wanted)


Origin = tuple[Any, str]
"""The site of a piece of control flow, and the variable, or the item of one, that passes through it."""


class Chosen:
    """A number that control flow chooses: its type, and what is known of it where it comes from literals alone."""

    def __init__(self, type: ScalarType, values: list[Any], origin: Origin) -> None:
        self.type = type
        self.key: Any = None
        literals = tracked()
        if type.weak and literals is not None:
            site, name = origin
            shown = (
                f"the value chosen at line {site[1]}"
                if site and site[0] in ("choice", "and", "or")
                else shown_name(name)
            )
            self.key = literals.key(type, (site or current_place(), name), shown)
            self.type = literals.joined(self.key, map(_datum, values))

    def operand(self, value: Any) -> Any:
        """One of the values in the type of all."""
        literals = tracked()
        if self.key is not None and literals is not None:
            wider = literals.joined(self.key, [_datum(value)])
            if wider.dtype.bits > self.type.dtype.bits:  # known when the kernel is traced again
                return Const(self.type, 0)
        return numeric_operand(value, self.type)

    def born(self, datum: Any) -> Scalar:
        """The value that was chosen."""
        literals = tracked()
        if self.key is not None and literals is not None:
            literals.bear(datum, self.key)
        return Scalar(datum)

    def held(self, value: float) -> Scalar:
        """A literal as a run-time value."""
        number = {"a": Const(self.type, value)}
        found = OPERATORS["cast"].record(number, {"dtype": self.type.dtype}, weak=True)  # type: ignore[attr-defined]
        return self.born(found.datum)


def _datum(value: Any) -> Any:
    return value.datum if isinstance(value, Scalar) else constant(value)


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
    if isinstance(type, ArrayType):
        return OPERATORS["undefined array"](type.ndim, type.dtype)
    operands = {"a": Const(type, 0)}
    return Scalar(OPERATORS["cast"].record(operands, {"dtype": type.dtype}, weak=type.weak).datum)  # type: ignore[attr-defined]


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
            "only numbers, tiles, arrays and tuples of them can change at run time"
        )


def guess_of(value: Any) -> Any:
    """The types of a value that can be carried, or None."""
    if isinstance(value, tuple):
        found = tuple(map(guess_of, value))
        return None if None in found else found
    if isinstance(value, Tile | Array):
        return value.type
    return number_type(value) if is_number(value) else None


# Branches.


class NumberSlot(Slot):
    def __init__(self, sides: list[Any], origin: Origin) -> None:
        super().__init__()
        self.sides = sides
        known = [side for side in sides if side is not MISSING]
        self.chosen = Chosen(merged_type(known), known, origin)
        self.type = self.chosen.type

    def operands(self, side: int) -> list[Any]:
        value = self.sides[side]
        return [self.chosen.operand(undefined(self.type) if value is MISSING else value)]

    def rebuild(self, results: list[Any]) -> Any:
        return self.chosen.born(results.pop(0))


class TileSlot(Slot):
    """A value of its own, chosen from those that the sides leave; no op where both leave one value."""

    def __init__(self, sides: list[Any]) -> None:
        super().__init__()
        self.sides = sides
        types = {side.type for side in sides if side is not MISSING}
        if len(types) > 1:
            raise Unmergeable(f"would be {' and '.join(sorted(map(str, types)))} depending on the path taken")
        (self.type,) = types
        first = sides[0]
        known = first is not MISSING and all(side is not MISSING and side.datum is first.datum for side in sides)
        self.known = first.datum if known else None

    def operands(self, side: int) -> list[Any]:
        if self.known is not None:
            return []
        value = self.sides[side]
        return [undefined(self.type).read() if value is MISSING else value.datum]

    def rebuild(self, results: list[Any]) -> Any:
        return own(wrap(results.pop(0) if self.known is None else self.known))


class ArraySlot(Slot):
    """A parameter or a row of one: the element accesses that follow go to the array that was chosen."""

    def __init__(self, name: str, sides: list[Any]) -> None:
        super().__init__()
        self.name = name
        self.sides = sides
        types = {side.type for side in sides if side is not MISSING}
        if len(types) > 1:
            listed = " and ".join(sorted(f"an {type}" for type in types))
            raise Unmergeable(f"would be {listed} depending on the path taken; they must have one dtype and rank")
        (self.type,) = types

    def operands(self, side: int) -> list[Any]:
        value = self.sides[side]
        return [undefined(self.type).datum if value is MISSING else value.datum]

    def rebuild(self, results: list[Any]) -> Any:
        return Array(results.pop(0), self.name)


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


def merge(name: str, before: Any, sides: list[Any], origin: Origin) -> Slot:
    """The slot of a variable after a branch that leaves it bound to one of ``sides``."""
    known = [side for side in sides if side is not MISSING]
    if not known:  # every branch has left, so nothing reads it
        return Slot(None if name == RESULT else before)
    if any(side is UNBOUND for side in known):
        return Slot(UNBOUND)
    settled = len(known) == len(sides) or not is_recorded(known[0]) or same(known[0], bound(before))
    if settled and all(same(known[0], side) for side in known[1:]):
        first = known[0]
        return Slot(first.tile if isinstance(first, BoundTile) else first)
    if all(map(is_number, known)):
        return NumberSlot(sides, origin)
    if all(isinstance(side, BoundTile) for side in known):
        return TileSlot(sides)
    if all(isinstance(side, Array) for side in known):
        return ArraySlot("" if name == RESULT else name, sides)
    if all(isinstance(side, tuple) and len(side) == len(known[0]) for side in known):
        columns = [[side if side is MISSING else side[i] for side in sides] for i in range(len(known[0]))]
        site, whole = origin
        return TupleSlot([merge("", UNBOUND, c, (site, f"{whole}[{i}]")) for i, c in enumerate(columns)])
    shown = " or ".join(map(_shown, known))
    raise Unmergeable(
        f"would be {shown} depending on the path taken; only numbers, tiles, arrays and tuples of them can "
        "be chosen at run time"
    )


def shown_name(name: str) -> str:
    """A variable as errors name it."""
    return "the returned value" if name.startswith(RESULT) else repr(name)


def is_recorded(value: Any) -> bool:
    """Whether a value is, or holds, the result of an op."""
    if isinstance(value, tuple):
        return any(map(is_recorded, value))
    return isinstance(value, Scalar | BoundTile | Array)


def _shown(side: Any) -> str:
    return f"a {side.type}" if isinstance(side, BoundTile) else describe(side)
