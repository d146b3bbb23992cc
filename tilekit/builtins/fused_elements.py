"""Neighbouring elementwise ops over tiles in registers, as one loop over the registers."""

from __future__ import annotations

from typing import Any

from tilekit.codegen.register_loops import each_chunk
from tilekit.ir.builtin import builtin
from tilekit.ir.core import Block
from tilekit.ir.regions import Region
from tilekit.ir.types import Type

CHUNK = 32
"""Registers that each op goes through before the next one does: loads of so many wait for memory side by side."""


@builtin(late=True, region=Region("elements"), cooperative=True, by_element=True)
def fused_elements() -> Any:
    """Run the ops of a block for some of each thread's registers at a time; all its tiles lie as one layout says."""


@fused_elements.result
def _result(blocks: tuple[Block, ...]) -> tuple[Type, ...]:
    return tuple(value.type for value in blocks[0].results)


@fused_elements.reference
def _reference(blocks: Any) -> Any:
    return tuple(blocks[0]())


@fused_elements.emit
def _emit(cx: Any, results: Any, blocks: tuple[Block, ...]) -> None:
    (body,) = blocks
    layout = next(tile.layout for op in body.ops for tile in map(cx.tile, op.results))
    with each_chunk(cx, layout.registers, min(CHUNK, 1 << len(layout.core.registers))):
        for op in body.ops:
            cx.emit(op)


__all__: list[str] = []
