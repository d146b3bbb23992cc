"""Kernels whose gradients belong to points of the grid, and kernels whose gradients do not, though it may seem so."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilekit as tk

Vector = tk.array1d[float]
Matrix = tk.array2d[float]
LANES = 8


@tk.kernel
def square(x: Vector, y: Vector):
    i = tk.tid()
    y[i] = x[i] * x[i]


@tk.kernel
def moved(x: Vector, y: Vector, s: int):
    """Up and down, from where scalars of the launch say."""
    i = tk.tid()
    y[i] = x[i + s] * x[s + i] * x[i + s + 0]


@tk.kernel
def down(x: Vector, y: Vector, s: int):
    i = tk.tid()
    y[i] = x[s - i] * x[s - i]


@tk.kernel
def pairs(x: Vector, y: Vector):
    """Elements beside each other, all within one step."""
    i = tk.tid()
    y[i] = x[3 * i + 1] * x[3 * i] * x[i * 3 + 2]


@tk.kernel
def runs(x: Vector, y: Vector):
    """The index of a loop that is not unrolled, up to the next point's elements."""
    i = tk.tid()
    s = float(0)
    for k in range(20):
        s += x[20 * i + k] * x[20 * i + 19 - k]
    y[i] = s


@tk.kernel
def transposed(x: Matrix, y: Matrix):
    i, j = tk.tid()
    y[i, j] = x[j, i] * x[j, i]


@tk.kernel
def skewed(x: Matrix, y: Matrix):
    """The first axis tells one coordinate apart; among equal ones, the second axis the other."""
    i, j = tk.tid()
    y[i, j] = x[i, i + j] * x[i, j + i]


@tk.kernel
def rows(x: Matrix, y: Vector, n: int):
    """Views, and an axis along which anything goes."""
    i = tk.tid()
    row = x[i]
    s = float(0)
    for k in range(n):
        s += row[k] * x[i, (3 * k) % n]
    y[i] = s


@tk.kernel
def conditions(x: Matrix, y: Vector, n: int):
    i = tk.tid()
    s, k = float(1), 0
    while k < n:
        if x[i, k] > 0.0:
            s = s * x[i, k]
        elif x[i, k] < -2.0:
            break
        k += 1
    y[i] = s


@tk.kernel
def in_place(x: Vector, y: Vector):
    i = tk.tid()
    y[i] = x[i] * x[i] + 3.0 * y[i]


@tk.kernel
def from_array(x: Vector, start: tk.array1d[int], y: Vector):
    i = tk.tid()
    y[i] = x[start[0] + i] * x[i + start[0]]


@tk.kernel
def wide(x: Vector, y: Vector):
    """Casts that cut nothing off."""
    i = tk.int64(tk.tid())
    y[int(tk.tid())] = x[i * tk.int64(2)] * x[tk.int32(tk.tid()) * 2]


@tk.kernel
def below(x: Vector, y: Vector):
    """Conditions on coordinates, so that some points do nothing."""
    i = tk.tid()
    if i < len(x):
        y[i] = x[i] * x[i]


@tk.kernel
def remainder(x: Vector, y: Vector):
    i = tk.tid()
    y[i] = x[i % 4] * x[i % 4]


