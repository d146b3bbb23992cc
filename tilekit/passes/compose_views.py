"""Make views of views into views of what lies under them: code reads a view by one step along each axis of storage.

A name that is bound to a view that has a name holds the view's value, so that what is viewed next is a view itself.
"""

from __future__ import annotations

from collections.abc import Callable

from tilekit.builtins.construct import undefined_tile
from tilekit.builtins.views import view_replace
from tilekit.ir.core import Function, Op, Value, make_op
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import TileType
from tilekit.ir.views import ViewMap


def compose_views(fn: Function) -> Function:
    """The function in which what a view shows is no view, or one whose elements lie side by side."""
    views: dict[Value, Op] = {}

    def composed(op: Op, rewriter: Rewriter) -> list[Op] | None:
        if not op.builtin.view:
            return None
        ops: list[Op] = []
        ops.append(_over_storage(op, views, ops.append))
        views[op.results[0]] = ops[-1]
        return ops

    return fn.with_body(Rewriter(change=composed).block(fn.body))


def _over_storage(op: Op, views: dict[Value, Op], add: Callable[[Op], None]) -> Op:
    """A view over what the one that it shows is over; over a copy, which is added, where no steps lead there."""
    (name, shown), *_ = op.operands.items()
    under = views.get(shown) if isinstance(shown, Value) else None
    inner = under.attrs.get("map") if under is not None else None
    if under is None or inner is None or inner.is_dense():
        return op
    outer = op.attrs.get("map")
    map = outer.after(inner) if outer is not None and op.operands.get("offset") is None else None
    if map is not None:
        return op.with_(operands=under.operands, attrs={**op.attrs, "map": map})
    made = _copy(shown, op, add)  # type: ignore[arg-type]
    return op.with_(operands={**op.operands, name: made})


def _copy(tile: Value, op: Op, add: Callable[[Op], None]) -> Value:
    assert isinstance(tile.type, TileType)
    empty, made = Value(tile.type), Value(tile.type, tile.hint)
    shape = tile.type.shape
    add(make_op(undefined_tile, {}, {"shape": shape, "dtype": tile.type.dtype}, (empty,), (), op.location))
    operands = {"base": empty, "value": tile, "offset": None}
    add(make_op(view_replace, operands, {"map": ViewMap.identity(shape)}, (made,), (), op.location))
    return made
