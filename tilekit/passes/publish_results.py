"""What one thread of a block finds goes through memory to the others."""

from __future__ import annotations

from collections.abc import Iterable

from tilekit.builtins.together import publish
from tilekit.builtins.views import element
from tilekit.ir.core import Function, Op, Value, make_op, used_values
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import ScalarType, TileType


def runs_once(op: Op) -> bool:
    """Whether an op happens once for a block, so that one of its threads does it."""
    own = op.builtin
    return bool(own.writes or own.atomics) and not own.cooperative


def publish_results(fn: Function) -> Function:
    """The function where all threads read the results of what one of them does.

    Ops that single lanes run, or that an op runs for each element, stay as they are: each thread does them.
    """
    used = used_values(fn.body)

    def change(op: Op, rewriter: Rewriter) -> Iterable[Op] | None:
        if op.blocks and not (op.builtin.carries and op.builtin.by_element):
            return (op,)
        if not runs_once(op) or used.isdisjoint(op.results):
            return None
        (result,) = op.results
        assert isinstance(result.type, ScalarType)
        found, told = Value(result.type, result.hint), Value(TileType(result.type.dtype, ()), result.hint)
        return (
            op.with_(results=(found,)),
            make_op(publish, {"x": found}, {}, (told,), location=op.location),
            make_op(element, {"t": told}, {}, (result,), location=op.location),
        )

    return fn.with_body(Rewriter(change=change).block(fn.body))
