"""Gradients in kernels whose lanes hold numbers of their own.

There every lane computes each number by itself and has its gradient, so that what all of them read gets a sum over the
lanes. An op of all lanes takes such a number once, from one lane, which then has the whole gradient.
"""

from __future__ import annotations

from typing import Any

from tilekit.errors import KernelNotImplementedError, KernelValueError
from tilekit.ir.affine import affine_of, definitions
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function, Op, walk
from tilekit.ir.gradients import no_gradient
from tilekit.ir.handles import OPERATORS
from tilekit.ir.regions import repeats
from tilekit.ir.sizes import MAX_BLOCK_DIM
from tilekit.ir.types import ScalarType
from tilekit.passes.uniformity import Uniformity, check_lanes, runs_lanes
from tilekit.passes.wraparound import Move


class LaneGradients:
    """What is known of the lanes of a function that is differentiated."""

    def __init__(self, fn: Function, form: LaunchForm) -> None:
        self.count = (form.block_dim or 1) if runs_lanes(fn, form.tiled) else None
        """How many lanes a block has, where it has some of its own."""
        self.own = self.count is not None or any(op.builtin.lane for op in walk(fn.body))
        """Whether lanes hold numbers of their own."""
        self._found = Uniformity(fn, form.whole) if self.own else None
        self._defined = definitions(fn.body) if self.own else {}
        divergent = self._found.divergent if self._found else {}
        self._some = {inner for op in divergent for block in op.blocks for inner in walk(block)}
        single = [op for op in divergent if op.builtin.carries and self._of_one(op)]
        self._one = {inner for op in single for inner in walk(op.blocks[0])}

    def varies(self, value: object) -> bool:
        """Whether an operand differs between lanes."""
        return self._found is not None and self._found.of([value]) is not None

    def _of_one(self, op: Op) -> bool:
        """Whether one lane at most takes the first way of a branch: its number is compared with one they all have."""
        maker = self._defined.get(next(op.inputs(), None))  # type: ignore[arg-type]
        if repeats(op) or maker is None or maker.builtin is not OPERATORS["=="]:
            return False
        a, b = maker.operands.values()
        return (self.apart(a) and not self.varies(b)) or (self.apart(b) and not self.varies(a))

    def diverges(self, op: Op) -> bool:
        """Whether lanes take different ways through a branch or loop."""
        return self._found is not None and op in self._found.divergent

    def by_some(self, op: Op) -> bool:
        """Whether some lanes run an op and others do not."""
        return op in self._some

    def apart(self, value: object, by: int = 1, bits: int = 64) -> bool:
        """Whether an integer, times another one, surely is a different number in every lane, modulo ``2**bits``."""
        sum = affine_of(value, self._defined)
        terms = [(item, factor) for item, factor in sum.terms.items() if self.varies(item)]
        if len(terms) != 1:
            return False
        op = self._defined.get(terms[0][0])
        if op is None:
            return False
        move = Move("the lane", by * terms[0][1], 1, min(bits, sum.bits))
        if op.builtin.lane and op.builtin.observes_lanes and not op.operands:
            return move.most >= (self.count or MAX_BLOCK_DIM)
        checked = op.builtin.may_fail and not op.builtin.reads and isinstance(op.results[0].type, ScalarType)
        return checked and self.apart(next(op.inputs()), move.step, move.bits)

    def once(self, op: Op, grad: Any, place: object, value: object) -> Any:
        """The gradient of a number that each lane writes to an element of a tile that they share."""
        if not self.own or op in self._one or self.apart(place):
            return grad
        if self.by_some(op) or self.varies(place) or self.varies(value):
            return no_gradient("several lanes may write the same element, and which number stays is not known")
        return first(grad)


def is_together(op: Op) -> bool:
    """Whether the lanes do something together in an op or one inside it."""
    return any(inner.builtin.cooperative for block in op.blocks for inner in walk(block))


def check_gradient_lanes(adjoint: Function, form: LaunchForm) -> None:
    """Refuse a gradient for which lanes would have to do something together under a condition of their own.

    Raises:
        KernelNotImplementedError: they would.
    """
    try:
        check_lanes(adjoint, form.whole)
    except KernelValueError as error:
        raise KernelNotImplementedError(
            f"cannot differentiate this, as the gradient would do what lanes cannot: {error.message}", error.location
        ) from None


def first(grad: Any) -> Any:
    """A gradient in the first lane, zero in the others."""
    return OPERATORS["where"](OPERATORS["lane"]() == 0, grad, 0.0)
