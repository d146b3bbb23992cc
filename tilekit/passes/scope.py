"""One block of a function that is being reversed: its gradients so far, and its values computed again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import Builder
from tilekit.ir.core import Block, Const, Op, Value
from tilekit.ir.gradients import gradient_type
from tilekit.ir.handles import OPERATORS, Scalar, Tile, wrap
from tilekit.ir.types import ScalarType, TileType, Type
from tilekit.passes.recompute import repeat


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


class Scope:
    """A forward block and the builder that its reversed ops go to.

    ``known`` maps forward values to their values in the adjoint. ``carried`` are a loop's parameters, whose values in
    past iterations are gone.
    """

    def __init__(
        self,
        parent: Scope | None,
        block: Block,
        builder: Builder,
        known: dict[Value, Value],
        carried: Mapping[Value, Op] | None = None,
    ) -> None:
        self.parent = parent
        self.block = block
        self.builder = builder
        self.known = known
        self.carried = carried or {}
        self.defined = {result: op for op in block.ops for result in op.results}
        self.grads: dict[Value, Any] = {}

    # Forward values.

    def definition(self, value: Value) -> tuple[Scope, Op]:
        """The op that defines a value, and the scope it stands in."""
        scope: Scope | None = self
        while scope is not None:
            if value in scope.defined:
                return scope, scope.defined[value]
            if value in scope.carried:
                raise _carried(value, scope.carried[value])
            scope = scope.parent
        raise AssertionError(f"a {value.type} is not defined in the function that is differentiated")

    def value(self, value: Value) -> Value:
        """A forward value in the adjoint, computed again in the scope it is defined in."""
        scope: Scope | None = self
        while scope is not None:
            if value in scope.known:
                return scope.known[value]
            scope = scope.parent
        home, op = self.definition(value)
        home.known.update(zip(op.results, home.repeat(op, {}), strict=True))
        return home.known[value]

    def repeat(self, op: Op, replaced: Mapping[Value, Value], type: Type | None = None) -> tuple[Value, ...]:
        """A copy of an op of this scope's block, with some operands replaced and, given a type, that of its result."""
        found = repeat(op, lambda value: replaced[value] if value in replaced else self.value(value), self.builder)
        if type is None:
            return found
        results = (Value(type),)
        self.builder.ops[-1] = self.builder.ops[-1].with_(results=results)
        return results

    # Gradients.

    def add(self, value: Value, given: Any) -> None:
        """Add to the gradient of a value."""
        wanted = gradient_type(value.type)
        if isinstance(given, float | int):
            given = wrap(Const(ScalarType(wanted.dtype), float(given)))  # type: ignore[arg-type]
        if given.dtype != wanted.dtype or getattr(given.type, "weak", False):
            given = OPERATORS["cast"](given, wanted.dtype)
        if given.type != wanted:
            raise AssertionError(f"a gradient of type {given.type} for a {value.type}")
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


def _carried(value: Value, loop: Op) -> KernelNotImplementedError:
    name = repr(value.hint) if value.hint else f"a {value.type}"
    return KernelNotImplementedError(
        f"cannot differentiate this loop: the gradient needs {name}, which the loop carries, as it was in every "
        "iteration; only sums over iterations are differentiated",
        loop.location,
    )
