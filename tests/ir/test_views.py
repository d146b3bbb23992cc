"""View maps compose as NumPy's views do."""

import numpy as np
from hypothesis import given, strategies as st

from tilekit.ir.views import ViewMap, dense_strides


def numbers(map: ViewMap) -> np.ndarray:
    grid = np.asarray(map.offset)
    for extent, stride in zip(map.shape, map.strides, strict=True):
        grid = grid[..., None] + np.arange(extent) * stride
    return grid


def as_map(view: np.ndarray, base: np.ndarray) -> ViewMap:
    """The map of a NumPy view over a freshly made ``base`` of int64 numbers 0, 1, ..."""
    start = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // 8
    return ViewMap(view.shape, tuple(step // 8 for step in view.strides), start)


@st.composite
def slices(draw, extent: int) -> slice:
    start = draw(st.integers(0, extent - 1))
    count = draw(st.integers(1, extent - start))
    step = draw(st.sampled_from([1, 1, 2, -1]))
    picked = range(extent)[start : start + count]
    if step == -1:
        stop = picked.start - 1
        return slice(picked.stop - 1, None if stop < 0 else stop, -1)
    return slice(picked.start, picked.stop, step)


@st.composite
def chains(draw):
    """A base shape and steps, each a function on arrays."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple))
    base = np.arange(int(np.prod(shape))).reshape(shape)
    steps, view = [], base
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["slice", "transpose", "squeeze", "reshape"]))
        if kind == "slice":
            index = tuple(draw(slices(extent)) for extent in view.shape)
            step = lambda a, index=index: a[index]
        elif kind == "transpose":
            order = draw(st.permutations(range(view.ndim)))
            step = lambda a, order=order: a.transpose(order)
        elif kind == "squeeze":
            step = lambda a: a.reshape(tuple(e for e in a.shape if e != 1) or (1,)) if a.size else a
        else:
            step = lambda a: a.reshape(-1)
        steps.append(step)
        view = step(view)
    return shape, steps


@given(chains())
def test_a_chain_of_views_is_one_map_over_the_base(chain):
    shape, steps = chain
    current = ViewMap.identity(shape)
    expected = np.arange(int(np.prod(shape))).reshape(shape)
    for step in steps:
        local = np.arange(current.size).reshape(current.shape)
        part = step(local)
        expected = step(expected)
        if not np.shares_memory(part, local):
            return
        composed = as_map(part, local).after(current)
        if composed is None:
            assert step(expected).size and not current.is_dense()
            return
        current = composed
        np.testing.assert_array_equal(numbers(current), expected)


def test_a_reshape_of_a_view_that_is_not_contiguous_has_no_map():
    columns = ViewMap((4, 6), (12, 1))
    assert ViewMap((24,), (1,)).after(columns) is None
    assert ViewMap((2, 12), (12, 1)).after(columns) is None
    assert ViewMap((2, 2, 6), (12, 6, 1)).after(columns) == ViewMap((2, 2, 6), (24, 12, 1))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(st.integers(-6, 6), min_size=3, max_size=3))
def test_overlap_with_itself_is_never_missed(shape, strides):
    map = ViewMap(tuple(shape), tuple(strides[: len(shape)]), 40)
    if len(np.unique(numbers(map))) < map.size:
        assert map.overlaps_itself()


def test_bounds_are_the_least_and_greatest_number():
    map = ViewMap((3, 4), (-4, 1), 8)
    assert map.bounds() == (int(numbers(map).min()), int(numbers(map).max()))
    assert dense_strides((2, 3, 4)) == (12, 4, 1)
