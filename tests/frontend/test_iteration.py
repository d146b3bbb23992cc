"""What has no length that is known while a kernel is compiled cannot be iterated, however Python is asked to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.ir.handles import Array, Scalar, Tile


def loop(v):
    for _ in v:
        pass


def comprehension(v):
    return [a for a in v]


def generator(v):
    return any(a > 0 for a in v)


def star(v):
    return max(*v)


def starred_target(v):
    first, *_ = v
    return first


def nested_target(v):
    (a, b), c = v, 1
    return a + b + c


def star_in_a_tuple(v):
    return (0, *v)


def star_in_a_list(v):
    return [*v]


def contains(v):
    return 1 in v


def sorted_by_key(v):
    return sorted(v, key=lambda a: a)


WAYS = {
    "sum": lambda v: sum(v), "list": lambda v: list(v), "tuple": lambda v: tuple(v),
    "enumerate": lambda v: list(enumerate(v)),
    "zip": lambda v: [a for a, _ in zip(v, v)], "zip with a range": lambda v: list(zip(range(3), v)),
    "map": lambda v: list(map(lambda a: a, v)), "filter": lambda v: list(filter(None, v)), "sorted": sorted_by_key,
    "reversed": lambda v: list(reversed(v)), "any": lambda v: any(v), "all": lambda v: all(v), "set": lambda v: set(v),
    "dict": lambda v: {a: 1 for a in v}, "iter": lambda v: iter(v), "next": lambda v: next(iter(v)),
    "max of a generator": lambda v: max(a for a in v),
    **{f.__name__: f for f in (loop, comprehension, generator, star, star_in_a_tuple, star_in_a_list, contains)},
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("kind", ["array", "row", "tile", "number"])
def test_every_way_is_the_same_error(way, kind, device):
    function = WAYS[way]

    @tk.kernel
    def of_array(x: tk.array1d[float], y: tk.array2d[float], n: int):
        function(x)

    @tk.kernel
    def of_row(x: tk.array1d[float], y: tk.array2d[float], n: int):
        function(y[0])

    @tk.kernel
    def of_tile(x: tk.array1d[float], y: tk.array2d[float], n: int):
        function(tk.tile_load(x, shape=4))

    @tk.kernel
    def of_number(x: tk.array1d[float], y: tk.array2d[float], n: int):
        function(n)

    kernel = {"array": of_array, "row": of_row, "tile": of_tile, "number": of_number}[kind]
    what = {"array": "an array1d<f32>", "row": "an array1d<f32>", "tile": "a tile<4xf32>", "number": "an int32"}[kind]
    given: list[Any] = [np.zeros(4, np.float32), np.zeros((4, 4), np.float32), 3]
    with pytest.raises(tk.errors.KernelTypeError) as caught:
        tk.launch_tiled(kernel, dim=1, inputs=given, device=device)
    assert caught.value.message == f"cannot loop over {what}; loop over range(n) and index it"
    assert caught.value.location is not None


@pytest.mark.parametrize("function", [starred_target, nested_target])
def test_unpacking_says_what_to_read(function):
    @tk.kernel
    def of_array(x: tk.array1d[float]):
        function(x)

    @tk.kernel
    def of_number(x: tk.array1d[float]):
        function(x[0])

    for kernel, message in ((of_array, "read its elements, as in t\\[0\\], t\\[1\\]"), (of_number, "several names")):
        with pytest.raises(tk.errors.KernelTypeError, match=f"cannot be unpacked.*{message}"):
            tk.launch_tiled(kernel, dim=1, inputs=[np.zeros(4, np.float32)])


def test_no_handle_leaves_iteration_to_its_indices():
    """Python asks an object with ``__getitem__`` alone for the elements 0, 1, 2, ... without end."""
    for handle in (Array, Tile, Scalar):
        assert "__iter__" in dir(handle)
    with pytest.raises(tk.errors.KernelTypeError, match="cannot loop over a tile<4xf32>"):
        list(tk.tile_zeros(shape=4, dtype=float))
