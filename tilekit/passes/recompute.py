"""Copies of ops that compute a value again, without the effects around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import Builder
from tilekit.ir.core import Block, Const, Op, Value, walk
from tilekit.ir.regions import again, keep_carried, runs_once
from tilekit.ir.rewrite import Rewriter
from tilekit.passes.eliminate_dead_code import clean_block
from tilekit.passes.lost import NOT_TWICE

LookUp = Callable[[Value], Any]


def repeat(op: Op, look_up: LookUp, builder: Builder) -> tuple[Value, ...]:
    """Record a copy of an op without the effects in it.

    Raises:
        KernelNotImplementedError: what it gives depends on an effect, which must not happen twice.
    """
    pure = tuple(_without_effects({}).ops((op,)))
    effects = [inner for inner in walk(Block((), (op,))) if inner.has_effect and not inner.blocks]
    if not pure or any(not Block((), pure).free.keys().isdisjoint(inner.results) for inner in effects):
        raise KernelNotImplementedError(
            f"the gradient needs the result of {op.written} again, and {NOT_TWICE}", op.location
        )
    return copy_op(pure[0], look_up, builder)


def slice_of(op: Op, wanted: Iterable[Value], lost: Mapping[Value, Any]) -> Op:
    """The op with those of its results alone, and without effects and values that cannot be computed again."""
    if not op.builtin.carries and not runs_once(op):
        return op
    (pure,) = _without_effects(lost).op(op)
    (found,) = clean_block(Block((), (pure,), tuple(wanted)), checks=False).ops
    return found


def slice_block(block: Block, results: tuple[Value | Const, ...], lost: Mapping[Value, Any]) -> Block:
    """What of a block computes ``results``, without effects."""
    return clean_block(Block(block.params, _without_effects(lost).ops(block.ops), results), checks=False)


def _without_effects(lost: Mapping[Value, Any]) -> Rewriter:
    def change(op: Op, rewriter: Rewriter) -> tuple[Op, ...] | None:
        if op.results and all(result in lost for result in op.results):
            return ()
        op = again(op)
        if op.builtin.carries or runs_once(op):
            kept = {i for i, result in enumerate(op.results) if result not in lost}
            rebuilt = rewriter.rebuilt(op)
            return (rebuilt if len(kept) == len(op.results) else keep_carried(rebuilt, kept),)
        return () if op.has_effect else None

    return Rewriter(change=change)


def copy_op(op: Op, look_up: LookUp, builder: Builder) -> tuple[Value, ...]:
    """Record a copy of an op; ``look_up`` gives what its operands are in the new place."""
    (copied,) = Rewriter(fresh=True, outer=look_up).op(op)
    builder.ops.append(copied)
    return copied.results


def copy_ops(block: Block, given: Iterable[Any], look_up: LookUp, builder: Builder) -> tuple[Any, ...]:
    """Record copies of a block's ops with ``given`` in place of its parameters; returns what it yields."""
    rewriter = Rewriter(dict(zip(block.params, given, strict=True)), fresh=True, outer=look_up)
    for op in block.ops:
        copied = rewriter.op(op)  # may record what it needs from outside
        builder.ops += copied
    return tuple(map(rewriter.look_up, block.results))
