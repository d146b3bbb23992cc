"""Loops of a thread over the registers of a tile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilekit.codegen.emitter import Emitter
from tilekit.codegen.layouts import Layout
from tilekit.codegen.refs import ElementIndex, coordinates


@contextmanager
def each_register(cx: Emitter, layout: Layout, name: str, shape: tuple[int, ...]) -> Iterator[ElementIndex]:
    """A loop over a thread's registers that hold elements, unrolled so that they are registers.

    Args:
        cx: What writes the code.
        layout: How threads hold the tile, along its axes or its elements counted row by row.
        name: Its C++ type.
        shape: The tile's.
    """
    with _held(cx, layout, name) as i:
        at = [cx.fresh("e") for _ in layout.shape]
        for axis, each in enumerate(at):
            place = f"{name}::first<{axis}>(team.rank()) + {name}::further({axis}, {i})"
            cx.line(f"[[maybe_unused]] const int {each} = {place};")
        index = ElementIndex(at if layout.rank == len(shape) else coordinates(at[0], shape))
        index.register = i
        yield index


@contextmanager
def _held(cx: Emitter, layout: Layout, name: str) -> Iterator[str]:
    """The loop itself; where some registers are padding, each run of neighbours is looked at once."""
    i, run = cx.fresh("i"), layout.run if layout.ragged else 1
    cx.line("TK_UNROLL")
    with cx.braces(f"for (int {i} = 0; {i} < {layout.registers}; {f'{i} += {run}' if run > 1 else f'++{i}'})"):
        if not layout.ragged:
            yield i
            return
        with cx.braces(f"if ({name}::is_held(team.rank(), {i}))"):
            if run == 1:
                yield i
                return
            j = cx.fresh("i")
            cx.line("TK_UNROLL")
            with cx.braces(f"for (int {j} = {i}; {j} < {i} + {run}; ++{j})"):
                yield j
