"""A program of two launches with scratch between them: a product whose sum over K is split, then added up in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tilekit as tk
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Value
from tilekit.ir.program import Computed, Launch, Program, Scratch
from tilekit.ir.sizes import CeilDiv, Dim, Extent, Product, Scalar
from tilekit.ir.types import ArrayType, ScalarType, float32, int32
from tilekit.runtime.array_view import ArrayView, alignment_class
from tilekit.runtime.arrays import view_of
from tilekit.runtime.specialise import program_for

TILE = 16


@tk.kernel
def sum_parts(
    a: tk.array2d[float], b: tk.array2d[float], chunk: int, parts: tk.array2d[float], seen: tk.array2d[tk.int32]
):
    i, j, part = tk.tid()
    acc = tk.tile_zeros(shape=(TILE, TILE), dtype=float)
    for k in range(part * chunk, min((part + 1) * chunk, a.shape[1]), TILE):
        x = tk.tile_load(a, shape=(TILE, TILE), offset=(i * TILE, k))
        y = tk.tile_load(b, shape=(TILE, TILE), offset=(k, j * TILE))
        tk.tile_matmul(x, y, acc)
    row = (part * seen.shape[0] + i) * TILE
    tk.tile_store(parts, acc, offset=(row, j * TILE))
    tk.atomic_add(seen, i, j, 1)


@tk.kernel
def add_parts(
    parts: tk.array2d[float], seen: tk.array2d[tk.int32], splits: int, most: int,
    out: tk.array2d[float], count: tk.array2d[tk.int32],
):  # fmt: skip
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(TILE, TILE), dtype=float)
    for part in range(splits):
        assert part < most, "too many parts"
        acc += tk.tile_load(parts, shape=(TILE, TILE), offset=((part * seen.shape[0] + i) * TILE, j * TILE))
    tk.tile_store(out, acc, offset=(i * TILE, j * TILE))
    count[i, j] = seen[i, j]


FORM = LaunchForm(True, 2, 64)


def split_sum(until_backward: bool = False) -> Program:
    """Parameters: a, b, out, count, chunk, most; its grid is of tiles of ``out``."""
    matrix, whole = ArrayType(float32, 2), ArrayType(int32, 2)
    types: dict[str, Any] = {name: matrix for name in ("a", "b", "out")}
    types |= {"count": whole, "chunk": ScalarType(int32), "most": ScalarType(int32)}
    splits = CeilDiv(Extent("a", 1), Scalar("chunk"))
    rows = Product(Product(splits, Dim(0)), TILE)
    return Program(
        "split_sum",
        {name: Value(type, name) for name, type in types.items()},
        (
            Launch(sum_parts.trace(sum_parts.default_types(), LaunchForm(True, 3, 64)), (Dim(0), Dim(1), splits)),
            Launch(add_parts.trace(add_parts.default_types(), FORM)),
        ),
        {
            "parts": Scratch(Value(matrix, "parts"), (rows, Extent("b", 1)), until_backward=until_backward),
            "seen": Scratch(Value(whole, "seen"), (Dim(0), Dim(1)), zeroed=True),
        },
        computed={"splits": Computed(Value(ScalarType(int32), "splits"), splits)},
    )


def grid_of(m: int, n: int) -> tuple[int, int]:
    return -(-m // TILE), -(-n // TILE)


def numbers(m: int, n: int, k: int, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """a, b, out and count; the elements are small integers, whose sums are exact in any order."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-4, 5, size).astype(np.float32) for size in ((m, k), (k, n)))
    return [a, b, np.full((m, n), np.nan, np.float32), np.full(grid_of(m, n), -1, np.int32)]


def check(arrays: Sequence[np.ndarray[Any, Any]], chunk: int) -> None:
    a, b, out, count = arrays
    assert np.array_equal(out, a @ b)
    assert (count == -(-a.shape[1] // chunk)).all()


def values_of(arrays: Sequence[Any], *scalars: Any) -> tuple[list[Any], list[ArrayView]]:
    """What a launch packs of arrays and the scalars after them, and the arrays' views."""
    views = [view_of(array) for array in arrays]
    values: list[Any] = []
    for view in views:
        values += (view.pointer, *view.shape, *view.strides)
    return [*values, *scalars], views


def made_for(arrays: Sequence[Any], device: str, program: Program | None = None) -> Any:
    """What runs the program with such arrays."""
    classes = [alignment_class(view_of(array)) for array in arrays] if device.startswith("cuda") else ()
    return program_for(program or split_sum(), FORM, device, classes)
