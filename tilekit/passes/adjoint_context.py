"""What an adjoint rule asks about the op that is reversed: the one implementation of ``AdjointContext``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.context import Builder, building, using
from tilekit.ir.core import Block, Op, Value, type_of
from tilekit.ir.gradients import NoGradient, gradient_type, has_gradient
from tilekit.ir.handles import OPERATORS, Array, wrap
from tilekit.ir.regions import carried_yields
from tilekit.ir.types import ArrayType, ScalarType, TileType
from tilekit.passes.activity import reached_values, varied_values
from tilekit.passes.element_gradients import reverse_elements
from tilekit.passes.lane_gradients import first
from tilekit.passes.reverse_loops import LoopReversal, count_iterations, results_of
from tilekit.passes.scope import Scope, datum_of, zero_of
from tilekit.passes.uniformity import updated_base

if TYPE_CHECKING:
    from tilekit.passes.differentiate import Reversal


class Adjoint:
    """What an adjoint rule can ask: about one op, in the scope that is being reversed."""

    def __init__(self, reversal: Reversal, scope: Scope, op: Op, grads: list[Any]) -> None:
        self.reversal = reversal
        self.scope = scope
        self.op = op
        self.grads = grads

    def refuse(self, reason: str) -> KernelNotImplementedError:
        return KernelNotImplementedError(f"cannot differentiate through {self.op.written}: {reason}", self.op.location)

    def value(self, name: str, index: int | None = None) -> Any:
        """An operand (or one of a tuple), computed again: a handle, a number, None or a tuple of them."""
        operand = self.op.operands[name]
        return self._handle(operand[index] if index is not None and isinstance(operand, tuple) else operand)

    def _handle(self, operand: Any) -> Any:
        if isinstance(operand, tuple):
            return tuple(map(self._handle, operand))
        return wrap(self.scope.value(operand)) if isinstance(operand, Value) else operand and operand.value

    def result(self, index: int = 0) -> Any:
        """A result, computed again."""
        return wrap(self.scope.value(self.op.results[index]))

    def given(self) -> tuple[Any, ...]:
        """The gradients of the results: zeros where none flows."""
        pairs = zip(self.op.results, self.grads, strict=True)
        return tuple(zeros_like(r) if grad is None else grad for r, grad in pairs)

    def flows(self, index: int = 0) -> bool:
        """Whether a gradient flows into a result."""
        return self.grads[index] is not None

    def array(self, name: str, index: int | None = None) -> Array:
        """The gradient of an array operand, or of one of a tuple of them."""
        value = self.op.operands[name]
        value = value[index] if index is not None and isinstance(value, tuple) else value
        assert isinstance(value, Value)
        return Array(self._gradient_array(value))

    def _gradient_array(self, array: Value) -> Value:
        found = self.reversal.gradients.get(array)
        if found is not None:
            return found
        scope, op = self.scope.definition(array)
        assert op is not None
        assert isinstance(array.type, ArrayType)
        known = {value: self._gradient_array(value) for value in op.inputs() if isinstance(value.type, ArrayType)}
        dtype = next(iter(known.values())).type.dtype
        return scope.copy(op, known, replace(array.type, dtype=dtype))

    def finite_outside(self, name: str) -> bool:
        """Whether an operand is finite where it comes from what lies outside of arrays."""
        operand = self.op.operands[name]
        return not isinstance(operand, Value) or self.reversal.finite_outside(operand)

    def zeros(self, name: str) -> Any:
        """A zero gradient for an operand."""
        return zeros_like(self.op.operands[name])

    @staticmethod
    def widen(value: Any) -> Any:
        """A value in the dtype that gradients are computed in."""
        if isinstance(value, int | float) or value.dtype == gradient_type(value.type).dtype:
            return value
        return OPERATORS["cast"](value, gradient_type(value.type).dtype)

    def wants(self, operand: Any) -> bool:
        """Whether an operand's gradient is asked for."""
        return isinstance(operand, Value) and operand in self.reversal.varied

    def take_answers(self, answers: Mapping[str, Any]) -> None:
        """Add what a rule answered to the gradients of the operands."""
        for name, operand in self.op.operands.items():
            if name in answers:
                self._answer(name, operand, answers[name])
            elif any(has_gradient(type) for type in _flat(type_of(operand))):
                raise self.refuse(f"its adjoint rule does not answer for operand {name!r}")

    def _answer(self, name: str, operand: Any, given: Any) -> None:
        if isinstance(operand, tuple):
            for index, item in enumerate(operand):
                self._answer(name, item, given[index] if isinstance(given, tuple) else given)
            return
        if not self.wants(operand):
            return
        given = given() if callable(given) else given
        if isinstance(given, NoGradient):
            raise self.refuse(f"no gradient for its operand {name!r}: {given.reason}")
        if not (isinstance(given, int) and given == 0):
            self._add(operand, name, given)

    def _add(self, operand: Value, name: str, given: Any) -> None:
        own = self.op.builtin
        if self.scope.forward.lanes.own and isinstance(operand.type, ScalarType) and own.cooperative:
            given = given if name in own.per_lane else first(given)
        self.scope.add(operand, given)

    # Lanes.

    def once(self, grad: Any, place: str, value: str) -> Any:
        """The gradient of a number that each lane writes at a place of a tile that they share."""
        return self.scope.forward.lanes.once(self.op, grad, self.op.operands[place], self.op.operands[value])

    def add_element(self, name: str, grad: Any, add: Callable[[Any, Any, Any, Any], Any]) -> Any:
        """The gradient of a tile of which each lane reads the only element, or the element that a view of it is.

        ``add`` adds a number to an element of a tile, given the number, the offset and the map of a view.
        """
        value, offset, map = self.op.operands[name], None, None
        assert isinstance(value, Value)
        if not self.wants(value):
            return 0
        while (maker := self.scope.definition(value)[1]) is not None and maker.builtin.view and "map" in maker.attrs:
            whole = maker.attrs["map"]
            composed = whole if map is None else map.after(whole)
            if composed is None:
                break
            value, map = next(maker.inputs()), composed
            more = self._handle(maker.operands["offset"])
            offset = more if offset is None else offset if more is None else offset + more
        held = self.scope.take(value)
        held = zeros_like(value) if held is None else held
        self.scope.add(value, add(held, grad, offset, map))
        return 0

    def sum(self, tile: Any) -> Any:
        """The sum of a tile's elements, as a scalar."""
        return REGISTRY["tile_sum"](tile)[0]

    # Blocks.

    def reverse_elements(self, record: Callable[[Block, tuple[Value, ...]], Any]) -> dict[Value, Any]:
        """For an op that runs a block for each element: the gradients of the block's parameters, as tiles."""
        reversal, (block,) = self.reversal, self.op.blocks
        found = reverse_elements(self.scope, self.op, reversal.block, reversal.varied, record)
        for value in found.keys() - set(block.params):
            self._add(value, "", self.sum(found[value]))
        return found

    def through(self, name: str, build: Callable[[Any], Any]) -> Any:
        """The gradient of an operand by way of ops that give the same result; those of what they capture are added."""
        value = self.op.operands[name]
        assert isinstance(value, Value)
        param = Value(value.type, value.hint)
        with building() as builder:
            made = datum_of(build(wrap(param)))
        block, varied = builder.block((param,), (made,)), self.reversal.varied
        varied |= varied_values(block, (*varied, param))
        inner = Scope(self.scope, block, self.scope.builder, {param: self.scope.value(value)})
        inner.seed((made,), self.grads, varied)
        self.reversal.block(inner)
        found = inner.take(param)
        for outer in tuple(inner.grads):
            self.scope.add(outer, inner.take(outer))
        return 0 if found is None else found

    def reverse_inside(self) -> None:
        """Reverse the block of an op that runs it once, here."""
        inner = Scope(self.scope, self.op.blocks[0], self.scope.builder, {})
        inner.seed(inner.block.results, self.grads, self.reversal.varied)
        self.reversal.block(inner)
        for value in tuple(inner.grads):
            self.scope.add(value, inner.take(value))

    def reverse_branches(self, record: Callable[[Any], Any]) -> None:
        """Reverse each block of a branch; ``record`` makes the op of the reversed blocks."""
        sides: list[tuple[Builder, Scope]] = []
        in_place = self._in_place()
        for block in self.op.blocks:
            with building() as builder:
                inner = self.scope.inside(self.op, block, builder)
                inner.grads.update(in_place)
                inner.seed(block.results, self.grads, self.reversal.varied)
                self.reversal.block(inner)
            sides.append((builder, inner))
        outer = list(dict.fromkeys(value for _, inner in sides for value in inner.grads))
        blocks = []
        for builder, inner in sides:
            with using(builder):
                found = tuple(inner.take_datum(value) for value in outer)
            blocks.append(builder.block((), found))
        if outer or any(block.ops for block in blocks):
            for value, result in zip(outer, results_of(record(tuple(blocks))), strict=True):
                self.scope.add(value, result)

    def _in_place(self) -> dict[Value, Any]:
        """The gradients of tiles that the blocks of a branch add to in place: lanes apart cannot make new tiles."""
        if self.scope.forward.lanes.count is None:
            return {}
        given = [i for i, grad in enumerate(self.grads) if grad is not None]
        passed = {updated_base(self.op, i) for i in given}
        found: dict[Value, Any] = {}
        for block in self.op.blocks:
            yielded = carried_yields(self.op, block)
            reached = reached_values(block, (yielded[i] for i in given), self.reversal.varied)
            for value in block.free:
                if value in reached and isinstance(value.type, TileType) and value not in passed:
                    found[value] = None
        for value in found:
            held = self.scope.take(value)
            found[value] = zeros_like(value) if held is None else held
        return found

    def reverse_loop(
        self,
        count: Callable[[], Any],
        leading: Callable[[Any], tuple[Any, ...]],
        record: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        LoopReversal(self).run(count, leading, record)

    def count_iterations(self) -> Any:
        return count_iterations(self.op, self.scope)


def zeros_like(value: Any) -> Any:
    """A gradient of zeros for a tile or number, as a handle."""
    return wrap(zero_of(gradient_type(value.type)))  # type: ignore[arg-type]


def _flat(types: Any) -> Iterator[Any]:
    """The types of tiles and numbers in the type of an operand."""
    if isinstance(types, tuple):
        for item in types:
            yield from _flat(item)
    elif isinstance(types, TileType | ScalarType):
        yield types
