"""What the interpreter checks, and where its errors are."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.interpreting import interpret, line_of, places
from tilekit.errors import (
    KernelAssertionError,
    KernelIndexError,
    KernelTypeError,
    KernelValueError,
    UninitializedError,
)


@tk.kernel
def reads_outside(a: tk.array2d[float], n: int, out: tk.array1d[float]):
    i = tk.tid()
    out[0] = a[i, n]  # read outside


@tk.kernel
def writes_outside(n: int, out: tk.array1d[float]):
    out[n] = 1.0  # write outside


@tk.kernel
def reads_element_of_tile(n: int, out: tk.array1d[float]):
    t = tk.tile_zeros(shape=(4, 3))
    out[0] = t[n, 1]  # element of a tile


@tk.kernel
def views_outside(n: int, out: tk.array1d[float]):
    t = tk.tile_zeros(shape=8)
    tk.tile_store(out, tk.tile_view(t, offset=n, shape=4))  # part of a tile


@tk.kernel
def reads_unwritten(n: int, out: tk.array1d[float]):
    t = tk.tile_empty(shape=4, dtype=float)  # made empty
    for k in range(n):
        t[k] = 1.0
    tk.tile_store(out, t * 2.0)  # read unwritten


@tk.kernel
def overlaps(n: int, out: tk.array2d[float]):
    t = tk.tile_ones(shape=(8, 8))  # made whole
    a = tk.tile_view(t, offset=(0, 0), shape=(4, 4))
    b = tk.tile_view(t, offset=(n, n), shape=(4, 4))
    tk.tile_matmul(a, a, b)  # the product
    tk.tile_store(out, t)


@tk.kernel
def asserts(n: int, out: tk.array1d[float]):
    i = tk.tid()
    assert i < n, "too many blocks"  # the assertion
    out[i] = 1.0


def failing(kernel, kind, marker, dim, *arguments):
    with pytest.raises(kind) as caught:
        interpret(kernel, dim, *arguments)
    error = caught.value
    assert (error.location.file, error.location.line) == (__file__, line_of(__file__, marker))
    assert places(error)[-1] == (__file__, line_of(__file__, marker)), "the traceback ends in the kernel"
    return error.message


def test_elements_outside_arrays():
    a, out = np.zeros((2, 3), np.float32), np.zeros(4, np.float32)
    assert failing(reads_outside, KernelIndexError, "read outside", 2, a, 3, out) == (
        "index 3 is out of bounds for axis 1 of a, which has extent 3, in block 0 of kernel 'reads_outside'"
    )
    assert failing(reads_outside, KernelIndexError, "read outside", 3, a, 1, out) == (
        "index 2 is out of bounds for axis 0 of a, which has extent 2, in block 2 of kernel 'reads_outside'"
    )
    assert failing(writes_outside, KernelIndexError, "write outside", 1, -1, out) == (
        "index -1 is out of bounds for axis 0 of out, which has extent 4, in block 0 of kernel 'writes_outside'"
    )


def test_elements_and_parts_outside_tiles():
    out = np.zeros(4, np.float32)
    interpret(reads_element_of_tile, 1, 3, out)
    message = failing(reads_element_of_tile, KernelIndexError, "element of a tile", 1, 4, out)
    assert message.startswith("index 4 is out of bounds for axis 0 of a tile<4x3xf32>")
    interpret(views_outside, 1, 4, out)
    message = failing(views_outside, KernelIndexError, "part of a tile", 1, 5, out)
    assert message.endswith("in block 0 of kernel 'views_outside'")


def test_elements_never_written():
    out = np.zeros(4, np.float32)
    interpret(reads_unwritten, 1, 4, out)
    assert out.tolist() == [2.0] * 4
    message = failing(reads_unwritten, UninitializedError, "read unwritten", 1, 3, out)
    made = line_of(__file__, "made empty")
    assert message == (
        f"this reads element [3] of a tile<4xf32> that tile_empty made at line {made}, but nothing "
        "was written to it; write to it first, or make it with tk.tile_zeros, in block 0 of kernel 'reads_unwritten'"
    )


def test_products_into_what_they_read():
    out = np.zeros((8, 8), np.float32)
    interpret(overlaps, 1, 4, out)
    assert out[4:, 4:].tolist() == [[5.0] * 4] * 4
    message = failing(overlaps, KernelValueError, "the product", 1, 3, out)
    assert message.startswith("tile_matmul(): out overlaps a: both are parts of the tile made at line ")
    assert str(line_of(__file__, "made whole")) in message


def test_assertions():
    out = np.zeros(4, np.float32)
    message = failing(asserts, KernelAssertionError, "the assertion", 4, 2, out)
    assert message == "too many blocks, in block 2 of kernel 'asserts'"
    assert out.tolist() == [1.0, 1.0, 0.0, 0.0], "the blocks before it have run"


@tk.kernel
def mixes(a: tk.array1d[float], b: tk.array1d[tk.float64], out: tk.array1d[float]):
    out[0] = a[0] + b[0]


def test_compile_time_errors_are_those_of_the_cpu():
    arguments = [np.zeros(2, np.float32), np.zeros(2), np.zeros(2, np.float32)]
    texts = []
    for device in ("cpu", "interpret"):
        with pytest.raises(KernelTypeError) as caught:
            tk.launch_tiled(mixes, dim=1, inputs=arguments, block_dim=32, device=device)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
