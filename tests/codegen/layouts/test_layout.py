"""Layouts deal each element to one thread or to copies; operations leave it where it is."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.codegen.layouts.samples import LAYOUTS, elements, layouts
from tilekit.codegen.layouts import Core, Layout
from tilekit.codegen.layouts.cores import blocked, mma_left, mma_right, mma_sums, row_major


def check_each_element_is_held_once(layout: Layout) -> None:
    seen: set[tuple[int, ...]] = set()
    for thread, _, at in elements(layout):
        if layout.core.is_first(thread):
            assert at not in seen
            seen.add(at)
    padded = [count * layout.core.span(axis) for axis, count in enumerate(layout.repeats)]
    assert seen == set(product(*map(range, padded)))
    spans = map(layout.core.span, range(layout.rank))
    assert all(0 <= n - extent < span for n, extent, span in zip(padded, layout.shape, spans, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_each_element_is_held_once(layout: Layout) -> None:
    check_each_element_is_held_once(layout)


@given(layouts())
def test_each_element_of_any_layout_is_held_once(layout: Layout) -> None:
    check_each_element_is_held_once(layout)


@given(layouts())
def test_copies_hold_what_the_first_holds(layout: Layout) -> None:
    held = {}
    for thread in range(layout.threads):
        found = tuple(layout.element(thread, register) for register in range(layout.registers))
        assert layout.core.is_first(thread) == (found not in held)
        held.setdefault(found, thread)


@given(layouts())
def test_surely_says_where_no_thread_holds_padding(layout: Layout) -> None:
    for register, axis in product(range(layout.registers), range(layout.rank)):
        every = all(layout.element(thread, register)[axis] < layout.shape[axis] for thread in range(layout.threads))
        assert layout.surely(axis, register) == every


@given(layouts(), st.data())
def test_slices_and_what_is_broadcast_stay_in_their_threads(layout: Layout, data: st.DataObject) -> None:
    gone = data.draw(st.integers(0, layout.rank - 1))
    slice_ = layout.reduced(gone)
    back = slice_.projected([axis - (axis > gone) if axis != gone else -1 for axis in range(layout.rank)])
    assert back.shape == tuple(1 if axis == gone else extent for axis, extent in enumerate(layout.shape))
    for thread, register, at in elements(layout):
        kept = layout.kept(gone, register)
        assert slice_.element(thread, kept) == (*at[:gone], *at[gone + 1 :])
        assert back.element(thread, kept) == (*at[:gone], 0, *at[gone + 1 :])


@given(layouts(), st.data())
def test_transposes_stay_in_their_threads(layout: Layout, data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(layout.rank)))
    to, registers = layout.transposed(axes)
    assert to.shape == tuple(layout.shape[axis] for axis in axes)
    assert sorted(registers) == list(range(layout.registers))
    for thread, register, at in elements(to):
        assert tuple(layout.element(thread, registers[register])[axis] for axis in axes) == at


def shapes_of(size: int, rank: int) -> list[tuple[int, ...]]:
    if rank == 1:
        return [(size,)]
    return [(n, *rest) for n in range(1, size + 1) if size % n == 0 for rest in shapes_of(size // n, rank - 1)]


def check_reshape(layout: Layout, shape: tuple[int, ...]) -> bool:
    found = layout.reshaped(shape)
    if found is None:
        return False
    to, registers = found
    assert to.shape == shape and to.threads == layout.threads and sorted(registers) == list(range(layout.registers))
    for thread, register, at in elements(to):
        assert to.is_held(thread, register) == layout.is_held(thread, registers[register])
        if to.is_held(thread, register):
            before = np.ravel_multi_index(layout.element(thread, registers[register]), layout.shape)
            assert np.ravel_multi_index(at, shape) == before
    assert [to.core.is_first(t) for t in range(to.threads)] == [layout.core.is_first(t) for t in range(to.threads)]
    return True


@given(layouts(), st.data())
def test_reshapes_stay_in_their_threads(layout: Layout, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    check_reshape(layout, data.draw(st.sampled_from(shapes_of(int(np.prod(layout.shape)), rank))))


ROWS = Layout(blocked((32, 64), 64, 8, (1, 0)), (32, 64))
RESHAPES = [
    (ROWS, (2048,), True),
    (ROWS, (8, 4, 64), True),
    (ROWS, (16, 128), True),
    (ROWS, (32, 2, 1, 32), True),
    (Layout(blocked((24, 32), 128, 4, (1, 0)), (24, 32)), (768,), True),
    (Layout(blocked((768,), 96, 4, (0,)), (768,)), (24, 32), True),
    (Layout(blocked((3, 8, 5), 8, 1, (1, 2, 0)), (3, 8, 5)), (3, 2, 4, 5), True),
    (Layout(blocked((48, 96), 128, 8, (1, 0)), (48, 96)), (4608,), False),
    (Layout(blocked((8, 4), 32, 1, (1, 0)), (8, 4)), (4, 8), True),
    (Layout(blocked((6, 4), 32, 1, (0, 1)), (6, 4)), (4, 6), False),
    (Layout(blocked((12, 4), 96, 1, (1, 0)), (12, 4)), (48,), True),
    (Layout(blocked((12, 4), 96, 1, (0, 1)), (12, 4)), (48,), False),
    (Layout(mma_sums(0, 0), (1, 64)), (64,), False),
    (Layout(mma_sums(0, 0), (4, 2)), (8,), False),
]


@pytest.mark.parametrize(("layout", "shape", "told"), RESHAPES, ids=lambda x: str(x) if isinstance(x, tuple) else "")
def test_shapes_of_powers_of_two_are_renamed(layout: Layout, shape: tuple[int, ...], told: bool) -> None:
    assert check_reshape(layout, shape) is told


@given(layouts(), st.data())
def test_parts_stay_in_their_threads(layout: Layout, data: st.DataObject) -> None:
    start = [data.draw(st.integers(0, extent - 1)) for extent in layout.shape]
    shape = tuple(data.draw(st.integers(1, n - at)) for n, at in zip(layout.shape, start, strict=True))
    found = layout.part(start, shape)
    if found is None:
        return
    to, registers = found
    assert to.shape == shape
    held = set()
    for thread, register, at in elements(to):
        before = layout.element(thread, registers[register])
        assert tuple(map(sum, zip(at, start, strict=True))) == before
        held |= {at} if to.is_held(thread, register) else set()
    assert held == set(product(*map(range, shape)))


def test_parts_are_the_registers_whose_bits_are_fixed() -> None:
    whole = Layout(mma_sums(1, 0), (64, 64))
    to, registers = whole.part((32, 24), (32, 16))
    assert to == Layout(whole.core, (32, 16))
    assert registers == tuple(range(44, 48)) + tuple(range(48, 52))
    assert whole.part((0, 4), (64, 4)) is None  # other lanes hold it
    assert whole.part((8, 0), (8, 64)) is None  # so do other warps, of which every second holds none of it
    alone = Layout(mma_sums(0, 0), (64, 64))
    down, registers = alone.part((8, 0), (8, 64))
    assert down.core.registers == ((1, 0),)
    assert registers == tuple(r for r in range(32) if r & 2)
    assert alone.part((8, 0), (16, 64)) is None  # half of it lies in the next repeat


@given(layouts(), st.data())
def test_runs_are_of_neighbours(layout: Layout, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, layout.rank - 1))
    own = {position for each, position in layout.core.registers if each == axis}
    low = data.draw(st.sampled_from([n for n in range(4) if {*range(n)} <= own]))
    extent = -(-layout.shape[axis] >> low) << low
    layout = Layout(layout.core, (*layout.shape[:axis], extent, *layout.shape[axis + 1 :]))
    runs = layout.runs(axis, 1 << low)
    assert runs.registers << low == layout.registers
    held = {(thread, at) for thread, _, at in elements(layout)}
    for thread, _, at in elements(runs):
        for i in range(1 << low):
            assert (thread, (*at[:axis], (at[axis] << low) + i, *at[axis + 1 :])) in held


@given(layouts())
def test_doublings_are_absorbed(layout: Layout) -> None:
    to = layout.absorbed()
    assert all(n % 2 or axis == layout.core.group_axis for axis, n in enumerate(to.repeats))
    for thread in range(layout.threads):
        of = [sorted(each.element(thread, register) for register in range(each.registers)) for each in (layout, to)]
        assert of[0] == of[1]


@pytest.mark.parametrize(("size", "threads", "run"), [(512, 32, 4), (48, 9, 8), (1, 8, 1), (1000, 20, 2), (960, 96, 4)])
def test_runs_are_dealt_to_threads_in_turn(size: int, threads: int, run: int) -> None:
    layout = Layout(row_major(threads, run), (size,))
    assert layout.threads == threads and layout.run == run
    assert layout.ragged is (size % (threads * run) != 0)
    assert layout.busy == min(threads, -(-size // run))
    for thread, register, at in elements(layout):
        assert at == ((register // run * threads + thread) * run + register % run,)


@given(layouts())
def test_a_run_is_of_neighbours_and_padding_as_a_whole(layout: Layout) -> None:
    run, last = layout.run, layout.rank - 1
    assert layout.registers % run == 0 and layout.shape[last] % run == 0
    for thread, register, at in elements(layout):
        begin = layout.element(thread, register // run * run)
        assert at == (*begin[:last], begin[last] + register % run)
    assert layout.ragged is not all(layout.is_held(t, r) for t, r, _ in elements(layout))
    assert layout.busy == 1 + max(thread for thread, _, _ in elements(layout) if layout.is_held(thread, 0))


def test_a_bit_lies_in_one_place() -> None:
    with pytest.raises(AssertionError, match="each low bit of a coordinate must lie in one place"):
        Core(1, ((0, 0),), ((0, 0), None))
    with pytest.raises(AssertionError, match="each low bit of a coordinate must lie in one place"):
        Core(1, ((0, 1),))


def test_sums_are_the_next_left_operand() -> None:
    """The sums of m16n8 are a left operand of m16n8k16, register for register."""
    sums, left = Layout(mma_sums(2, 0), (64, 64)), Layout(mma_left(2, 0), (64, 64))
    assert sums.registers == left.registers
    assert list(elements(sums)) == list(elements(left))


# PTX ISA, "Matrix Fragments for mma", and for wgmma: where element i of a lane is; it is lane t of group g of four.
FRAGMENTS = {
    "sums": (mma_sums(0, 0), (16, 8), lambda g, t, i: (g + i // 2 * 8, t * 2 + i % 2)),
    "wgmma": (
        mma_sums(2, 0),
        (64, 16),
        lambda g, t, i: (g % 8 + g // 8 * 16 + i // 2 % 2 * 8, i // 4 * 8 + t * 2 + i % 2),
    ),
    "left 8": (mma_left(0, 0, 8), (16, 32), lambda g, t, i: (g + i // 4 % 2 * 8, t * 4 + i % 4 + i // 8 * 16)),
    "left 16": (mma_left(0, 0, 16), (16, 16), lambda g, t, i: (g + i // 2 % 2 * 8, t * 2 + i % 2 + i // 4 * 8)),
    "left 32": (mma_left(0, 0, 32), (16, 8), lambda g, t, i: (g + i % 2 * 8, t + i // 2 * 4)),
    "right 8": (mma_right(0, 0, 8), (32, 8), lambda g, t, i: (t * 4 + i % 4 + i // 4 * 16, g)),
    "right 16": (mma_right(0, 0, 16), (16, 8), lambda g, t, i: (t * 2 + i % 2 + i // 2 * 8, g)),
    "right 32": (mma_right(0, 0, 32), (8, 8), lambda g, t, i: (t + i * 4, g)),
}


@pytest.mark.parametrize(("core", "shape", "place"), FRAGMENTS.values(), ids=FRAGMENTS)
def test_cores_of_tensor_cores_are_as_ptx_documents_them(core: Core, shape: tuple[int, int], place: Any) -> None:
    for thread, register, at in elements(Layout(core, shape)):
        assert at == place(thread // 4, thread % 4, register)
