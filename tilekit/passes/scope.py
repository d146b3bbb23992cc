"""One block of a function that is being reversed: its gradients so far, and its values computed again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilekit.ir.context import Builder, using
from tilekit.ir.core import Block, Const, Op, Value
from tilekit.ir.gradients import gradient_type
from tilekit.ir.handles import OPERATORS, Scalar, Tile, wrap
from tilekit.ir.regions import inputs_of
from tilekit.ir.types import ScalarType, TileType, Type
from tilekit.passes.lane_gradients import LaneGradients
from tilekit.passes.lost import Lost
from tilekit.passes.recompute import copy_op, slice_of
from tilekit.passes.uniformity import updated_base

if TYPE_CHECKING:
    from tilekit.passes.saved_tiles import SavedTile


def zero_of(type: Type) -> Value | Const:
    """Zeros of a type, recorded in the active builder where they are a tile."""
    if isinstance(type, TileType):
        found = datum_of(OPERATORS["full"](type.shape, 0, type.dtype))
        assert isinstance(found, Value)
        return found
    assert isinstance(type, ScalarType)
    return Const(ScalarType(type.dtype), 0.0)


def datum_of(handle: Any) -> Any:
    """What a handle holds."""
    return handle.read() if isinstance(handle, Tile) else handle.datum if isinstance(handle, Scalar) else handle


def constant(value: float, type: ScalarType) -> Any:
    """A number of a type, as a handle."""
    return wrap(Const(type, value))  # type: ignore[arg-type]


@dataclass
class Forward:
    """What the scopes of one function know of it."""

    lost: Mapping[Value, Lost]
    """Values that cannot be computed again."""
    lanes: LaneGradients
    asked: dict[Op, dict[Value, None]] = field(default_factory=dict)
    """Of each region, the results that were computed again."""
    expected: Mapping[Op, Mapping[Value, None]] = field(default_factory=dict)
    """The same of an earlier reversal of the function, so that one copy of a region can give them all."""
    saved: Mapping[Value, SavedTile] = field(default_factory=dict)
    """Tiles that the launch has kept in memory."""


class Scope:
    """A forward block and the builder that its reversed ops go to.

    ``known`` maps forward values to their values in the adjoint. ``carried`` are a loop's parameters; those that the
    adjoint of an iteration needs as they were in it come to be ``needed``, with a value that stands for them.
    """

    def __init__(
        self,
        parent: Scope | None,
        block: Block,
        builder: Builder,
        known: dict[Value, Value],
        carried: Iterable[Value] = (),
        forward: Forward | None = None,
        element: bool = False,
    ) -> None:
        self.parent = parent
        self.block = block
        self.builder = builder
        self.known = known
        self.carried = frozenset(carried)
        self.needed: dict[Value, Value] = {}
        self.defined = {result: op for op in block.ops for result in op.results}
        self.grads: dict[Value, Any] = {}
        found = parent.forward if parent is not None else forward
        assert found is not None
        self.forward: Forward = found
        self.element: bool = element or (parent is not None and parent.element)
        """Whether it runs for single elements of tiles."""
        self.divergent: bool = parent is not None and parent.divergent
        """Whether lanes come here by different ways."""

    def inside(self, op: Op, block: Block, builder: Builder, carried: Iterable[Value] = ()) -> Scope:
        """The scope of a block of an op of this one."""
        found = Scope(self, block, builder, {}, carried)
        found.divergent = self.divergent or self.forward.lanes.diverges(op)
        return found

    # Forward values.

    def definition(self, value: Value) -> tuple[Scope, Op | None]:
        """The scope that defines a value, and its op; None for what a loop carries."""
        scope: Scope | None = self
        while scope is not None:
            if value in scope.defined:
                return scope, scope.defined[value]
            if value in scope.carried:
                return scope, None
            scope = scope.parent
        raise AssertionError(f"a {value.type} is not defined in the function that is differentiated")

    def value(self, value: Value) -> Value:
        """A forward value in the adjoint, computed again in the scope it is defined in.

        Raises:
            KernelNotImplementedError: it cannot be computed again.
        """
        if (found := self._found(value)) is not None:
            return found
        waiting = [self._computing(value)]
        while waiting:
            first = next(waiting[-1], None)
            if first is None:
                waiting.pop()
            else:
                waiting.append(first)
        found = self._found(value)
        assert found is not None
        return found

    def _found(self, value: Value) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if value in scope.known:
                return scope.known[value]
            scope = scope.parent
        return None

    def _computing(self, value: Value) -> Iterator[Any]:
        """Compute a value; gives what computes each value that it needs, to be run first: Python's stack is too short
        for the chains of unrolled loops."""
        if value in self.forward.lost:
            raise self.forward.lost[value].refuse(value)
        home, op = self.definition(value)
        if value in self.forward.saved:
            tile = self.forward.saved[value]
            home.known[value] = tile.load(home.value(tile.array), home.builder)
            return
        if op is None:
            home.known[value] = home.needed[value] = Value(value.type, value.hint)
            return
        asked = self.forward.asked.setdefault(op, {})
        asked[value] = None
        found = slice_of(op, {**self.forward.expected.get(op, {}), **asked}, self.forward.lost)
        bases = home._updated_apart(op)
        for each in (*bases, *inputs_of(found)):
            if home._found(each) is None:
                yield home._computing(each)
        apart = {base: home._copied(base) for base in bases}
        results = copy_op(found, lambda value: apart[value] if value in apart else home.value(value), home.builder)
        home.known.update(zip(found.results, results, strict=True))

    def _updated_apart(self, op: Op) -> set[Value]:
        """The tiles that lanes update one by one in a branch or loop: it needs copies, as both values are needed."""
        if not self.forward.lanes.diverges(op) or self.divergent:
            return set()
        bases = {updated_base(op, i) for i, r in enumerate(op.results) if isinstance(r.type, TileType)}
        return {base for base in bases if base is not None}

    def _copied(self, base: Value) -> Value:
        value = self.value(base)
        with using(self.builder):
            found = datum_of(OPERATORS["cast"](wrap(value), value.type.dtype))
        assert isinstance(found, Value)
        return found

    def copy(self, op: Op, replaced: Mapping[Value, Value], type: Type) -> Value:
        """A copy of an op of this scope's block with some operands replaced and a result of another type."""
        copy_op(op, lambda value: replaced[value] if value in replaced else self.value(value), self.builder)
        result = Value(type)
        self.builder.ops[-1] = self.builder.ops[-1].with_(results=(result,))
        return result

    def recorded(self) -> dict[Value, Op]:
        """The ops of the adjoint so far whose results can be used here."""
        outer = self.parent.recorded() if self.parent is not None else {}
        return {**outer, **{result: op for op in self.builder.ops for result in op.results}}

    # Gradients.

    def add(self, value: Value, given: Any) -> None:
        """Add to the gradient of a value."""
        wanted = gradient_type(value.type)
        if isinstance(given, float | int):
            given = constant(float(given), ScalarType(wanted.dtype))
        if given.dtype != wanted.dtype or getattr(given.type, "weak", False):
            given = OPERATORS["cast"](given, wanted.dtype)
        if given.type != wanted:
            raise AssertionError(f"a gradient of type {given.type} where it is a {wanted}")
        old = self.grads.get(value)
        self.grads[value] = given if old is None else old + given

    def seed(self, values: Iterable[object], grads: Iterable[Any], varied: set[Value]) -> None:
        """Start with the gradients of what the block yields."""
        for value, grad in zip(values, grads, strict=True):
            if grad is not None and isinstance(value, Value) and value in varied:
                self.add(value, grad)

    def take(self, value: Value) -> Any:
        """The gradient of a value, or None; it is complete when the op that defines the value is reversed."""
        return self.grads.pop(value, None)

    def take_datum(self, value: Value) -> Any:
        """The gradient of a value, or zeros, as an operand; recorded in the active builder."""
        found = self.take(value)
        return zero_of(gradient_type(value.type)) if found is None else datum_of(found)
