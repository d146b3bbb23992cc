"""Where a builtin's call goes: recorded by a ``Builder`` while a kernel is traced, computed at once otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tilekit.errors import KernelNotImplementedError, Location, TilekitError
from tilekit.ir.core import Block, Const, Op, Operand, Value, make_op
from tilekit.ir.nesting import MOST_NESTED, room_for
from tilekit.ir.types import Type

if TYPE_CHECKING:
    from tilekit.ir.builtin import Builtin


@dataclass(frozen=True, eq=False, slots=True)
class Concrete:
    """A value that is known now: NumPy data of a logical type."""

    type: Type
    data: Any
    missing: bool = field(default=False, kw_only=True)
    """Whether it is a tile with elements of lanes that the block lacks."""


Datum = Value | Concrete
"""What a handle holds."""


class Context(Protocol):
    """Executes or records calls of builtins."""

    eager: bool

    def apply(
        self,
        builtin: Builtin,
        operands: Mapping[str, Any],
        attrs: Mapping[str, Any],
        types: tuple[Type, ...],
        blocks: tuple[Block, ...] = (),
    ) -> tuple[Any, ...]: ...

    def location(self) -> Location | None: ...


@dataclass(frozen=True)
class LaunchForm:
    """What a kernel's IR may depend on about its launch."""

    tiled: bool = True
    """One block a grid point (``launch_tiled``), or one lane a point (``launch``)."""
    ndim: int | None = None
    """Dimensions of the grid; None where not known, as in a compile without a launch."""
    block_dim: int | None = None
    ragged: bool = False
    """Whether the points of ``launch`` leave the last block without some of its lanes."""
    whole: int = 0
    """Leading coordinates of a point that all lanes of a block share: the extents after them make whole blocks."""


@dataclass
class Builder:
    """Records ops. ``locate`` tells where in the user's source the running call stands."""

    ops: list[Op] = field(default_factory=list)
    locate: Any = None
    live: list[Any] = field(default_factory=list)
    """Weak references to the base tile handles that may be updated (see ``handles``)."""
    form: LaunchForm | None = None
    element: str = ""
    """The builtin whose function of single elements is recorded; it may not write to tiles."""
    dropped: dict[str, str] = field(default_factory=dict)
    """Variables that a loop left without a value, with the reason."""
    partial: list[list[Any]] = field(default_factory=list)
    """For each loop around, the variables that are bound in this iteration only where no jump left it."""
    level: int = 0
    """Branches and loops around what is recorded."""
    literals: Any = None
    """What is known of numbers that come from literals (see ``literals``)."""
    eager = False

    def apply(
        self,
        builtin: Builtin,
        operands: Mapping[str, Operand],
        attrs: Mapping[str, Any],
        types: tuple[Type, ...],
        blocks: tuple[Block, ...] = (),
    ) -> tuple[Value, ...]:
        results = tuple(Value(type) for type in types)
        self.ops.append(make_op(builtin, operands, attrs, results, blocks, self.location()))
        return results

    def location(self) -> Location | None:
        return self.locate() if self.locate is not None else None

    def block(self, params: tuple[Value, ...], results: tuple[Value | Const, ...] = ()) -> Block:
        return Block(params, tuple(self.ops), results)


_active: ContextVar[Context | None] = ContextVar("tilekit_context", default=None)


def active() -> Context | None:
    return _active.get()


@contextmanager
def using(context: Context | None) -> Iterator[Any]:
    """Make ``context`` the one that calls of builtins go to; None runs them at once, as outside kernels."""
    token = _active.set(context)
    try:
        yield context
    finally:
        _active.reset(token)


@contextmanager
def building(element: str = "") -> Iterator[Builder]:
    """A fresh builder inside the active one: what is recorded in it becomes a block."""
    outer = _active.get()
    known = getattr(outer, "locate", None), getattr(outer, "literals", None)
    inherits = outer if isinstance(outer, Builder) else Builder(locate=known[0], literals=known[1])
    names = ("locate", "live", "form", "dropped", "partial", "literals")
    kept = {name: getattr(inherits, name) for name in names}
    level = inherits.level + 1
    if level > MOST_NESTED:
        text = f"branches and loops nest more than {MOST_NESTED} deep; compute what is chosen, or load it from an array"
        raise fail(KernelNotImplementedError(text))
    with room_for(1), using(Builder(**kept, element=element or inherits.element, level=level)) as builder:
        yield builder


def fail(error: TilekitError) -> TilekitError:
    """The error with the place in the user's source where it arose, when a kernel is running."""
    context = _active.get()
    return error.at(context.location()) if context is not None and error.location is None else error


def together(run: Callable[[], Any], what: str) -> Any:
    """The result of ``run``, done once for all lanes of a block where they take turns (see ``runtime.turns``)."""
    team = getattr(_active.get(), "team", None)
    return run() if team is None else team.together(run, what)


def agreed(run: Callable[[], Any], key: object) -> Any:
    """The result of ``run``, done once for all lanes of a block that have the same key, where they take turns."""
    team = getattr(_active.get(), "team", None)
    return run() if team is None else team.agreed(run, key)
