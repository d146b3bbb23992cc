"""The gradients of what a block yields, recorded beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilekit.errors import KernelNotImplementedError, KernelTypeError
from tilekit.ir.context import Builder, LaunchForm, active, fail
from tilekit.ir.core import Block, Function, walk
from tilekit.ir.handles import wrap
from tilekit.ir.types import ArrayType
from tilekit.passes.activity import varied_values
from tilekit.passes.differentiate import Reversal
from tilekit.passes.lane_gradients import LaneGradients
from tilekit.passes.lost import lost_values
from tilekit.passes.scope import Forward, Scope


def block_gradients(block: Block, given: Sequence[Any], seed: Any) -> list[Any]:
    """Record, in the active builder, the gradients of a block's parameters, of which ``given`` are the values.

    ``seed`` is the gradient of the one value that it yields.

    Raises:
        KernelNotImplementedError: an op in it has no gradient.
    """
    builder = active()
    assert isinstance(builder, Builder)
    known = {value: value for value in block.free} | dict(zip(block.params, given, strict=True))
    function = Function("grad", {str(i): value for i, value in enumerate((*block.params, *block.free))}, block)
    if any(isinstance(value.type, ArrayType) for value in block.free):
        text = "the function uses an array of the kernel, which has no gradient here; read its elements before the call"
        raise fail(KernelTypeError(f"grad(): {text}"))
    if any(op.builtin.lane or op.builtin.observes_lanes for op in walk(block)):
        text = "so its gradient needs all lanes of a block; differentiate the kernel instead"
        raise fail(KernelNotImplementedError(f"grad(): the function asks which lane runs it, {text}"))
    lanes = LaneGradients(function, LaunchForm())
    reversal = Reversal(function, LaunchForm(), lanes, {})
    reversal.varied = varied_values(block, block.params)
    scope = Scope(None, block, builder, known, forward=Forward(lost_values(function), lanes))
    scope.seed(block.results, [seed], reversal.varied)
    reversal.block(scope)
    found = [wrap(scope.take_datum(param)) for param in block.params]
    if reversal.scratch:
        text = "the gradient needs values that a loop in the function carries, from every iteration"
        raise fail(KernelNotImplementedError(f"grad(): {text}; only the gradient of a kernel can keep them"))
    return found
