"""Gradients in kernels whose lanes hold numbers of their own.

There every lane computes each number by itself and has its gradient, so that what all of them read gets a sum over the
lanes. An op of all lanes takes such a number once, from one lane, which then has the whole gradient.
"""

from __future__ import annotations

from typing import Any

from tilekit.ir.affine import affine_of, definitions
from tilekit.ir.core import Function, Op, walk
from tilekit.ir.gradients import no_gradient
from tilekit.ir.handles import OPERATORS
from tilekit.ir.types import ScalarType
from tilekit.passes.uniformity import Uniformity, runs_lanes


class LaneGradients:
    """What is known of the lanes of a function that is differentiated."""

    def __init__(self, fn: Function, tiled: bool) -> None:
        self.own = runs_lanes(fn, tiled) or any(op.builtin.lane for op in walk(fn.body))
        """Whether lanes hold numbers of their own."""
        self._found = Uniformity(fn) if self.own else None
        self._defined = definitions(fn.body) if self.own else {}
        divergent = self._found.divergent if self._found else {}
        self._some = {inner for op in divergent for block in op.blocks for inner in walk(block)}

    def varies(self, value: object) -> bool:
        """Whether an operand differs between lanes."""
        return self._found is not None and self._found.of([value]) is not None

    def by_some(self, op: Op) -> bool:
        """Whether some lanes run an op and others do not."""
        return op in self._some

    def apart(self, value: object) -> bool:
        """Whether an integer surely is another one in every lane."""
        terms = [(item, by) for item, by in affine_of(value, self._defined).terms.items() if self.varies(item)]
        if len(terms) != 1:
            return False
        op = self._defined.get(terms[0][0])
        if op is None:
            return False
        if op.builtin.lane and op.builtin.observes_lanes and not op.operands:
            return True
        checked = op.builtin.may_fail and not op.builtin.reads and isinstance(op.results[0].type, ScalarType)
        return checked and self.apart(next(op.inputs()))

    def once(self, op: Op, grad: Any, place: object, value: object) -> Any:
        """The gradient of a number that each lane writes to an element of a tile that they share."""
        if not self.own or self.apart(place):
            return grad
        if self.by_some(op) or self.varies(place) or self.varies(value):
            return no_gradient("several lanes may write the same element, and which number stays is not known")
        return first(grad)


def each(grad: Any) -> Any:
    """A gradient that every lane has. It says so: else a function that is left without lanes would count it once."""
    return OPERATORS["where"](OPERATORS["lane"]() >= 0, grad, 0.0)


def first(grad: Any) -> Any:
    """A gradient in the first lane, zero in the others."""
    return OPERATORS["where"](OPERATORS["lane"]() == 0, grad, 0.0)
