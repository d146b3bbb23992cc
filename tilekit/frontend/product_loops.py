"""Loops over few known indices that multiply matrices: they stay loops, which are computed as one product over K.

Whether a loop is one shows only what its body records. So it is unrolled like any other of its length, which also finds
out what needs an index that is known. If it has multiplied, it is traced again as a loop, which stays where it does
nothing but add up products of what it loads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.errors import TilekitError
from tilekit.frontend import joins
from tilekit.frontend.merge import UNBOUND
from tilekit.frontend.ranges import Range
from tilekit.frontend.state import Body, Cells, Names, Snapshot, current_builder
from tilekit.ir.core import Block, Function, Op
from tilekit.ir.handles import Tile
from tilekit.ir.literals import tracked
from tilekit.ir.types import TileType


class _State:
    """What tracing changes outside a loop's body."""

    def __init__(self, cells: Cells, start: int) -> None:
        builder, self.literals = current_builder(), tracked()
        self.cells = cells
        self.start = start
        self.ops = builder.ops[start:]
        self.values = cells.read()
        self.tiles = Snapshot.take()
        self.dropped = dict(builder.dropped)
        self.known = self.literals.state() if self.literals is not None else None

    def restore(self) -> None:
        builder = current_builder()
        builder.ops[self.start :] = self.ops
        self.cells.write(self.values)
        self.tiles.restore()
        self.tiles.forget_later("a loop")
        builder.dropped.clear()
        builder.dropped.update(self.dropped)
        if self.literals is not None:
            self.literals.restore(self.known or ())


class ProductLoop:
    """One loop over known indices, before it is unrolled."""

    def __init__(self, names: Names, body: Body) -> None:
        self.cells = Cells(names, body)
        self.start = len(current_builder().ops)
        self.values = self.cells.read()
        self.tiles = Snapshot.take()

    @staticmethod
    def may_stay(items: Any, stop: Callable[[], Any] | None) -> bool:
        """Whether what a loop goes through lets it be a loop, and nothing leaves it early."""
        known = items.constant if isinstance(items, Range) else None
        return known is not None and len(known) > 1 and stop is None and not items.unrolled

    def keep(self, trace: Callable[[], None]) -> None:
        """Replace what unrolling has recorded by the loop that ``trace`` records, if that is a product over K."""
        builder = current_builder()
        if not any(op.builtin.contraction for op in builder.ops[self.start :]):
            return
        unrolled = _State(self.cells, self.start)
        del builder.ops[self.start :]
        self.cells.write(self.values)
        self.tiles.restore()
        try:
            with joins.recording(joins.Joins()):  # the interpreter runs each index by itself
                trace()
        except (TilekitError, TypeError, AttributeError):  # the body needs to know its index
            unrolled.restore()
            return
        known = {name: value for name, value in unrolled.values.items() if _is_known(value)}
        self.cells.write(known)  # such as the last index
        rest = [value for name, value in self.cells.read().items() if name not in known]
        if not _is_product(builder.ops[self.start :], all(isinstance(value, Tile) for value in rest)):
            unrolled.restore()


def _is_known(value: Any) -> bool:
    """Whether a variable holds no handle."""
    if isinstance(value, tuple):
        return all(map(_is_known, value))
    return value is UNBOUND or value is None or isinstance(value, bool | int | np.generic)


def _is_product(ops: list[Op], tiles_only: bool) -> bool:
    """Whether ops are a loop that does nothing but add up products of what it loads, once they are simplified.

    ``tiles_only`` says that nothing uses the numbers that it leaves.
    """
    # Most programs have no such loop, and need no passes to define kernels.
    from tilekit.passes.canonicalize import canonicalize
    from tilekit.passes.eliminate_dead_code import eliminate_dead_code
    from tilekit.passes.find_gemm_loops import product_loop
    from tilekit.passes.hoist_invariants import hoist_invariants

    used = tuple(result for result in ops[-1].results if not tiles_only or isinstance(result.type, TileType))
    fn = Function("", {}, Block((), tuple(ops), used))
    fn = eliminate_dead_code(hoist_invariants(canonicalize(fn)))
    found = product_loop(fn.body.ops[-1]) if fn.body.ops else None
    return found is not None and found.whole
