"""Refuse kernels that read a tile to which nothing can have been written, on any path.

Where a number that is known at run time decides whether it is read, the kernel checks the number.
"""

from __future__ import annotations

from tilekit.errors import Location, UninitializedError
from tilekit.ir.builtin import Builtin
from tilekit.ir.core import Block, Function, Op, Value, leaves, make_op
from tilekit.ir.handles import OPERATORS, unwritten
from tilekit.ir.types import TileType

Checks = dict[Op, str]
"""What must not read its accumulator, with the message where it does."""
State = dict[Value, Location | None]
"""The tiles to which surely nothing was written, with the place that made them."""


def check_initialized(fn: Function) -> Function:
    """Check every path of a function, which gets the checks that only a running kernel can do.

    Raises:
        UninitializedError: an op reads a tile that no write can have reached.
    """
    found: Checks = {}
    _block(fn.body, {}, found)
    return fn.with_body(_with_checks(fn.body, found)) if found else fn


def _with_checks(block: Block, found: Checks) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if op in found:
            factor = op.operands[op.builtin.unread_at_zero]
            check: Builtin = OPERATORS["unread"]  # type: ignore[assignment]
            ops.append(make_op(check, {"factor": factor}, {"text": found[op]}, (), (), op.location))
        ops.append(op.with_(blocks=tuple(_with_checks(inner, found) for inner in op.blocks)) if op.blocks else op)
    return Block(block.params, tuple(ops), block.results)


def _block(block: Block, state: State, report: Checks | None) -> None:
    for op in block.ops:
        if op.builtin.uninitialized:
            state[op.results[0]] = op.location
        elif op.builtin.view:
            base = next(op.inputs())
            if base in state:
                state[op.results[0]] = state[base]
        elif op.builtin.carries:
            _region(op, state, report)
        elif report is not None:
            _reads(op, state, report)
            for inner in op.blocks:
                _block(inner, state, report)


def _reads(op: Op, state: State, report: Checks) -> None:
    ignored = op.builtin.ignored(op.operands, op.attrs)
    for name, operand in op.operands.items():
        for value in leaves(operand):
            if value not in state:
                continue
            assert isinstance(value.type, TileType)
            message, factor = unwritten(value.type, state[value]), op.operands.get(op.builtin.unread_at_zero)
            if name not in ignored:
                raise UninitializedError(message, op.location)
            if isinstance(factor, Value):
                report[op] = message


def _region(op: Op, state: State, report: Checks | None) -> None:
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
        _block(body, inside, report=None)
        kept = {i for i in empty if yielded[i] in inside}
        if kept == empty:
            break
        empty = kept
    if report is not None:
        _block(body, {**state, **{params[i]: state[init[i]] for i in empty}}, report)
    state.update(inside)
    _join(op, [init, yielded], state)


def _join(op: Op, sources: list[tuple[object, ...]], state: State) -> None:
    for result, *found in zip(op.results, *sources, strict=False):
        places = [state[value] for value in found if isinstance(value, Value) and value in state]
        if len(places) == len(sources):
            state[result] = places[0]
