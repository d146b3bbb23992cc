"""One form for what means the same: what is known is a constant, what never runs is not there.

Constants fold, branches on known conditions become the block that runs, loops without an iteration become what goes in,
tiles of one number become that number where elements are computed, and maps that change no element are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilekit.ir.core import Block, Const, Function, Op, Value
from tilekit.ir.float_state import in_ieee_state
from tilekit.ir.regions import carried, decides, region_of
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import TileType
from tilekit.passes.fold_constants import folded, typed
from tilekit.passes.loops import trips


@in_ieee_state
def canonicalize(fn: Function) -> Function:
    """The function with constants folded, and without branches, loops and maps that are known to do nothing.

    Every number keeps its bits, whatever runs the function; what may fail or has an effect stays where it would run.
    """
    body = Rewriter(change=_Canonical().change).block(fn.body)
    return fn if body is fn.body else fn.with_body(body)


class _Canonical:
    def __init__(self) -> None:
        self.filled: dict[Value, Value | Const] = {}
        """The number that all elements of a tile are."""
        self.views: set[Value] = set()

    def change(self, op: Op, rewriter: Rewriter) -> Iterable[Op] | None:
        """What stands for an op; None where it stays."""
        builtin = op.builtin
        if builtin.elementwise and len(op.results) == 1:
            operands = {name: rewriter.operand(operand) for name, operand in op.operands.items()}
            found = folded(op, operands)
            if found is not None:
                rewriter.known[op.results[0]] = found
                return ()
        elif builtin.view:
            self.views.update(op.results)
        elif builtin.fills:
            self.filled[op.results[0]] = rewriter.look_up(op.operands[builtin.fills])
        elif builtin.region is not None:
            return self._region(op, rewriter)
        return None

    def _region(self, op: Op, rewriter: Rewriter) -> Iterable[Op] | None:
        region = region_of(op)
        if region.runs == "elements":
            return self._map(op, rewriter) if isinstance(op.operands[region.args], tuple) else None
        if region.runs == "branch":
            (test,) = map(rewriter.look_up, decides(op))
            return _taken(op, op.blocks[0 if test.value else 1], rewriter) if isinstance(test, Const) else None
        if trips(op, rewriter.look_up) == 0:
            for each in carried(op):
                assert each.init is not None
                rewriter.known[each.result] = typed(rewriter.look_up(each.init), each.result.type)
            return ()
        return None

    def _map(self, op: Op, rewriter: Rewriter) -> Iterable[Op] | None:
        """A map without the tiles whose elements are all one number; nothing, where it passes a tile on."""
        (block,) = op.blocks
        name = region_of(op).args
        args = rewriter.operand(op.operands[name])
        numbers = {i: self.filled[arg] for i, arg in enumerate(args) if arg in self.filled}
        if not any(isinstance(arg.type, TileType) for i, arg in enumerate(args) if i not in numbers):
            numbers = {}  # it is the tiles that say how many elements there are
        for i, number in numbers.items():
            if isinstance(number, Const):
                rewriter.known[block.params[i]] = typed(number, block.params[i].type)
        dropped = {i for i, number in numbers.items() if isinstance(number, Const)}
        kept = [i for i in range(len(args)) if i not in dropped]
        inner = rewriter.block(block, tuple(block.params[i] for i in kept))
        given = tuple(numbers.get(i, args[i]) for i in kept)
        passed = _passed_on(inner, given, op)
        if passed is not None and passed not in self.views:  # what a view shows is no view
            rewriter.known[op.results[0]] = passed
            return ()
        same = inner is block and not numbers
        return (op.with_(operands={**op.operands, name: args if same else given}, blocks=(inner,)),)


def _taken(op: Op, block: Block, rewriter: Rewriter) -> Iterable[Op]:
    """The ops of the block that a branch runs for certain."""
    ops = rewriter.ops(block.ops)
    for result, yielded in zip(op.results, block.results, strict=True):
        rewriter.known[result] = typed(rewriter.look_up(yielded), result.type)
    return ops


def _passed_on(block: Block, args: tuple[Value | Const, ...], op: Op) -> Value | None:
    """The tile that a map without ops yields as it is."""
    (yielded,) = block.results
    if block.ops or yielded not in block.params:
        return None
    found = args[block.params.index(yielded)]
    return found if isinstance(found, Value) and found.type == op.results[0].type else None
