import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilekit.ir.types import float16, float32, float64, uint8
from tilekit.runtime.array_view import ArrayView, alignment_class, byte_range, overlaps, self_overlapping
from tilekit.runtime.arrays import view_of


def view(shape: Any, strides: Any, dtype: Any = float32, pointer: int = 4096) -> ArrayView:
    return ArrayView(pointer, tuple(shape), tuple(strides), dtype)


def touched(v: ArrayView) -> list[range]:
    """The bytes of each element, counted out one by one."""
    starts = (
        v.pointer + sum(i * s for i, s in zip(index, v.strides, strict=True))
        for index in itertools.product(*map(range, v.shape))
    )
    return [range(start, start + v.dtype.itemsize) for start in starts]


def collides(v: ArrayView) -> bool:
    everything = [byte for element in touched(v) for byte in element]
    return len(set(everything)) < len(everything)


layouts = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 4), min_size=n, max_size=n), st.lists(st.integers(-40, 40), min_size=n, max_size=n)
    )
)


@settings(max_examples=400, deadline=None)
@given(layouts, st.sampled_from([uint8, float16, float32]))
def test_self_overlapping_against_counting(layout: Any, dtype: Any) -> None:
    shape, strides = layout
    v = view(shape, [s * dtype.itemsize for s in strides], dtype)
    claimed = self_overlapping(v)
    if sum(extent > 1 for extent in shape) <= 2:
        assert claimed == collides(v)
    else:
        assert claimed or not collides(v)


@settings(max_examples=300, deadline=None)
@given(layouts, layouts, st.integers(-64, 64))
def test_overlaps_against_counting(one: Any, other: Any, distance: int) -> None:
    a, b = view(*one, dtype=uint8), view(*other, dtype=float16, pointer=4096 + distance)
    common = {x for r in touched(a) for x in r} & {x for r in touched(b) for x in r}
    assert overlaps(a, b) == overlaps(b, a) == bool(common)


@settings(max_examples=200, deadline=None)
@given(layouts)
def test_byte_range_against_counting(layout: Any) -> None:
    v = view(*layout, dtype=float16)
    bytes_ = [x for r in touched(v) for x in r]
    low, high = byte_range(v)
    assert (low, high) == (min(bytes_), max(bytes_) + 1) if bytes_ else low == high


def test_overlaps_of_tiles_of_one_matrix() -> None:
    matrix = np.zeros((64, 64), np.float32)
    left, right, middle = (view_of(matrix[:, s]) for s in (slice(0, 32), slice(32, 64), slice(31, 33)))
    assert not overlaps(left, right)
    assert overlaps(left, middle) and overlaps(middle, right)
    assert not overlaps(view_of(matrix[::2]), view_of(matrix[1::2]))
    assert overlaps(view_of(matrix.T), view_of(matrix[::-1]))


def test_overlaps_needs_no_readable_memory() -> None:
    huge = view((2**20, 2**20), (2**22, 4), pointer=2**40)
    assert overlaps(huge, view((3,), (4,), pointer=2**40 + 2**30))
    assert not overlaps(huge, view((3,), (4,), pointer=2**40 - 12))


def test_self_overlapping_usual_cases() -> None:
    base = np.zeros((8, 8), np.float32)
    for fine in (base, base.T, base[::-1, ::2], base[:, 3], base[:0], np.zeros((2, 3, 4, 5)).transpose(2, 0, 3, 1)):
        assert not self_overlapping(view_of(fine))
    windows = np.lib.stride_tricks.sliding_window_view(np.zeros(10, np.float32), 3)
    for shared in (np.broadcast_to(base[0], (4, 8)), windows):
        assert self_overlapping(view_of(shared))
    assert not self_overlapping(view_of(np.broadcast_to(base[0], (1, 8))))


def test_interleaved_strides_are_decided_exactly() -> None:
    assert not self_overlapping(view((2, 3), (8, 12)))  # 0 3 6 2 5 8
    assert self_overlapping(view((4, 3), (8, 12)))  # 6 twice


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros((8, 8), np.float32), (1, (), True, False, True)),
        (np.zeros((8, 8), np.float32).T, (0, (), True, False, True)),
        (np.zeros((8, 8), np.float32)[:, :3], (1, (), True, False, False)),
        (np.zeros((8, 7), np.float32), (1, (), False, False, False)),
        (np.zeros((8, 8), np.float32)[:, ::2], (-1, (), False, False, False)),
        (np.zeros((8, 8), np.float32)[:, ::4], (-1, (), True, False, False)),
        (np.zeros((8, 8), np.float32)[::-1], (1, (), True, False, True)),
        (np.zeros((8, 8), np.float32)[:, ::-1], (-1, (), False, False, False)),
        (np.zeros(8, np.float32), (0, (), True, False, True)),
        (np.zeros((8, 1), np.float32), (1, (), False, False, False)),
        (np.zeros((8, 8), np.float32)[:, :1], (1, (), True, False, False)),
        (np.asfortranarray(np.zeros((8, 1), np.float32)), (1, (), False, False, False)),
        (np.zeros((1, 8), np.float32), (1, (), True, False, True)),
        (np.broadcast_to(np.zeros(8, np.float32), (4, 8)), (1, (0,), True, False, True)),
        (np.broadcast_to(np.zeros((4, 1), np.float32), (4, 8)), (0, (1,), True, False, True)),
        (np.zeros((0, 7), np.float32), (1, (), True, False, True)),
    ],
)
def test_alignment_class(array: Any, expected: Any) -> None:
    v = view_of(array)
    v.pointer = 4096 if array.strides[-1] >= 0 else 4096 + 28
    assert alignment_class(v) == expected


def test_alignment_class_of_base_and_span() -> None:
    assert alignment_class(view((8, 8), (32, 4), pointer=4100)) == (1, (), False, False, False)
    assert not alignment_class(view((2**16, 2**15), (2**15, 1), uint8))[3]
    assert alignment_class(view((2**16 + 1, 2**15), (2**15, 1), uint8))[3]
    assert not alignment_class(view((0, 2**40), (2**43, 8), float64))[3]
