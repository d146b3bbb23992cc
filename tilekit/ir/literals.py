"""The dtypes of numbers that come from literals alone and are only known at run time.

A literal takes the dtype of what it meets. Where control flow or an op chooses between literals, the number that comes
out is *weak*: a float32 or int32 until it meets a dtype. Each place where such a number is born has a key; keys of
numbers that must have one dtype are united. When a trace has found which dtype they meet, the kernel is traced again
with it at each of these places, so that all arithmetic on the way is done in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tilekit.errors import KernelTypeError, KernelValueError, Location, shown
from tilekit.ir.context import active, fail
from tilekit.ir.core import Const, Value, leaves
from tilekit.ir.operands import adapted, is_weak
from tilekit.ir.operators import OPERATORS
from tilekit.ir.types import DType, ScalarType, float32, int32, int64, uint64

Key = tuple[Any, ...]
"""The kind of number (``"f"`` or ``"i"``), the path and the place where it is born, and its name in errors."""

Places = dict[DType, Location | None]


@dataclass
class _Facts:
    """What is known of values that must have one dtype."""

    name: str
    met: Places = field(default_factory=dict)
    """The dtypes that they meet and so must have."""
    cast: Places = field(default_factory=dict)
    """The dtypes that they are cast to, where these hold more than a float32 or int32, or are floats."""
    floats: Places = field(default_factory=dict)
    """The floats that integers meet."""
    large: Const | None = None
    """A literal that their dtype does not hold, as far as that is known."""
    large_at: Location | None = None

    def copy(self) -> _Facts:
        return replace(self, met=dict(self.met), cast=dict(self.cast), floats=dict(self.floats))

    def take(self, other: _Facts) -> None:
        for mine, more in ((self.met, other.met), (self.cast, other.cast), (self.floats, other.floats)):
            for dtype, place in more.items():
                mine.setdefault(dtype, place)
        self.name = max(self.name, other.name, key=_tells)
        if self.large is None:
            self.large, self.large_at = other.large, other.large_at

    def dtype(self, kind: str) -> DType:
        """What the values have to be."""
        if self.met:
            return next(iter(self.met))
        if kind == "i":
            return int64 if self.cast or self.floats else int32
        widest = max((dtype.bits for dtype in self.cast), default=0)
        found = [dtype for dtype in self.cast if dtype.bits == widest]
        return found[0] if len(found) == 1 else float32


class Literals:
    """Where a trace stands, and what it knows of weak values; ``decided`` is what an earlier one found out."""

    def __init__(self, decided: Mapping[Key, DType] | None = None, over: bool = False) -> None:
        self.decided: Mapping[Key, DType] = decided or {}
        self.over = over
        """Whether tracing is over, and the kernel runs."""
        self.path: tuple[Any, ...] = ()
        """The calls of helpers and the iterations of unrolled loops that lead to the running statement."""
        self._keys: dict[Value, Key] = {}
        self._parents: dict[Key, Key] = {}
        self._facts: dict[Key, _Facts] = {}

    @contextmanager
    def inside(self, step: Any) -> Iterator[None]:
        """One step further along the path."""
        outer = self.path
        self.path = (*outer, step)
        try:
            yield
        finally:
            self.path = outer

    # Births.

    def key(self, type: ScalarType, place: Any, name: str) -> Key:
        """The key of a weak value that is born here."""
        return ("f" if type.dtype.is_float else "i", self.path, place, name)

    def joined(self, key: Key, operands: Iterable[Any]) -> ScalarType:
        """The type of a weak value that comes from these operands: constants, and values of whatever type."""
        dtype = self.decided.get(key, float32 if key[0] == "f" else int32)
        if self.over:
            return ScalarType(dtype, weak=True)
        for operand in operands:
            facts = self._facts[self._root(key)]
            if isinstance(operand, Value):
                self._unite(key, operand)
            elif isinstance(operand, Const) and key[0] == "i" and not dtype.holds(int(operand.value)):
                facts.large, facts.large_at = operand, _place()
                dtype = int64 if int64.holds(int(operand.value)) else uint64
        return ScalarType(dtype, weak=True)

    def bear(self, value: Any, key: Key) -> None:
        """Note that a value was born."""
        if isinstance(value, Value) and not self.over:
            self._keys[value] = key
            self._root(key)

    def converted(self, given: Any, found: Value) -> None:
        """Note that a weak value in another dtype was born; a place may convert several, so its key has that one's."""
        origin = self._keys.get(given)
        if origin is not None and not self.over:
            key = self.key(found.type, (origin, "cast"), origin[-1])  # type: ignore[arg-type]
            self.bear(found, key)
            self.joined(key, [given])

    def pass_on(self, given: Any, param: Value) -> None:
        """Note that a parameter of a block stands for a number."""
        key = self._keys.get(getattr(given, "datum", None))  # type: ignore[arg-type]
        if key is not None:
            self.bear(param, key)

    # Attempts.

    def state(self) -> tuple[Any, ...]:
        """What is known now, to return to where what follows is traced again."""
        return dict(self._keys), dict(self._parents), {key: facts.copy() for key, facts in self._facts.items()}

    def restore(self, state: tuple[Any, ...]) -> None:
        self._keys, self._parents, self._facts = state

    # Meetings.

    def meet(self, datum: Any, dtype: DType, explicit: bool = False) -> None:
        """Note that a value meets a dtype, or is cast to it.

        Raises:
            KernelTypeError: it meets two dtypes.
        """
        key = self._keys.get(datum)
        if key is None or dtype.kind == "b" or (key[0] == "f" and not dtype.is_float):
            return
        facts = self._facts[self._root(key)]
        found = facts.met
        if explicit:
            found = facts.cast
            if key[0] == "i" and not dtype.is_float and (dtype.bits < 32 or dtype == int32):
                return
        elif key[0] == "i" and dtype.is_float:
            found = facts.floats
        if dtype not in found:
            found[dtype] = _place()
            self._check(key[0], facts)

    def same(self, a: Any, b: Any) -> None:
        """Note that two values have one dtype, where both are weak and of one kind."""
        if a in self._keys and not self.over:
            self._unite(self._keys[a], b)

    def _root(self, key: Key) -> Key:
        if key not in self._parents:
            self._parents[key] = key
            self._facts[key] = _Facts(key[-1])
        while self._parents[key] != key:
            key = self._parents[key]
        return key

    def _unite(self, key: Key, value: Any) -> None:
        other = self._keys.get(value)
        if other is None or other[0] != key[0]:
            return
        a, b = self._root(other), self._root(key)
        if a != b:
            self._parents[b] = a
            facts = self._facts[a]
            facts.take(self._facts.pop(b))
            self._check(key[0], facts)

    def _check(self, kind: str, facts: _Facts) -> None:
        """Refuse values that cannot have one dtype."""
        found = dict(facts.met)
        if found and kind == "i":
            found.update(facts.floats)
        elif found:
            (dtype, *_) = found
            found.update({cast: place for cast, place in facts.cast.items() if cast.bits > dtype.bits})
        if len(found) > 1:
            raise fail(_conflict(facts.name, list(found.items())[:2]))

    # After the trace.

    def settle(self) -> dict[Key, DType] | None:
        """The dtypes to trace again with; None where this trace has had them.

        Raises:
            KernelValueError: a literal does not fit.
        """
        found = {key: self._facts[self._root(key)].dtype(key[0]) for key in self._parents}
        if any(self.decided.get(key, float32 if key[0] == "f" else int32) != dtype for key, dtype in found.items()):
            return found
        for key, facts in self._facts.items():
            if facts.large is not None and not found[key].holds(int(facts.large.value)):
                raise _too_large(facts, found[key])
        return None


