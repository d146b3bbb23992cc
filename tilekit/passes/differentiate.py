"""Reverse-mode gradients: from a function to the program that adds each array's gradient up.

The adjoint walks the forward function backwards and asks each op's ``adjoint`` rule. A value that a rule needs is
computed again, where it is needed, from ops without effects. So a loop whose gradient needs nothing of what it carries
stores nothing; another keeps what it carries at some iterations in scratch memory, and computes the others from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from tilekit.builtins.grid import dimensions
from tilekit.config import config
from tilekit.errors import Location
from tilekit.ir.context import Builder, LaunchForm, using
from tilekit.ir.core import Function, Op, Value
from tilekit.ir.gradients import gradient_type, has_gradient
from tilekit.ir.program import Launch, Program, Scratch
from tilekit.ir.sizes import CeilDiv, Difference, Dim, Max, Min, Product, Size, simplified
from tilekit.ir.types import ArrayType, Type
from tilekit.passes.activity import read_parameters, varied_values, writes_gradient
from tilekit.passes.adjoint_context import Adjoint
from tilekit.passes.array_uses import refuse_mixed_arrays
from tilekit.passes.canonicalize import canonicalize
from tilekit.passes.checkpoints import How, Place, kept_bytes, scratch_for
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.expand import expand
from tilekit.passes.finite_outside import FiniteOutside
from tilekit.passes.host_sizes import size_of
from tilekit.passes.inline import inline
from tilekit.passes.lane_gradients import LaneGradients, check_gradient_lanes
from tilekit.passes.lost import lost_values
from tilekit.passes.saved_tiles import without_saves
from tilekit.passes.scope import Forward, Scope
from tilekit.passes.uniformity import keep_lanes

PREFIX = "adj_"


def differentiate(fn: Function, form: LaunchForm | None = None, saved: Collection[str] = ()) -> Program:
    """The program of a kernel's gradient.

    Its parameters are the kernel's and, for each array of floats, its gradient: ``gradients`` of the program says which
    is whose. The gradient of an array that the kernel reads is float64 for float64 and else float32; that of an array
    that it only writes has the array's dtype. Running the program adds to the gradients of arrays that the kernel
    reads, and takes from those of arrays that it writes: what was stored over is set to zero. Scalars of the launch
    are constants.

    Args:
        fn: The kernel's function, as traced.
        form: Of the launch, by default one of blocks.
        saved: Parameters that are no user's, in which the launch has kept tiles: those are loaded, not computed again.

    Raises:
        KernelNotImplementedError: the gradient cannot be computed rightly; the error names the op and its line.
    """
    form = form or LaunchForm()
    fn, tiles = without_saves(made_ready(fn, form), saved, form.ndim or dimensions(fn))
    refuse_mixed_arrays(inline(fn))  # what a replay reads is the user's own choice
    forward = Forward(lost_values(fn), LaneGradients(fn, form), saved=tiles)
    arrays = gradient_arrays(fn, saved)
    found = _reversed(fn, form, forward, arrays)
    if any(len(results) > 1 for results in forward.asked.values()):  # one copy of a region can give several
        found = _reversed(fn, form, replace(forward, asked={}, expected=forward.asked), arrays)
    return found


def made_ready(fn: Function, form: LaunchForm) -> Function:
    """The function that is differentiated: what its own trace means, in fewer kinds of ops."""
    return eliminate_dead_code(expand(canonicalize(keep_lanes(fn, form.tiled))))


def _reversed(fn: Function, form: LaunchForm, forward: Forward, arrays: Mapping[str, Value]) -> Program:
    known = {value: Value(value.type, value.hint) for value in fn.params.values()}
    names = {known[value]: name for name, value in fn.params.items()}
    reversal = Reversal(fn, form, forward.lanes, {fn.params[name]: value for name, value in arrays.items()}, names)
    builder = Builder(locate=lambda: reversal.location)
    with using(builder):
        reversal.block(Scope(None, fn.body, builder, known, forward=forward))
    params = {**{name: known[value] for name, value in fn.params.items()}, **{v.hint: v for v in arrays.values()}}
    kept = {scratch.value.hint: scratch for scratch in reversal.scratch}
    given = {**params, **{name: scratch.value for name, scratch in kept.items()}}
    made = replace(fn, name=f"{fn.name}_adjoint", params=given, body=builder.block(()))
    adjoint = eliminate_dead_code(canonicalize(inline(made)))
    if forward.lanes.count is not None:
        check_gradient_lanes(adjoint, form)
    gradients = {name: value.hint for name, value in arrays.items()}
    size = sum(kept_bytes(scratch, reversal.checkpoints) for scratch in kept.values())
    return Program(adjoint.name, params, (Launch(adjoint),), kept, gradients=gradients, kept_bytes=size)


def gradient_arrays(fn: Function, without: Collection[str] = ()) -> dict[str, Value]:
    """For each parameter that is an array of floats, that of its gradient, under a name that no other one has; of those
    of the names ``without`` there is none."""
    read, taken = read_parameters(fn), set(fn.params)
    found: dict[str, Value] = {}
    for name, value in fn.params.items():
        if isinstance(value.type, ArrayType) and has_gradient(value.type) and name not in without:
            fresh = PREFIX + name
            while fresh in taken:
                fresh += "_"
            taken.add(fresh)
            found[name] = Value(gradient_type(value.type) if name in read else value.type, fresh)
    return found


class Reversal:
    """What the whole adjoint shares."""

    def __init__(
        self,
        fn: Function,
        form: LaunchForm,
        lanes: LaneGradients,
        gradients: Mapping[Value, Value],
        names: Mapping[Value, str] | None = None,
    ) -> None:
        self.fn = fn
        self.form = form
        self.varied = varied_values(fn.body)
        self.gradients = gradients
        self.names = names or {}
        """Of the adjoint's own parameters that are the kernel's."""
        self.location: Location | None = None
        self.scratch: list[Scratch] = []
        self.checkpoints: int = config.chosen("checkpoints", fn.options)
        self.lanes = lanes

    @cached_property
    def finite_outside(self) -> FiniteOutside:
        return FiniteOutside(self.fn)

    def keep(self, value: Value | None, type: Type, how: How, slots: Size) -> Place:
        """A scratch array for a value that a loop carries."""
        taken = {*self.fn.params, *(v.hint for v in self.gradients.values()), *(s.value.hint for s in self.scratch)}
        name = stem = f"kept_{value.hint}" if value is not None and value.hint else "kept"
        number = 1
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        self.scratch.append(scratch_for(name, type, how, self._blocks(), slots, self.lanes.count or 1))
        return Place(self.scratch[-1].value, type, how)

    def slots(self, count: Any, scope: Scope) -> Size:
        """How many states of a loop are kept: fewer where the host knows that it runs less often."""
        trips: Size | None = count if isinstance(count, int) else size_of(count.datum, scope.recorded(), self.names)
        return self.checkpoints if trips is None else simplified(Min(Max(Difference(trips, 1), 1), self.checkpoints))

    def _blocks(self) -> Size:
        ndim = self.form.ndim or dimensions(self.fn)
        points: Size = Dim(0)
        for axis in range(1, ndim):
            points = Product(points, Dim(axis))
        return CeilDiv(points, self.lanes.count) if self.lanes.count is not None and not self.form.tiled else points

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
        if op.builtin.view and self.lanes.varies(op.results[0]):
            raise cx.refuse("this part of the tile differs between lanes; use its elements one by one")
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
