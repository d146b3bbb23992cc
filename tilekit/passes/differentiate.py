"""Reverse-mode gradients: from a function to the program that adds each array's gradient up.

The adjoint walks the forward function backwards and asks each op's ``adjoint`` rule. It stores nothing: a value that a
rule needs is computed again, where it is needed, from ops without effects. So a loop that only adds to what it carries
is reversed as a loop; one whose gradient needs a carried value of each iteration is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilekit.errors import KernelNotImplementedError, Location
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.context import Builder, building, using
from tilekit.ir.core import Block, Function, Op, Value, leaves, type_of, walk
from tilekit.ir.gradients import NoGradient, gradient_type, has_gradient
from tilekit.ir.handles import OPERATORS, Array, wrap
from tilekit.ir.program import Program
from tilekit.ir.regions import carried_params, carried_yields
from tilekit.ir.rewrite import substitute
from tilekit.ir.types import ArrayType, ScalarType, TileType
from tilekit.passes.activity import (
    reached_results,
    reached_values,
    read_parameters,
    varied_values,
    writes_gradient,
    written_arrays,
)
from tilekit.passes.canonicalize import canonicalize
from tilekit.passes.element_gradients import reverse_elements
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.expand import expand
from tilekit.passes.lane_gradients import LaneGradients, first
from tilekit.passes.scope import Scope, datum_of, zero_of

PREFIX = "adj_"


def differentiate(fn: Function, tiled: bool = True) -> Program:
    """The program of a kernel's gradient.

    Its parameters are the kernel's and, for each array of floats, its gradient: ``gradients`` of the program says which
    is whose. The gradient of an array that the kernel reads is float64 for float64 and else float32; that of an array
    that it only writes has the array's dtype. Running the program adds to the gradients of arrays that the kernel
    reads, and takes from those of arrays that it writes: what was stored over is set to zero. Scalars of the launch
    are constants. ``tiled`` says whether the kernel is launched by ``launch_tiled``, so that a block may have one lane.

    Raises:
        KernelNotImplementedError: the gradient cannot be computed rightly; the error names the op and its line.
    """
    fn = eliminate_dead_code(expand(canonicalize(fn)))
    refuse_overwritten_inputs(fn)
    arrays = gradient_arrays(fn)
    known = {value: Value(value.type, value.hint) for value in fn.params.values()}
    gradients = {fn.params[name]: value for name, value in arrays.items()}
    reversal = Reversal(varied_values(fn.body), gradients, LaneGradients(fn, tiled))
    builder = Builder(locate=lambda: reversal.location)
    with using(builder):
        reversal.block(Scope(None, fn.body, builder, known))
    params = {**{name: known[value] for name, value in fn.params.items()}, **{v.hint: v for v in arrays.values()}}
    adjoint = Function(f"{fn.name}_adjoint", params, builder.block(()), fn.location, fn.options)
    program = Program.of(eliminate_dead_code(adjoint))
    return replace(program, gradients={name: value.hint for name, value in arrays.items()})


def gradient_arrays(fn: Function) -> dict[str, Value]:
    """For each parameter that is an array of floats, that of its gradient, under a name that no other one has."""
    read, taken = read_parameters(fn), set(fn.params)
    found: dict[str, Value] = {}
    for name, value in fn.params.items():
        if isinstance(value.type, ArrayType) and has_gradient(value.type):
            fresh = PREFIX + name
            while fresh in taken:
                fresh += "_"
            taken.add(fresh)
            found[name] = Value(gradient_type(value.type) if name in read else value.type, fresh)
    return found


def refuse_overwritten_inputs(fn: Function) -> None:
    """Refuse a kernel that reads an array and writes it as well: what it read may be gone."""
    origin = {value: value for value in fn.params.values()}
    first: dict[Value, Op] = {}
    written: dict[Value, Op] = {}
    for op in walk(fn.body):
        if op.builtin.carries and any(isinstance(result.type, ArrayType) for result in op.results):
            text = f"cannot differentiate {fn.name!r}: which array is used is only known at run time"
            raise KernelNotImplementedError(text, op.location)
        for value in op.inputs():
            if value in origin:
                origin.update({r: origin[value] for r in op.results if isinstance(r.type, ArrayType)})
        for array in written_arrays(op):
            written.setdefault(origin[array], op)
        for name in op.builtin.reads:
            for array in leaves(op.operands[name]):
                first.setdefault(origin[array], op)
    for array in first.keys() & written.keys():
        name = next(name for name, value in fn.params.items() if value is array)
        lines = [op.location.line if op.location else 0 for op in (first[array], written[array])]
        raise KernelNotImplementedError(
            f"cannot differentiate {fn.name!r}: array {name!r} is read at line {lines[0]} and written at line "
            f"{lines[1]}, so its old contents may be gone; write to another array",
            written[array].location,
        )


class Reversal:
    """What the whole adjoint shares."""

    def __init__(self, varied: set[Value], gradients: dict[Value, Value], lanes: LaneGradients) -> None:
        self.varied = varied
        self.gradients = gradients
        self.lanes = lanes
        self.location: Location | None = None

    def block(self, scope: Scope) -> None:
        """Record the adjoints of a scope's ops, last first."""
        for op in reversed(scope.block.ops):
            outer, self.location = self.location, op.location
            self.op(op, scope)
            self.location = outer

    def op(self, op: Op, scope: Scope) -> None:
        grads = [scope.take(result) for result in op.results]
        if all(grad is None for grad in grads) and not writes_gradient(op):
            return
        cx = Adjoint(self, scope, op, grads)
        if not op.builtin.has("adjoint"):
            raise cx.refuse(op.builtin.no_adjoint or "it has no adjoint rule")
        given = () if op.builtin.carries else cx.given()
        answers = op.builtin.apply(
            "adjoint",
            {},
            op.attrs,
            cx=cx,
            grad=given[0] if given else None,
            grads=given,
            value=cx.value,
            result=cx.result,
        )
        if not op.builtin.carries:
            cx.take_answers(answers)


