"""Loops backwards: their iterations from the last to the first, each with the state that it had."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tilekit.builtins.control import for_range, if_else, while_loop
from tilekit.errors import KernelNotImplementedError
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.context import Builder, building
from tilekit.ir.core import Block, Const, Op, Value, used_values
from tilekit.ir.gradients import gradient_type
from tilekit.ir.handles import wrap
from tilekit.ir.regions import carried, carried_params, carried_yields, counted, next_conditions
from tilekit.ir.rewrite import substitute
from tilekit.ir.types import TileType
from tilekit.passes.activity import reached_results, reached_values
from tilekit.passes.checkpoints import INT, NEVER, SLOT, How, Kept
from tilekit.passes.lane_gradients import LaneGradients, is_together
from tilekit.passes.recompute import copy_ops, slice_block
from tilekit.passes.scope import Scope, constant, datum_of, zero_of

if TYPE_CHECKING:
    from tilekit.passes.adjoint_context import Adjoint

Leading = Callable[[Any], tuple[Any, ...]]


def results_of(found: Any) -> tuple[Any, ...]:
    """What recording an op returned, as a tuple of handles."""
    return () if found is None else found if isinstance(found, tuple) else (found,)


class Advance:
    """What of a loop computes some of the values that it carries, from one iteration to the next."""

    def __init__(self, op: Op, scope: Scope, wanted: Iterable[Value], conditions: bool = False) -> None:
        """``conditions``: whether it also tells if the loop goes on."""
        (body,) = op.blocks
        self.scope = scope
        params, yielded = carried_params(op), carried_yields(op, body)
        lost = scope.forward.lost
        leading = next_conditions(op) if conditions else ()
        for item in leading:
            if isinstance(item, Value) and item in lost:
                raise lost[item].refuse_count(op)
        self.positions = [i for i, param in enumerate(params) if param in set(wanted)]
        while True:
            results = (*leading, *(yielded[i] for i in self.positions))
            block = slice_block(body, results, lost)
            used = used_values(block)
            found = [i for i, param in enumerate(params) if param in used or i in self.positions]
            if found == self.positions:
                break
            self.positions = found
        self.params = tuple(params[i] for i in self.positions)
        for param in self.params:
            if param in lost:
                raise lost[param].refuse(param)
        self.block = Block((*counted(op), *self.params), block.ops, block.results)
        self.init = tuple(carried(op)[i].init for i in self.positions)

    def start(self) -> tuple[Any, ...]:
        """What is carried into the first iteration."""
        return tuple(self.scope.value(item) if isinstance(item, Value) else item for item in self.init)

    def step(self, leading: tuple[Any, ...], state: tuple[Any, ...], builder: Builder) -> tuple[Any, ...]:
        """What is carried into the next iteration, after the conditions where they are asked for."""
        return copy_ops(self.block, (*map(datum_of, leading), *state), self.scope.value, builder)


def fresh(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(Value(value.type, value.hint) for value in values)


def count_iterations(op: Op, scope: Scope) -> Any:
    """How often a loop runs whose block yields whether it goes on: it runs once more, without effects."""
    advance = Advance(op, scope, (), conditions=True)
    test = op.operands["test"]
    first = scope.value(test) if isinstance(test, Value) else test
    count, state = Value(INT, "count"), fresh(advance.params)
    init = (Const(INT, 0), *advance.start())
    with building() as builder:
        again, *after = advance.step((), state, builder)
        more = wrap(count) + 1
    block = builder.block((count, *state), (again, datum_of(more), *after))
    return results_of(while_loop.record({"test": first, "init": init}, {}, (block,)))[0]


def how_kept(op: Op, lanes: LaneGradients, params: tuple[Value, ...]) -> tuple[How, ...]:
    """How the number of an iteration and what is carried into it are kept.

    Raises:
        KernelNotImplementedError: lanes that take different ways through the loop update a tile that it carries.
    """
    tiles = [isinstance(param.type, TileType) for param in params]
    if lanes.count is None:
        return ("block", *("tile" if tile else "block" for tile in tiles))
    together = is_together(op) or any(tiles)
    if together and lanes.diverges(op):
        name = params[tiles.index(True)].hint
        raise KernelNotImplementedError(
            f"cannot differentiate this loop: the gradient needs the tile {name!r} as it was in every iteration, but "
            "lanes may leave the loop at different ones",
            op.location,
        )
    alike: How = "shared" if together else "lane"
    numbers: list[How] = ["lane" if lanes.varies(param) else alike for param in params]
    return (alike, *("tile" if tile else how for tile, how in zip(tiles, numbers, strict=True)))


class LoopReversal:
    """The reversal of one loop."""

    def __init__(self, cx: Adjoint) -> None:
        self.op, self.scope, self.reversal = cx.op, cx.scope, cx.reversal
        (self.body,) = self.op.blocks
        self.params, self.lead = carried_params(self.op), counted(self.op)
        varied = self.reversal.varied
        have = {result for result, grad in zip(self.op.results, cx.grads, strict=True) if grad is not None}
        self.active = reached_results(self.op, have, varied)
        yielded = carried_yields(self.op, self.body)
        self.yielded = [yielded[i] for i in self.active]
        reached = reached_values(self.body, self.yielded, varied)
        self.outer = [value for value in self.body.free if value in reached]
        self.targets = [*(self.params[i] for i in self.active), *self.outer]
        self.types = [gradient_type(value.type) for value in self.targets]
        given = [datum_of(cx.grads[i]) for i in self.active]
        given += [datum_of(self.scope.take(value)) for value in self.outer]
        pairs = zip(given, self.types, strict=True)
        self.init = [zero_of(type) if datum is None else datum for datum, type in pairs]

    def run(self, count: Callable[[], Any], leading: Leading, record: Callable[[Any, Any], Any] | None) -> None:
        """Record the reversed loop and add to the gradients of what is carried and of what it uses."""
        held, leads = list(map(Value, self.types)), fresh(self.lead)
        with building() as builder:
            inner = self.scope.inside(self.op, self.body, builder, self.params)
            inner.known.update(zip(self.lead, leads, strict=True))
            handles = list(map(wrap, held))
            inner.seed(self.outer, handles[len(self.active) :], self.reversal.varied)
            inner.seed(self.yielded, handles[: len(self.active)], self.reversal.varied)
            self.reversal.block(inner)
            finals = [inner.take_datum(value) for value in self.targets]
        kept = [i for i, final in enumerate(finals) if final is not held[i]]
        same: dict[Value, Any] = {held[i]: self.init[i] for i in range(len(finals)) if i not in kept}
        block = builder.block((*leads, *(held[i] for i in kept)), tuple(finals[i] for i in kept))
        block, init = substitute(block, same), tuple(self.init[i] for i in kept)
        if record is not None and not inner.needed:
            results = results_of(record(init, block))
        else:
            results = self._numbered(block, init, inner, leads, count, leading)
        self._add(dict(zip(kept, results, strict=True)))

    def _add(self, after: dict[int, Any]) -> None:
        inits = [carried(self.op)[i].init for i in self.active]
        for i, target in enumerate((*inits, *self.outer)):
            if isinstance(target, Value) and target in self.reversal.varied:
                self.scope.add(target, after[i] if i in after else wrap(self.init[i]))  # type: ignore[arg-type]

    def _numbered(
        self,
        block: Block,
        init: tuple[Any, ...],
        inner: Scope,
        leads: tuple[Value, ...],
        count: Callable[[], Any],
        leading: Leading,
    ) -> tuple[Any, ...]:
        """The reversed loop over the numbers of the iterations, with the state of each where one is needed."""
        if not block.ops and not init:
            return ()
        trips = count()
        states = States(self, inner, trips, leading) if inner.needed else None
        at = Value(INT, "iteration")
        with building() as before:
            swapped: dict[Value, Any] = dict(zip(leads, map(datum_of, leading(wrap(at))), strict=True))
            top = Value(SLOT, "slot")
            below = states.enter(wrap(at), wrap(top), swapped) if states is not None else None
        tail = substitute(block, swapped)
        own = states is not None
        params = (at, *((top,) if own else ()), *block.params[len(leads) :])
        yields = (*((datum_of(below),) if own else ()), *tail.results)
        whole = Block(params, (*before.ops, *tail.ops), yields)
        last = trips - 1
        operands = {"start": Const(INT, last) if isinstance(last, int) else datum_of(last)}
        operands |= {"stop": Const(INT, -1), "step": Const(INT, -1)}
        operands["init"] = (*((Const(SLOT, 0),) if own else ()), *init)
        found = results_of(for_range.record(operands, {}, (whole,)))
        return found[1:] if own else found


class States:
    """What a loop carries into its iterations, from the last to the first."""

    def __init__(self, loop: LoopReversal, inner: Scope, trips: Any, leading: Leading) -> None:
        self.leading = leading
        self.placeholders = inner.needed
        self.advance = Advance(loop.op, loop.scope, inner.needed)
        params = self.advance.params
        self.most = 1 if loop.scope.element else loop.reversal.checkpoints
        self.fits = isinstance(trips, int) and trips <= self.most + 1
        self.start = (Const(INT, 0), *self.advance.start())
        self.kept: Kept | None = None
        if not loop.scope.element:
            slots = loop.reversal.slots(trips, loop.scope)
            hows = how_kept(loop.op, loop.scope.forward.lanes, params)
            keep = loop.reversal.keep
            places = [keep(None, INT, hows[0], slots)]
            places += [keep(p, p.type, how, slots) for p, how in zip(params, hows[1:], strict=True)]
            self.kept = Kept(places, slots)
            self.kept.save(constant(0, SLOT), self.start)

    def enter(self, goal: Any, top: Any, swapped: dict[Value, Any]) -> Any:
        """Record what gives the state of iteration ``goal``, and put it in place of what stands for it.

        Returns the slot of the last state that is kept for the iterations before.
        """
        at, *state = self.kept.load(top) if self.kept is not None else self.start
        below = top - REGISTRY["where"](wrap(at) == goal, constant(1, SLOT), constant(0, SLOT))
        ahead = constant(NEVER, INT)
        if self.kept is not None and self.most > 1:
            ahead = self.kept.after(wrap(at), goal, top, self.fits)
        first = (at, datum_of(ahead), datum_of(top), *state)
        params = (Value(INT, "at"), Value(INT, "ahead"), Value(SLOT, "slot"), *fresh(self.advance.params))
        with building() as builder:
            at, ahead, slot = map(wrap, params[:3])
            ahead, slot = self._keep(at, goal, ahead, slot, params[3:])
            after = self.advance.step(self.leading(at), params[3:], builder)
            beyond = at + 1
            again = beyond < goal
        block = builder.block(params, (*map(datum_of, (again, beyond, ahead, slot)), *after))
        test = datum_of(wrap(first[0]) < goal)
        _, _, slot, *found = results_of(while_loop.record({"test": test, "init": first}, {}, (block,)))
        for param, value in zip(self.advance.params, found, strict=True):
            if param in self.placeholders:
                swapped[self.placeholders[param]] = datum_of(value)
        return slot - (top - below)

    def _keep(self, at: Any, goal: Any, ahead: Any, slot: Any, state: tuple[Value, ...]) -> tuple[Any, Any]:
        """Keep the state of iteration ``at`` where it is the next to be kept."""
        if self.kept is None or self.most == 1:
            return ahead, slot
        with building() as builder:
            above = slot + 1
            self.kept.save(above, (datum_of(at), *state))
            further = self.kept.after(at, goal, above, self.fits)
        keeping = builder.block((), (datum_of(further), datum_of(above)))
        passing = Block((), (), (datum_of(ahead), datum_of(slot)))
        return if_else.record({"test": datum_of(at == ahead)}, {}, (keeping, passing))  # type: ignore[no-any-return]
