"""Neighbouring elementwise ops over tiles in registers, as one loop over the registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilekit.codegen.register_loops import each_chunk
from tilekit.ir.builtin import builtin
from tilekit.ir.core import Block, Op
from tilekit.ir.regions import Region
from tilekit.ir.types import Type

CHUNK = 32
"""Registers at most that each op goes through before the next one does."""
FEWEST = 16
"""The same at least: what a pack holds lies in fewer."""
AHEAD = 64
"""Bytes at most that a thread loads for the next chunk while it computes one."""


@builtin(late=True, region=Region("elements"), cooperative=True, by_element=True)
def fused_elements() -> Any:
    """Run the ops of a block for some of each thread's registers at a time; all its tiles lie as one layout says.

    What it loads is loaded for the next registers while these are computed.
    """


@fused_elements.result
def _result(blocks: tuple[Block, ...]) -> tuple[Type, ...]:
    return tuple(value.type for value in blocks[0].results)


@fused_elements.reference
def _reference(blocks: Any) -> Any:
    return tuple(blocks[0]())


@fused_elements.emit
def _emit(cx: Any, results: Any, blocks: tuple[Block, ...]) -> None:
    (body,) = blocks
    loads = [op for op in body.ops if op.builtin.reads]
    layout = next(tile.layout for op in body.ops for tile in map(cx.tile, op.results))
    size = min(CHUNK, 1 << len(layout.core.registers))
    while size > FEWEST and size * sum(op.results[0].type.dtype.itemsize for op in loads) > AHEAD:
        size //= 2
    with each_chunk(cx, layout.registers, size, lambda: _all(cx, loads)):
        _all(cx, [op for op in body.ops if not op.builtin.reads])


def _all(cx: Any, ops: Sequence[Op]) -> None:
    for op in ops:
        cx.emit(op)


__all__: list[str] = []