def _conflict(name: str, found: list[tuple[DType, Location | None]]) -> KernelTypeError:
    (a, _), (b, _) = found
    meant = b if b.is_float and not a.is_float else a if a.bits < b.bits else b
    here = _place()
    places = {dtype.name: "here" if place == here else f"at line {place.line}" for dtype, place in found if place}
    met = " and ".join(f"{dtype} {where}" for dtype, where in places.items())
    text = name.strip("'") if name.startswith("'") else "..."
    return KernelTypeError(
        f"{name} comes from literals, which take the dtype that they meet, but it meets {met}; "
        f"cast it where you mean {meant.name}, as in tk.{meant.name}({text})"
    )


def _too_large(facts: _Facts, dtype: DType) -> KernelValueError:
    """A literal does not fit the dtype that it has to have."""
    assert facts.large is not None
    if not facts.met:
        try:
            adapted(facts.large, ScalarType(dtype, weak=True))
        except KernelValueError as error:
            return error.at(facts.large_at)  # type: ignore[return-value]
    (place, *_) = facts.met.values()
    where = f", the dtype that it meets at line {place.line}" if place is not None else ""
    text = f"the constant {shown(facts.large.value)} does not fit {dtype.name}{where}"
    return KernelValueError(text, facts.large_at)


def _tells(name: str) -> int:
    """How much a name says: a variable, what control flow chooses, the result of an op."""
    return 2 if name.startswith("'") else 0 if name.startswith("the result") else 1


def _place() -> Location | None:
    context = active()
    return context.location() if context is not None else None


def tracked() -> Literals | None:
    """What the running kernel knows of its literals."""
    found: Literals | None = getattr(active(), "literals", None)
    return found


def current_place() -> Any:
    """Where the running call stands, as part of a key."""
    place = _place()
    return place and (place.file, place.line, place.column, place.end_column)


def _key_of_op(literals: Literals, type: ScalarType, name: str) -> Key:
    place = _place()
    where = f" at line {place.line}" if place is not None else ""
    return literals.key(type, (current_place(), name), f"the result of {name}{where}")


def of_literals(common: ScalarType, operands: Iterable[Any], name: str) -> ScalarType:
    """The type that operands which come from literals alone have in an op, once it is known which dtype it meets."""
    context, literals = active(), tracked()
    if context is None or literals is None:
        return common
    given = tuple(operands)
    floats = common.dtype.is_float
    if context.eager and any(not isinstance(item, Const) and item.type.dtype.is_float == floats for item in given):
        return common
    return literals.joined(_key_of_op(literals, common, name), given)


def derive(results: Iterable[Any], operands: Mapping[str, Any], name: str) -> None:
    """Note the results of an op that come from literals alone."""
    for result in results:
        if isinstance(result, Value) and is_weak(result.type) and (literals := tracked()) is not None:
            key = _key_of_op(literals, result.type, name)  # type: ignore[arg-type]
            literals.joined(key, [value for operand in operands.values() for value in leaves(operand)])
            literals.bear(result, key)


def adopt(operand: Any, wanted: ScalarType) -> Any:
    """A run-time number in the dtype that it meets."""
    type = operand.type
    literals = tracked()
    if literals is not None and not (wanted.weak and wanted.dtype.is_float == type.dtype.is_float):
        literals.meet(operand, wanted.dtype)
    if type.dtype == wanted.dtype:
        return operand
    found = OPERATORS["cast"].record({"a": operand}, {"dtype": wanted.dtype}, weak=wanted.weak).datum  # type: ignore[attr-defined]
    if literals is not None and wanted.weak:
        literals.converted(operand, found)
    return found
