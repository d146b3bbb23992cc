"""The number types that variables take where control flow meets, and which then hold values of their own, as tracing
found them.

A literal has no dtype of its own: ``x = 0`` before a loop that adds float32 values is a float32 in the compiled form.
Tracing records here what each such variable became; eager execution converts at the same places, so that both forms
compute the same numbers. A place is a *site* (one piece of control flow in the source) on a *path* (the calls and the
iterations of unrolled loops that lead to it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tilekit.frontend.carried import CarriedNumber
from tilekit.frontend.merge import UNBOUND, NumberSlot, Slot, TupleSlot, numeric_operand
from tilekit.frontend.source import locate
from tilekit.frontend.syntax import RESULT
from tilekit.ir.context import Concrete
from tilekit.ir.core import Const
from tilekit.ir.handles import Scalar
from tilekit.ir.literals import Key, Literals, tracked
from tilekit.ir.types import DType, ScalarType, to_numpy_scalar

Site = tuple[Any, ...]
Path = tuple[Any, ...]
NumberKind = Any
"""A ScalarType, a tuple of kinds, or None for what is no number."""


class Joins:
    """Recorded while a kernel is traced, read while it runs eagerly."""

    def __init__(self) -> None:
        self.kinds: dict[tuple[Path, Site], dict[str, NumberKind]] = {}
        self.needed: dict[Site, dict[str, None]] = {}
        """The variables that must be converted at a site, on some path."""
        self.values: set[tuple[Path, Site, str]] = set()
        """The variables that hold tiles there, which become values (see ``binding``)."""
        self.rounds: dict[tuple[Path, Site], int] = {}
        """Iterations of unrolled loops."""
        self.decided: Mapping[Key, DType] = {}
        """The dtypes of literals (see ``ir.literals``)."""

    def restart(self, decided: Mapping[Key, DType]) -> None:
        """Forget an earlier trace of the kernel, but for the dtypes that it found."""
        self.__init__()  # type: ignore[misc]
        self.decided = decided

    def record(self, site: Site | None, name: str, slot: Slot, values: list[Any]) -> None:
        """A variable meets as ``slot`` says; ``values`` are what it is on the ways that lead there."""
        self.record_kind(site, name, number_kind(slot), values)

    def record_kind(self, site: Site | None, name: str, kind: NumberKind, values: list[Any]) -> None:
        """A variable becomes numbers of these types."""
        if kind is None or site is None or (name.startswith("__") and name != RESULT):
            return
        self.kinds.setdefault((path(), site), {})[name] = kind
        if not all(value is UNBOUND or fits(value, kind) for value in values):
            self.needed.setdefault(site, {})[name] = None

    def record_value(self, site: Site | None, name: str) -> None:
        if site is not None:
            self.values.add((path(), site, name))
            self.needed.setdefault(site, {})[name] = None

    def names(self, *sites: Site) -> list[str]:
        """The variables to convert at one of the sites."""
        return list(dict.fromkeys(name for site in sites for name in self.needed.get(site, ())))


def number_kind(slot: Slot) -> NumberKind:
    if isinstance(slot, NumberSlot | CarriedNumber):
        return slot.type
    if isinstance(slot, TupleSlot):
        kinds = tuple(map(number_kind, slot.items))
        return None if all(kind is None for kind in kinds) else kinds
    return None


def fits(value: Any, kind: NumberKind) -> bool:
    """Whether a value has the kind already."""
    if isinstance(kind, tuple):
        return isinstance(value, tuple) and all(map(fits, value, kind))
    return kind is None or (isinstance(value, Scalar) and value.type == kind)


def as_kind(value: Any, kind: NumberKind) -> Any:
    """A number, or a tuple of them, in the dtypes that the kind says."""
    if value is None or value is UNBOUND or fits(value, kind):
        return value
    if isinstance(kind, tuple):
        return tuple(map(as_kind, value, kind))
    return concrete(value, kind)


def concrete(value: Any, type: ScalarType) -> Scalar:
    """A known number as a scalar of a type.

    Example:
        >>> from tilekit.ir.types import float32
        >>> concrete(2, ScalarType(float32)).type.dtype
        float32
    """
    operand = numeric_operand(value, type)
    data = to_numpy_scalar(operand.value, type.dtype) if isinstance(operand, Const) else operand.data
    return Scalar(Concrete(type, data))


_current: ContextVar[Joins | None] = ContextVar("tilekit_joins", default=None)


def current() -> Joins | None:
    """What the running trace records to."""
    return _current.get()


@contextmanager
def recording(joins: Joins) -> Iterator[Joins]:
    """Let what is traced inside record its joins."""
    token = _current.set(joins)
    try:
        yield joins
    finally:
        _current.reset(token)


def path() -> Path:
    """The path to the running statement."""
    literals = tracked()
    return literals.path if literals is not None else ()


def call_step() -> tuple[int, int]:
    """The step of a path that the running call of a helper is."""
    place = locate()
    return (place.line, place.column) if place is not None else (0, 0)


@contextmanager
def entering() -> Iterator[None]:
    """Inside: a helper that a kernel calls."""
    literals = tracked()
    if literals is None:
        yield
        return
    with literals.inside(call_step()):
        yield


@contextmanager
def iteration(site: Site | None, number: int) -> Iterator[None]:
    """Inside: one iteration of an unrolled loop."""
    joins, literals = _current.get(), tracked()
    if joins is not None:
        joins.rounds[path(), site or ()] = number + 1
    if literals is None:
        yield
        return
    with literals.inside((site, number)):
        yield


def followed(items: Iterator[Any]) -> Iterator[Any]:
    """The items that a list or dict is made of in one expression: the path leads through each."""
    literals = tracked()
    return items if literals is None else along(literals, items, ("items", *call_step()))


def along(literals: Literals, items: Iterable[Any], site: Site) -> Iterator[Any]:
    """Items of which each is one step further along the path."""
    outer = literals.path
    try:
        for number, item in enumerate(items):
            literals.path = (*outer, (site, number))
            yield item
    finally:
        literals.path = outer


def each_of(site: Site) -> Site:
    """The site at the end of an unrolled iteration, where a ``break`` before it joins."""
    return ("each", *site[1:])


def record_kind(site: Site | None, name: str, kind: NumberKind, values: list[Any]) -> None:
    joins = _current.get()
    if joins is not None:
        joins.record_kind(site, name, kind, values)


def record(site: Site | None, name: str, slot: Slot, values: list[Any]) -> None:
    joins = _current.get()
    if joins is not None:
        joins.record(site, name, slot, values)


def record_value(site: Site | None, name: str) -> None:
    """A variable holds a value of its own from this site on."""
    joins = _current.get()
    if joins is not None:
        joins.record_value(site, name)