class Adjoint:
    """What an adjoint rule can ask: about one op, in the scope that is being reversed."""

    def __init__(self, reversal: Reversal, scope: Scope, op: Op, grads: list[Any]) -> None:
        self.reversal = reversal
        self.scope = scope
        self.op = op
        self.grads = grads

    def refuse(self, reason: str) -> KernelNotImplementedError:
        return KernelNotImplementedError(
            f"cannot differentiate through {self.op.builtin.spelled}: {reason}", self.op.location
        )

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

    def array(self, name: str) -> Array:
        """The gradient of an array operand."""
        value = self.op.operands[name]
        assert isinstance(value, Value)
        return Array(self._gradient_array(value))

    def _gradient_array(self, array: Value) -> Value:
        found = self.reversal.gradients.get(array)
        if found is not None:
            return found
        scope, op = self.scope.definition(array)
        known = {value: self._gradient_array(value) for value in op.inputs() if isinstance(value.type, ArrayType)}
        dtype = next(iter(known.values())).type.dtype
        (copied,) = scope.repeat(op, known, replace(array.type, dtype=dtype))
        return copied

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
        if self.reversal.lanes.own and isinstance(operand.type, ScalarType) and own.cooperative:
            given = given if name in own.per_lane else first(given)
        self.scope.add(operand, given)

    # Lanes.

    def once(self, grad: Any, place: str, value: str) -> Any:
        """The gradient of a number that each lane writes at a place of a tile that they share."""
        return self.reversal.lanes.once(self.op, grad, self.op.operands[place], self.op.operands[value])

    def add_element(self, name: str, grad: Any, add: Callable[[Any, Any, Any, Any], Any]) -> Any:
        """The gradient of a tile of which each lane reads the only element, or the element that a view of it is.

        ``add`` adds a number to an element of a tile, given the number, the offset and the map of a view.
        """
        tile = self.op.operands[name]
        place = self.scope.defined.get(tile)  # type: ignore[arg-type]
        if place is None or not place.builtin.view or "map" not in place.attrs:
            return add(self.zeros(name), grad, None, None)
        base, offset = next(place.inputs()), self._handle(place.operands["offset"])
        if self.wants(base):
            held = self.scope.take(base)
            held = zeros_like(base) if held is None else held
            self.scope.add(base, add(held, grad, offset, place.attrs["map"]))
        return 0

    def sum(self, tile: Any) -> Any:
        """The sum of a tile's elements, as a scalar."""
        if "tile_sum" not in REGISTRY:
            raise self.refuse("the gradient of a scalar is a sum over a tile")
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

    def reverse_branches(self, record: Callable[[Any], Any]) -> None:
        """Reverse each block of a branch; ``record`` makes the op of the reversed blocks."""
        sides: list[tuple[Builder, Scope]] = []
        for block in self.op.blocks:
            with building() as builder:
                inner = Scope(self.scope, block, builder, {})
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

    def reverse_loop(self, record: Callable[[Any, Any], Any]) -> None:
        """Reverse the block of a loop; ``record`` makes the op from what it carries and the reversed block."""
        (body,) = self.op.blocks
        varied = self.reversal.varied
        have = {result for result, grad in zip(self.op.results, self.grads, strict=True) if grad is not None}
        active = reached_results(self.op, have, varied)
        yielded, params = carried_yields(self.op, body), carried_params(self.op)
        reached = reached_values(body, (yielded[i] for i in active), varied)
        outer = [value for value in body.free if value in reached]
        types = [gradient_type(value.type) for value in (*(params[i] for i in active), *outer)]
        init = [datum_of(self.grads[i]) for i in active] + [datum_of(self.scope.take(value)) for value in outer]
        init = [zero_of(type) if datum is None else datum for datum, type in zip(init, types, strict=True)]
        index, *carried = body.params[0], *map(Value, types)
        with building() as builder:
            reversed_index = Value(index.type, index.hint)
            inner = Scope(self.scope, body, builder, {index: reversed_index}, self._carries(params))
            handles = list(map(wrap, carried))
            inner.seed(outer, handles[len(active) :], varied)
            inner.seed([yielded[i] for i in active], handles[: len(active)], varied)
            self.reversal.block(inner)
            finals = [inner.take_datum(value) for value in (*(params[i] for i in active), *outer)]
        kept = [i for i, final in enumerate(finals) if final is not carried[i]]
        same = {carried[i]: init[i] for i in range(len(init)) if i not in kept}
        block = builder.block((reversed_index, *(carried[i] for i in kept)), tuple(finals[i] for i in kept))
        results = results_of(record(tuple(init[i] for i in kept), substitute(block, same)))
        after = dict(zip(kept, results, strict=True))
        operands = self.op.operands["init"]
        assert isinstance(operands, tuple)
        for i, target in enumerate((*(operands[i] for i in active), *outer)):
            if self.wants(target):
                self.scope.add(target, after[i] if i in after else wrap(init[i]))

    def _carries(self, params: tuple[Value, ...]) -> dict[Value, Op]:
        return dict.fromkeys(params, self.op)


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


def results_of(found: Any) -> tuple[Any, ...]:
    """What recording an op returned, as a tuple of handles."""
    return () if found is None else found if isinstance(found, tuple) else (found,)
