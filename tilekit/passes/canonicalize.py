"""One form for what means the same: what is known is a constant, what never runs is not there.

Constants fold, branches on known conditions become the block that runs, loops without an iteration become what goes in,
tiles of one number become that number where elements are computed, and maps that change no element are dropped.
Loops and branches have no results that are the same whatever they do, and maps no arguments that they do not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilekit.ir.core import Block, Const, Function, Op, Value, used_values
from tilekit.ir.float_state import in_ieee_state
from tilekit.ir.regions import carried, decides, keep_carried, region_of
from tilekit.ir.rewrite import Rewriter, substitute
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
            if isinstance(test, Const):
                return _taken(op, op.blocks[0 if test.value else 1], rewriter)
            return (_without_agreed(rewriter.rebuilt(op), rewriter),)
        if trips(op, rewriter.look_up) == 0:
            for each in carried(op):
                assert each.init is not None
                rewriter.known[each.result] = typed(rewriter.look_up(each.init), each.result.type)
            return ()
        return (_without_unchanged(rewriter.rebuilt(op), rewriter),) if region.carries else None

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
        inner = rewriter.block(block)
        kept = _kept(inner, args, numbers)
        if len(kept) < len(args):
            inner = Block(tuple(block.params[i] for i in kept), inner.ops, inner.results)
        given = tuple(numbers.get(i, args[i]) for i in kept)
        passed = _passed_on(inner, given, op)
        if passed is not None and passed not in self.views:  # what a view shows is no view
            rewriter.known[op.results[0]] = passed
            return ()
        same = inner is block and not numbers
        return (op.with_(operands={**op.operands, name: args if same else given}, blocks=(inner,)),)


def _kept(block: Block, args: tuple[Value | Const, ...], numbers: Mapping[int, Value | Const]) -> list[int]:
    """Which arguments a map needs: those that it reads, and a tile that says how many elements there are."""
    used = used_values(block)
    tiles = [i for i, arg in enumerate(args) if i not in numbers and isinstance(arg.type, TileType)]
    kept = [i for i, param in enumerate(block.params) if param in used]
    return kept if any(i in tiles for i in kept) else sorted([*kept, tiles[0]])


def _taken(op: Op, block: Block, rewriter: Rewriter) -> Iterable[Op]:
    """The ops of the block that a branch runs for certain."""
    ops = rewriter.ops(block.ops)
    for result, yielded in zip(op.results, block.results, strict=True):
        rewriter.known[result] = typed(rewriter.look_up(yielded), result.type)
    return ops


def _without_agreed(op: Op, rewriter: Rewriter) -> Op:
    """A branch without the results for which all its blocks yield the same value from outside, or number."""
    inside = {result for block in op.blocks for inner in block.ops for result in inner.results}
    kept = set()
    for number, each in enumerate(carried(op)):
        first, *others = each.yielded
        if first in inside or any(not _is_same(first, other) for other in others):
            kept.add(number)
        else:
            rewriter.known[each.result] = typed(first, each.result.type)
    return op if len(kept) == len(op.results) else keep_carried(op, kept)


def _without_unchanged(op: Op, rewriter: Rewriter) -> Op:
    """A loop without what every iteration passes on as it is."""
    known: dict[Value, Value | Const] = {}
    kept = set()
    for number, each in enumerate(carried(op)):
        if each.yielded[0] is each.param and each.init is not None:
            known[each.param] = rewriter.known[each.result] = typed(each.init, each.result.type)
        else:
            kept.add(number)
    if not known:
        return op
    op = keep_carried(op, kept)
    return op.with_(blocks=tuple(substitute(block, known) for block in op.blocks))


def _is_same(a: Value | Const, b: Value | Const) -> bool:
    if isinstance(a, Const) and isinstance(b, Const):
        return a.type.dtype is b.type.dtype and repr(a.value) == repr(b.value)
    return a is b


def _passed_on(block: Block, args: tuple[Value | Const, ...], op: Op) -> Value | None:
    """The tile that a map without ops yields as it is."""
    (yielded,) = block.results
    if block.ops or yielded not in block.params:
        return None
    found = args[block.params.index(yielded)]
    return found if isinstance(found, Value) and found.type == op.results[0].type else None
