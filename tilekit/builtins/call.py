"""The call of a function that has a gradient, or a replay, of its own; all others are inlined where they are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tilekit.ir.builtin import builtin
from tilekit.ir.core import Block
from tilekit.ir.gradients import AdjointContext
from tilekit.ir.operands import Tiles
from tilekit.ir.regions import Region
from tilekit.ir.types import Type


class Called(Protocol):
    """What the frontend knows of the function that is called."""

    gradient: Callable[..., Any] | None

    def reverse(self, cx: AdjointContext, args: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
        """Record what the function's own gradient does; the gradients of its arguments."""


@builtin(region=Region("once"))
def call(args: Tiles, function: Any) -> Any:
    """What a function does: its block; a second block computes the same results where a gradient needs them again."""


@call.result
def _result(blocks: tuple[Block, ...]) -> tuple[Type, ...]:
    return tuple(result.type for result in blocks[0].results)


@call.reference
def _reference(blocks: Any) -> Any:
    return blocks[0]()


@call.adjoint
def _adjoint(cx: AdjointContext, grads: tuple[Any, ...], value: Any, function: Called) -> dict[str, Any]:
    if function.gradient is None:
        cx.reverse_inside()
        return {"args": 0}
    return {"args": function.reverse(cx, value("args"), grads)}
