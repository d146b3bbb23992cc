"""Refuse kernels that read a tile to which nothing can have been written, on any path.

Where a number that is known at run time decides whether it is read, the kernel checks the number.
"""

from __future__ import annotations

from tilekit.errors import Location, UninitializedError
from tilekit.ir.builtin import Builtin
from tilekit.ir.core import Block, Function, Op, Value, leaves, make_op
from tilekit.ir.handles import OPERATORS, unwritten
from tilekit.ir.regions import Carried, carried, repeats
from tilekit.ir.rewrite import replace_ops
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
    check: Builtin = OPERATORS["unread"]  # type: ignore[assignment]

    def before(op: Op) -> Op:
        operands = {"factor": op.operands[op.builtin.unread_at_zero]}
        return make_op(check, operands, {"text": found[op]}, (), (), op.location)

    return replace_ops(block, {op: (before(op), op) for op in found})


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
    if not repeats(op):
        for block in op.blocks:
            _block(block, state, report)
        return _join(op, state)
    (body,) = op.blocks
    empty = [each for each in carried(op) if each.init in state]
    while True:
        inside = {**state, **_started(empty, state)}
        _block(body, inside, report=None)
        kept = [each for each in empty if each.yielded[0] in inside]
        if kept == empty:
            break
        empty = kept
    if report is not None:
        _block(body, {**state, **_started(empty, state)}, report)
    state.update(inside)
    _join(op, state)


def _started(empty: list[Carried], state: State) -> State:
    """The parameters of a loop that start with nothing in them."""
    return {each.param: state[each.init] for each in empty}  # type: ignore[index,misc]


def _join(op: Op, state: State) -> None:
    for each in carried(op):
        found = [state[value] for value in each.sources if isinstance(value, Value) and value in state]
        if len(found) == len(each.sources):
            state[each.result] = found[0]
