"""The IR: one ``Op`` record for every operation, in blocks. What an op means lives in its ``Builtin``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilekit.errors import Location
from tilekit.ir.types import ScalarType, Type

if TYPE_CHECKING:
    from tilekit.ir.builtin import Builtin


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """An SSA value: defined once, by an op, a block or a function."""

    type: Type
    hint: str = ""
    """A name for the printer and the emitter."""


@dataclass(frozen=True, slots=True)
class Const:
    """A compile-time number of a known type."""

    type: ScalarType
    value: int | float | bool

    def __str__(self) -> str:
        usual = self.type.weak and self.type.dtype.name in ("int32", "float32")
        return repr(self.value) if usual else f"{self.value!r}:{self.type}"


Operand = Value | Const | tuple[Any, ...] | None
"""What an op reads: a value, a constant, a tuple of them, or nothing where an optional operand is left out."""


def leaves(operand: Operand) -> Iterator[Value]:
    """The values in an operand."""
    if isinstance(operand, Value):
        yield operand
    elif isinstance(operand, tuple):
        for item in operand:
            yield from leaves(item)


def map_operand(operand: Operand, change: Callable[[Any], Any]) -> Any:
    """The operand with ``change`` applied to each value and constant in it."""
    if isinstance(operand, tuple):
        return tuple(map_operand(item, change) for item in operand)
    return None if operand is None else change(operand)


def type_of(operand: Operand) -> Any:
    """The type of an operand: a ``Type``, a tuple of types, or None."""
    return map_operand(operand, lambda item: item.type)


@dataclass(frozen=True, eq=False)
class Block:
    """Ops in order. ``params`` are defined at its start; ``results`` are what it yields at its end."""

    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value | Const, ...] = ()

    @cached_property
    def free(self) -> Mapping[Value, None]:
        """The values that it uses but does not define, in order of first use."""
        defined: set[Value] = set(self.params)
        free: dict[Value, None] = {}

        def use(values: Iterable[Value]) -> None:
            free.update(dict.fromkeys(value for value in values if value not in defined))

        for op in self.ops:
            use(op.inputs())
            for inner in op.blocks:
                use(inner.free)
            defined.update(op.results)
        use(leaves(self.results))
        return free


@dataclass(frozen=True, eq=False)
class Op:
    """``results = builtin(**operands) {attrs} blocks``."""

    builtin: Builtin
    operands: Mapping[str, Operand]
    attrs: Mapping[str, Any]
    results: tuple[Value, ...] = ()
    blocks: tuple[Block, ...] = ()
    location: Location | None = None

    def inputs(self) -> Iterator[Value]:
        """The values that the op itself reads, not those that only its blocks read."""
        for operand in self.operands.values():
            yield from leaves(operand)

    @cached_property
    def has_effect(self) -> bool:
        """Whether it, or an op inside it, does more than yield its results."""
        own = self.builtin
        if own.side_effect or own.writes or own.atomics:
            return True
        return any([inner.has_effect for block in self.blocks for inner in block.ops])

    @cached_property
    def runs_anyway(self) -> bool:
        """Whether it, or an op inside it, must run although nothing uses its results."""
        if self.has_effect or self.builtin.may_fail:
            return True
        return any([inner.runs_anyway for block in self.blocks for inner in block.ops])

    @property
    def written(self) -> str:
        """The op as its user wrote it, for messages: its name, or where another one stands in the source, that text."""
        place = self.location
        text = place.source_line()[place.column : place.end_column or None] if place is not None else ""
        if not text or self.builtin.spelled.strip("'") in text:
            return self.builtin.called
        return f"'{text}'" if place is not None and place.end_column else f"'{text} ...'"

    def types(self) -> dict[str, Any]:
        return {name: type_of(operand) for name, operand in self.operands.items()}

    def with_(self, **changes: Any) -> Op:
        kept = {name: getattr(self, name) for name in ("builtin", "operands", "attrs", "results", "blocks", "location")}
        return make_op(**{**kept, **changes})


def make_op(
    builtin: Builtin,
    operands: Mapping[str, Operand],
    attrs: Mapping[str, Any],
    results: tuple[Value, ...] = (),
    blocks: tuple[Block, ...] = (),
    location: Location | None = None,
) -> Op:
    return Op(builtin, MappingProxyType(dict(operands)), MappingProxyType(dict(attrs)), results, blocks, location)


@dataclass(frozen=True, eq=False)
class Function:
    """What one launch runs: named parameters and a body without results (effects only) or with (adjoint pieces)."""

    name: str
    params: Mapping[str, Value]
    body: Block
    location: Location | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    has_lanes: bool = False
    """Whether its blocks have lanes whatever it does: it was made from one whose blocks have some."""

    def __str__(self) -> str:
        from tilekit.ir.printer import print_function

        return print_function(self)

    def with_body(self, body: Block) -> Function:
        return replace(self, body=body)


def used_values(block: Block) -> set[Value]:
    """The values that ops of a block, and of the blocks inside it, read, and those that the blocks yield."""
    found: set[Value] = set(leaves(block.results))
    for op in walk(block):
        found.update(op.inputs())
        for inner in op.blocks:
            found.update(leaves(inner.results))
    return found


def walk(block: Block, enters: Callable[[Op], bool] = lambda op: True) -> Iterator[Op]:
    """Every op of a block and of the blocks inside it, in order; those of an op that it ``enters``."""
    around = [iter(block.ops)]  # no recursion: blocks may nest deeper than Python's generators
    while around:
        for op in around[-1]:
            yield op
            if op.blocks and enters(op):
                around += [iter(inner.ops) for inner in reversed(op.blocks)]
                break
        else:
            around.pop()
