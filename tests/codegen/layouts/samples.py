"""Layouts of all kinds, and which element is whose, by brute force."""

from __future__ import annotations

from collections.abc import Iterator
from operator import add

from hypothesis import strategies as st

from tilekit.codegen.layouts import Bit, Core, Layout
from tilekit.codegen.layouts.cores import blocked, fma_sums, mma_left, mma_right, mma_sums, row_major

SHAPES = [(1, 1024), (32, 64), (48, 96), (7, 100), (1, 1)]
LAYOUTS = {
    **{f"rows-{m}x{n}": Layout(blocked((m, n), 128, 8, (1, 0)), (m, n)) for m, n in SHAPES},
    **{f"columns-{m}x{n}": Layout(blocked((m, n), 256, 4, (0, 1)), (m, n)) for m, n in SHAPES},
    **{f"rectangles-{m}x{n}": Layout(blocked((m, n), 64, 4, (1, 0), 4), (m, n)) for m, n in SHAPES},
    **{f"mma_sums-{m}x{n}": Layout(mma_sums(1, 1), (m, n)) for m, n in SHAPES},
    **{f"atoms-{m}x{n}": Layout(mma_sums(1, 1, 1, 2), (m, n)) for m, n in SHAPES},
    **{f"fma_sums-{m}x{n}": Layout(fma_sums(1, 0, 2, 1, 1), (m, n)) for m, n in SHAPES},
    "fma_sums of rows": Layout(fma_sums(0, 1, 3), (30, 20)),
    "mma_sums of 6 warps": Layout(mma_sums(1, 0, 1, 0, 3, 1), (64, 72)),
    **{f"wgmma_sums-{m}x{n}": Layout(mma_sums(3, 0), (m, n)) for m, n in [(64, 64), (48, 96)]},
    **{f"mma_left-{bits}": Layout(mma_left(1, 1, bits), (48, 80)) for bits in (8, 16, 32)},
    **{f"mma_right-{bits}": Layout(mma_right(1, 1, bits), (48, 80)) for bits in (8, 16, 32)},
    **{f"threads-{n}": Layout(row_major(n, 2), (1000,)) for n in (1, 4, 7, 20, 33, 96, 192, 1024)},
    "groups": Layout(blocked((40, 56), 96, 4, (1, 0)), (40, 56)),
    "copied groups": Layout(blocked((4, 8), 96, 4, (1, 0)), (4, 8)),
    "slice": Layout(mma_sums(2, 0), (64, 64)).reduced(1),
    "column": Layout(mma_sums(2, 0), (64, 64)).reduced(0).projected((-1, 0)),
    "scalar": Layout(mma_sums(1, 1), (32, 16)).projected(()),
    "rank 3": Layout(blocked((3, 5, 40), 128, 4, (2, 1, 0)), (3, 5, 40)),
    "rank 4": Layout(blocked((2, 3, 8, 16), 64, 2, (3, 2, 1, 0)), (2, 3, 8, 16)),
}
"""Every core of ``cores.py``, and what is made of them."""


def elements(layout: Layout) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """All threads and registers, and the coordinates of what they hold."""
    further = [layout.further(register) for register in range(layout.registers)]
    for thread in range(layout.threads):
        first = layout.core.first(thread)
        for register, at in enumerate(further):
            yield thread, register, tuple(map(add, first, at))


@st.composite
def layouts(draw: st.DrawFn, most_rank: int = 3) -> Layout:
    """Any core of at most 64 threads and 16 registers, over a tile of up to three repeats along an axis."""
    rank = draw(st.integers(1, most_rank))
    counts = [0] * rank
    bits: list[Bit | None] = []
    for axis in draw(st.lists(st.integers(-1, rank - 1), max_size=7)):
        bits.append((axis, counts[axis]) if axis >= 0 else None)
        counts[axis] += axis >= 0
    bits = draw(st.permutations(bits))
    own = tuple(bit for bit in bits[6:] if bit is not None)
    own += tuple(bit for bit in bits[:6] if bit is not None and draw(st.booleans()))
    threads = tuple(bit for bit in bits[:6] if bit not in own)
    groups = draw(st.sampled_from([1, 1, 3]))
    axis = draw(st.sampled_from([None, *range(rank)])) if groups > 1 else None
    core = Core(rank, own, threads[:5], threads[5:], groups, axis)
    shape = tuple(draw(st.integers(1, 3 * min(core.span(axis), 8))) for axis in range(rank))
    return Layout(core, shape)
