"""Refuse kernels that read a tile to which nothing can have been written, on any path."""

from __future__ import annotations

from tilekit.errors import Location, UninitializedError
from tilekit.ir.core import Block, Function, Op, Value, leaves
from tilekit.ir.handles import unwritten
from tilekit.ir.types import TileType

State = dict[Value, Location | None]
"""The tiles to which surely nothing was written, with the place that made them."""


def check_initialized(fn: Function) -> None:
    """Check every path of a function.

    Raises:
        UninitializedError: an op reads a tile that no write can have reached.
    """
    _block(fn.body, {}, report=True)


def _block(block: Block, state: State, report: bool) -> None:
    for op in block.ops:
        if op.builtin.uninitialized:
            state[op.results[0]] = op.location
        elif op.builtin.view:
            base = next(op.inputs())
            if base in state:
                state[op.results[0]] = state[base]
        elif op.builtin.carries:
            _region(op, state, report)
        elif report:
            _reads(op, state)
            for inner in op.blocks:
                _block(inner, state, report)


def _reads(op: Op, state: State) -> None:
    ignored = op.builtin.ignored(op.operands, op.attrs)
    for name, operand in op.operands.items():
        for value in leaves(operand):
            if name not in ignored and value in state:
                assert isinstance(value.type, TileType)
                raise UninitializedError(unwritten(value.type, state[value]), op.location)


def _region(op: Op, state: State, report: bool) -> None:
    """Branches and loops: what they carry is unwritten only if it is on every path."""
    init = op.operands.get("init")
    if init is None:
        for block in op.blocks:
            _block(block, state, report)
        _join(op, [block.results for block in op.blocks], state)
        return
    assert isinstance(init, tuple)
    (body,) = op.blocks
    params, yielded = body.params[len(body.params) - len(init) :], body.results[len(body.results) - len(init) :]
    empty = {i for i, item in enumerate(init) if item in state}
    while True:
        inside = {**state, **{params[i]: state[init[i]] for i in empty}}
        _block(body, inside, report=False)
        kept = {i for i in empty if yielded[i] in inside}
        if kept == empty:
            break
        empty = kept
    if report:
        _block(body, {**state, **{params[i]: state[init[i]] for i in empty}}, report=True)
    state.update(inside)
    _join(op, [init, yielded], state)


def _join(op: Op, sources: list[tuple[object, ...]], state: State) -> None:
    for result, *found in zip(op.results, *sources, strict=False):
        places = [state[value] for value in found if isinstance(value, Value) and value in state]
        if len(places) == len(sources):
            state[result] = places[0]