@tk.kernel
def halved(x: Vector, y: Vector):
    i = tk.tid()
    y[i] = x[i // 2] * x[i // 2]


@tk.kernel
def neighbours(x: Vector, y: Vector):
    i = tk.tid()
    y[i] = x[i] * x[i + 1]


@tk.kernel
def looked_up(x: Vector, index: tk.array1d[int], y: Vector):
    """One place of the two belongs to the point."""
    i = tk.tid()
    y[i] = x[i] * x[index[i]]


@tk.kernel
def opposite(x: Vector, y: Vector, n: int):
    i = tk.tid()
    y[i] = x[i] * x[n - 1 - i]


@tk.kernel
def apart(x: Vector, y: Vector, n: int, m: int):
    """How far the places lie from each other is known at run time only."""
    i = tk.tid()
    y[i] = x[i + n] * x[i + m]


@tk.kernel
def one_of_two(x: Vector, y: Matrix):
    i, j = tk.tid()
    y[i, j] = x[i] * x[i]


@tk.kernel
def along_one(x: Vector, y: Matrix):
    i, j = tk.tid()
    y[i, j] = x[i + j] * x[i + j]


@tk.kernel
def scaled(x: Vector, y: Vector, n: int):
    i = tk.tid()
    y[i] = x[i * n] * x[i * n]


@tk.kernel
def wrapped(x: Vector, y: Vector):
    """An int32 wraps to 0 in all points."""
    i = tk.tid()
    y[i] = x[i * 65536 * 65536] * x[i * 65536 * 65536]


@tk.kernel
def narrow(x: Vector, y: Vector):
    """An int8 wraps around every 256 points."""
    i = tk.tid()
    y[i] = x[tk.int32(tk.int8(i)) + 128] * x[tk.int32(tk.int8(i)) + 128]


@tk.kernel
def cut_off(x: Vector, y: Vector):
    """What an int32 keeps of an int64 is 0 in all points."""
    i = tk.int64(tk.tid()) * tk.int64(65536) * tk.int64(32768)
    y[tk.tid()] = x[tk.int32(i + i)] * x[tk.int32(i + i)]


@tk.kernel
def too_far(x: Vector, y: Vector):
    i = tk.tid()
    s = float(0)
    for k in range(21):
        s += x[20 * i + k] * x[20 * i + k]
    y[i] = s


@tk.kernel
def changed(x: Vector, start: tk.array1d[int], y: Vector):
    """The number that all points add is another one in each of them, as a loop finds it."""
    i = tk.tid()
    at = start[0]
    for _ in range(i):
        at -= 1
    y[i] = x[at + i] * x[at + i]


@tk.kernel
def tiles(x: Vector, w: Vector, y: Vector):
    """A tile that is gathered, and one element a block."""
    i = tk.tid()
    tk.tile_store(y, tk.tile_load(x, 8, 8 * i) * w[i], 8 * i)


@tk.kernel
def overlapping(x: Vector, y: Vector):
    """Tiles of one block over each other, one after another, and an element of it between them; a thread adds to what
    another one has added to before."""
    i = tk.tid()
    t = tk.tile_load(x, 60, 80 * i) + tk.tile_load(x, 60, 80 * i + 9)
    t = t * x[80 * i + 30]
    t = t + tk.tile_load(x, 60, 80 * i + 4) + tk.tile_load(x, 60, 80 * i + 20)
    tk.tile_store(y, t, 60 * i)


@tk.kernel
def triangle(x: Matrix, y: Vector):
    """Of each block another number of tiles, some under a condition."""
    i = tk.tid()
    t = tk.tile_zeros(shape=(1, 4), dtype=float)
    for k in range(i + 1):
        t += tk.tile_load(x, (1, 4), (i, 2 * k))
        if k > 1:
            t = t * tk.tile_load(x, (1, 4), (i, 2 * k - 1))
    tk.tile_store(y, tk.tile_squeeze(t), 4 * i)


@tk.kernel
def blocks_overlap(x: Vector, y: Vector):
    i = tk.tid()
    tk.tile_store(y, tk.tile_load(x, 4, 4 * i) * tk.tile_load(x, 4, 4 * i + 1), 4 * i)


@tk.kernel
def of_elements(x: Vector, w: Vector, y: Vector):
    """Threads of a block add for each element of a tile."""
    i = tk.tid()
    tk.tile_store(y, tk.tile_map(lambda v: v * x[i], tk.tile_load(w, 8, 8 * i)), 8 * i)


@tk.kernel
def lanes(x: Vector, y: Vector):
    i, lane = tk.tid()
    y[LANES * i + lane] = x[LANES * i + lane] * x[lane + i * LANES]


@tk.kernel
def too_many_lanes(x: Vector, y: Matrix):
    i, lane = tk.tid()
    y[i, lane] = x[i * 4 + lane] * x[i * 4 + lane]


@tk.kernel
def of_a_block(x: Vector, y: Vector):
    """What lanes read alike; the tile that they load together; one element each."""
    i, lane = tk.tid()
    t = tk.tile_load(x, LANES, LANES * i)
    y[LANES * i + lane] = t[lane] * x[LANES * i + lane]


@tk.kernel
def points_together(x: Vector, w: Vector, y: Vector):
    """Points are lanes of a block here; the tile is one that all blocks load."""
    i = tk.tid()
    total = tk.tile_sum(tk.tile(x[i]) * 2.0)
    y[i] = x[i] * total[0] * tk.tile_sum(tk.tile_load(w, 4))[0]


def vector(n: int) -> np.ndarray[Any, Any]:
    """Small numbers, of which sums and products are exact in float32."""
    return np.random.default_rng(n).integers(-2, 3, n).astype(np.float32)


def matrix(m: int, n: int) -> np.ndarray[Any, Any]:
    return vector(m * n).reshape(m, n)


INDEX = np.array([3, 0, 0, 2, 1, 4, 6], np.int32)

POINTS: dict[str, tuple[Any, tuple[int, ...], list[Any], str]] = {
    "square": (square, (7,), [vector(7), vector(7)], "x: point"),
    "moved": (moved, (7,), [vector(10), vector(7), 3], "x: point"),
    "down": (down, (7,), [vector(10), vector(7), 8], "x: point"),
    "pairs": (pairs, (7,), [vector(21), vector(7)], "x: point"),
    "runs": (runs, (7,), [vector(140), vector(7)], "x: point"),
    "transposed": (transposed, (3, 5), [matrix(5, 3), matrix(3, 5)], "x: point"),
    "skewed": (skewed, (3, 5), [matrix(3, 7), matrix(3, 5)], "x: point"),
    "rows": (rows, (7,), [matrix(7, 5), vector(7), 5], "x: point"),
    "conditions": (conditions, (7,), [matrix(7, 4), vector(7), 4], "x: point"),
    "in place": (in_place, (7,), [vector(7), vector(7)], "x: point, y: point"),
    "from array": (from_array, (7,), [vector(10), INDEX, vector(7)], "x: point"),
    "wide": (wide, (7,), [vector(14), vector(7)], "x: point"),
    "below": (below, (9,), [vector(7), vector(7)], "x: point"),
    "remainder": (remainder, (7,), [vector(4), vector(7)], "x"),
    "halved": (halved, (7,), [vector(4), vector(7)], "x"),
    "neighbours": (neighbours, (7,), [vector(8), vector(7)], "x"),
    "looked up": (looked_up, (7,), [vector(7), INDEX, vector(7)], "x"),
    "opposite": (opposite, (7,), [vector(7), vector(7), 7], "x"),
    "apart": (apart, (7,), [vector(9), vector(7), 0, 2], "x"),
    "one of two": (one_of_two, (3, 5), [vector(3), matrix(3, 5)], "x"),
    "along one": (along_one, (3, 5), [vector(7), matrix(3, 5)], "x"),
    "scaled": (scaled, (7,), [vector(7), vector(7), 0], "x"),
    "wrapped": (wrapped, (7,), [vector(2), vector(7)], "x"),
    "narrow": (narrow, (300,), [vector(256), vector(300)], "x"),
    "cut off": (cut_off, (7,), [vector(2), vector(7)], "x"),
    "too far": (too_far, (3,), [vector(61), vector(3)], "x"),
    "changed": (changed, (4,), [vector(4), INDEX, vector(4)], "x"),
    "points together": (points_together, (7,), [vector(7), vector(4), vector(7)], "w, x: point"),
}
"""Of ``tk.launch``: the grid, the arguments, and the arrays whose gradients are added to, with what owns an element."""

BLOCKS: dict[str, tuple[Any, tuple[int, ...], list[Any], str]] = {
    "tiles": (tiles, (3,), [vector(21), vector(3), vector(21)], "w: block"),
    "overlapping": (overlapping, (3,), [vector(230), vector(180)], "x: block"),
    "triangle": (triangle, (4,), [matrix(4, 9), vector(16)], "x: block"),
    "blocks overlap": (blocks_overlap, (3,), [vector(13), vector(12)], "x"),
    "one element of all": (square, (5, 2), [vector(5), vector(5)], "x"),
    "of elements": (of_elements, (3,), [vector(3), vector(24), vector(24)], "x"),
    "lanes": (lanes, (3,), [vector(24), vector(24)], "x: lane"),
    "too many lanes": (too_many_lanes, (3,), [vector(16), matrix(3, 8)], "x"),
    "of a block": (of_a_block, (3,), [vector(24), vector(24)], "x"),
}
"""The same of ``tk.launch_tiled``, without the arrays that are gathered."""
