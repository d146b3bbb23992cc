"""Which values can carry a gradient: they depend on what arrays hold, and a result depends on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilekit.ir.array_parts import ArrayRoots
from tilekit.ir.core import Block, Const, Function, Op, Value, leaves, walk
from tilekit.ir.gradients import has_gradient
from tilekit.ir.regions import arguments, carried, carried_params, carried_yields, inputs_of, repeats, runs_once
from tilekit.ir.types import ArrayType


def written_arrays(op: Op) -> tuple[Value, ...]:
    """The arrays that an op itself writes or updates."""
    names = dict.fromkeys((*op.builtin.writes, *op.builtin.atomics))
    return tuple(value for name in names for value in leaves(op.operands[name]))


def written_parameters(fn: Function) -> frozenset[str]:
    """The names of the arrays that a function may write, also through a part of one."""
    return _parameters(fn, written_arrays)


def read_parameters(fn: Function) -> frozenset[str]:
    """The names of the arrays that a function may read, also through a part of one."""
    return _parameters(fn, lambda op: [array for name in op.builtin.reads for array in leaves(op.operands[name])])


def _parameters(fn: Function, used: Callable[[Op], Iterable[Value]]) -> frozenset[str]:
    roots = ArrayRoots(fn.body)
    found = {root for op in walk(fn.body) for array in used(op) for root in roots.of(array)}
    return frozenset(name for name, value in fn.params.items() if value in found)


def written_positions(fn: Function) -> tuple[int, ...]:
    """Which of a function's array parameters it may write, counted from 0 among its arrays."""
    written = written_parameters(fn)
    arrays = [name for name, value in fn.params.items() if isinstance(value.type, ArrayType)]
    return tuple(position for position, name in enumerate(arrays) if name in written)


def writes_gradient(op: Op) -> bool:
    """Whether an op, or one inside it, writes an array of floats."""
    own = any(has_gradient(array.type) for array in written_arrays(op))
    return own or any(writes_gradient(inner) for block in op.blocks for inner in block.ops)


def varied_values(block: Block, known: Iterable[Value] = ()) -> set[Value]:
    """The float values that depend on what arrays hold, in a block and the blocks inside it."""
    varied = set(known)
    while True:
        before = len(varied)
        _spread(block, varied)
        if len(varied) == before:
            return varied


def _spread(block: Block, varied: set[Value]) -> None:
    for op in block.ops:
        own = op.builtin
        if op.blocks:
            _spread_region(op, varied)
        elif own.stops_gradient:
            continue
        elif own.reads or own.atomics or own.puns or any(value in varied for value in op.inputs()):
            varied.update(value for value in op.results if has_gradient(value.type))


def _spread_region(op: Op, varied: set[Value]) -> None:
    """Into the blocks of a region, and out of them."""
    if not op.builtin.carries:
        bound: list[tuple[tuple[Value, ...], tuple[Value | Const, ...]]]
        bound = [((param,), sources) for param, sources in arguments(op)]
        bound += [(op.results, block.results) for block in op.blocks]
        bound += [(op.results, tuple(op.inputs()))] if runs_once(op) else []
    else:
        bound = [(each.names, each.sources) for each in carried(op)]
    for blocks in (op.blocks, ()):  # into the blocks, and out of them
        for names, sources in bound:
            if not varied.isdisjoint(sources):
                varied.update(name for name in names if has_gradient(name.type))
        for block in blocks:
            _spread(block, varied)


def reached_values(block: Block, seeds: Iterable[object], varied: set[Value]) -> set[Value]:
    """The varied values that get a gradient when ``seeds`` have one, in a block and outside it."""
    reached = {seed for seed in seeds if isinstance(seed, Value) and seed in varied}
    for op in reversed(block.ops):
        if writes_gradient(op) or any(result in reached for result in op.results):
            if op.builtin.carries:
                reached |= _reached_region(op, reached, varied)
            else:
                reached.update(value for value in inputs_of(op) if value in varied)
    return reached


def _reached_region(op: Op, reached: set[Value], varied: set[Value]) -> set[Value]:
    found: set[Value] = set()
    wanted = reached_results(op, reached, varied)
    for block in op.blocks:
        yielded = carried_yields(op, block)
        inside = reached_values(block, (yielded[i] for i in wanted), varied)
        found |= inside & block.free.keys()
    each = carried(op)
    return found | {init for i in wanted if isinstance(init := each[i].init, Value) and init in varied}


def reached_results(op: Op, reached: set[Value], varied: set[Value]) -> list[int]:
    """Which results of a region get a gradient, after it or, where carried, in a later iteration."""
    wanted = {i for i, result in enumerate(op.results) if result in reached}
    while True:
        before = len(wanted)
        if repeats(op):
            (body,) = op.blocks
            yielded = carried_yields(op, body)
            inside = reached_values(body, (yielded[i] for i in wanted), varied)
            wanted |= {i for i, param in enumerate(carried_params(op)) if param in inside}
        if len(wanted) == before:
            return sorted(wanted)
