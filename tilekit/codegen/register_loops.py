"""Loops of a thread over the registers of a tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilekit.codegen.layouts import Layout, OpaqueLayout
from tilekit.codegen.refs import ElementIndex, coordinates

if TYPE_CHECKING:
    from tilekit.codegen.cuda_emitter import CudaEmitter


@dataclass(frozen=True)
class Chunk:
    """Registers that follow each other, through which several ops go before the next ones."""

    first: str
    """The number of the first one."""
    size: int


@contextmanager
def each_chunk(cx: CudaEmitter, registers: int, size: int, load: Callable[[], None]) -> Iterator[None]:
    """A loop over chunks of registers, in which loops over registers are loops over the chunk's.

    Args:
        cx: What writes the code.
        registers: Of a thread.
        size: Of a chunk.
        load: Writes the loads of a chunk, which are begun before the chunk before it is computed.
    """
    first = cx.fresh("i")
    cx.chunk = Chunk("0", size)
    load()
    cx.line("TK_UNROLL")
    with cx.braces(f"for (int {first} = 0; {first} < {registers}; {first} += {size})"):
        cx.chunk = Chunk(f"{first} + {size}", size)
        with cx.braces(f"if ({first} + {size} < {registers})"):
            load()
        cx.chunk = Chunk(first, size)
        yield
        cx.chunk = None


@contextmanager
def each_register(cx: CudaEmitter, layout: Layout, name: str, shape: tuple[int, ...]) -> Iterator[ElementIndex]:
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
            place = f"{name}::first<{axis}>(team.rank()) + {name}::further<{axis}>({i})"
            cx.line(f"[[maybe_unused]] const int {each} = {place};")
        index = ElementIndex(at if layout.rank == len(shape) else coordinates(at[0], shape))
        index.register = i
        yield index


@contextmanager
def _held(cx: CudaEmitter, layout: Layout, name: str) -> Iterator[str]:
    """The loop itself; where some registers are padding, each run of neighbours is looked at once."""
    i, run = cx.fresh("i"), layout.run if layout.ragged else 1
    first, last = "0", str(layout.registers)
    if cx.chunk is not None:
        first, last = cx.chunk.first, f"{cx.chunk.first} + {cx.chunk.size}"
    cx.line("TK_UNROLL")
    with cx.braces(f"for (int {i} = {first}; {i} < {last}; {f'{i} += {run}' if run > 1 else f'++{i}'})"):
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


@contextmanager
def each_opaque(cx: CudaEmitter, layout: OpaqueLayout, name: str) -> Iterator[ElementIndex]:
    """The same of registers of which only the compiler knows what they hold."""
    i, at = cx.fresh("i"), [cx.fresh("e") for _ in range(2)]
    cx.line("TK_UNROLL")
    with cx.braces(f"for (int {i} = 0; {i} < {layout.registers}; ++{i})"), cx.braces(f"if ({name}::is_held({i}))"):
        for each, what in zip(at, ("row", "col"), strict=True):
            cx.line(f"[[maybe_unused]] const int {each} = {name}::{what}({i});")
        index = ElementIndex(at)
        index.register = i
        yield index
