"""Tiles moved by many threads: the same elements as NumPy's, on the packs' path and on the others, on every device."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.native.cuda_driver import TEAM, THREADS, Described
from tilekit.codegen.layouts.cores import in_turn

TYPES = {"u8": "u1", "i16": "i2", "f32": "f4", "f64": "f8"}
DIMS = [(256,), (1000,), (7, 32), (16, 6), (40, 64), (2, 3, 16), (2, 3, 2, 8)]
SOME = [(t, d) for i, (t, d) in enumerate(itertools.product(TYPES, DIMS)) if i % 3 != 1]


def width(kind: str, dims: tuple[int, ...]) -> int:
    """The elements of a pack."""
    most, found = 16 // np.dtype(TYPES[kind]).itemsize, 1
    while found < most and dims[-1] % (2 * found) == 0:
        found *= 2
    return found


PLACES = """
// The row-major number of what a thread holds in register i, and where that lies in a tile of these strides.
template <class L, int Axis = 0> TK_FN int number(int thread, int i, int above = 0)
{
    if constexpr (Axis == L::rank) return above;
    else {
        const int at = L::template first<Axis>(thread) + L::template further<Axis>(i);
        return number<L, Axis + 1>(thread, i, above * L::Shape::at(Axis) + at);
    }
}
template <int... Dims> TK_FN i64 place(int number, const i64* strides)
{
    i64 found = 0;
    for (int x = sizeof...(Dims) - 1; x >= 0; --x) {
        found += number % Shape<Dims...>::dim(x) * strides[x];
        number /= Shape<Dims...>::dim(x);
    }
    return found;
}
"""


def source() -> str:
    lines = ['#include "registers.h"\n#include "tile.h"\nusing namespace tk;\n', TEAM, PLACES]
    for t, d in SOME:
        n, dims = len(d), ", ".join(map(str, d))
        name = f"{t}_{'x'.join(map(str, d))}"
        offsets = ", ".join(f"o[{i}]" for i in range(n))
        strides = ", ".join(f"s[{i}]" for i in range(n))
        array, tail = f"const Array<{t}, {n}>* a", "const i64* o, const i64* s"
        layout = in_turn(d, THREADS, width(t, d))
        registers = f"typedef {layout.cpp} L; {t} r[L::registers]; "
        run = f"{n - 1}, {width(t, d)}, false"
        each = "for (int i = 0; i < L::registers; ++i) if (L::is_held(team.rank(), i)) "
        place = f"x[place<{dims}>(number<L>(team.rank(), i), s)]"
        for how, const in (("load", ""), ("store", "const ")):
            lines.append(
                f"TK_API void {how}_{name}({const}{t}* x, {array}, {tail}) {{ EACH_MEMBER "
                f"{how}_strided<{t}, {dims}>(team, x, {{{strides}}}, *a, {{{offsets}}}); }} }}\n"
            )
        lines += [
            f"TK_API void copy_{name}({t}* d, const {t}* x, {tail}) "
            f"{{ EACH_MEMBER copy<{t}, {dims}>(team, d, {{{offsets}}}, x, {{{strides}}}); }} }}\n",
            f"TK_API void fill_{name}({t}* d, const {t}* x) "
            f"{{ EACH_MEMBER fill<tile_size<{dims}>>(team, d, *x); }} }}\n",
            f"TK_API void in_{name}({t}* x, {array}, {tail}) {{ EACH_MEMBER {registers}\n"
            f"load_registers<L, {run}, L::registers, {dims}>(team.rank(), r, *a, {{{offsets}}});\n"
            f"{each} {place} = r[i]; }} }}\n",
            f"TK_API void out_{name}(const {t}* x, {array}, {tail}) {{ EACH_MEMBER {registers}\n"
            f"{each} r[i] = {place};\n"
            f"store_registers<L, {run}, {dims}>(team.rank(), r, *a, {{{offsets}}}); }} }}\n",
        ]
    return "".join(lines)


@pytest.fixture
def lib(device_compiler: str, build: Any) -> Any:
    return build(source(), device_compiler, "-O0", "-march=native")  # -O1 takes six times as long to compile


def numbers(kind: str, shape: Any) -> Any:
    return (np.arange(np.prod(shape)) % 251).reshape(shape).astype(TYPES[kind])


def arrays(kind: str, dims: tuple[int, ...]) -> list[Any]:
    """Arrays a little larger than a tile: aligned, misaligned, transposed, strided, flipped, repeated and empty."""
    shape = tuple(2 * d for d in dims)
    base = numbers(kind, shape)
    shifted = numbers(kind, int(np.prod(shape)) + 1)[1:].reshape(shape)
    swapped = np.swapaxes(numbers(kind, (*shape[:-2], *shape[:-3:-1])), -1, -2) if len(shape) > 1 else base
    wide = numbers(kind, (*shape[:-1], 2 * shape[-1]))
    padded = numbers(kind, (*shape[:-1], shape[-1] + 1))[..., :-1]
    views = [base, shifted, swapped, wide[..., ::2], wide[..., : shape[-1]], padded, base[::-1], base[..., ::-1]]
    return [*views, base[:0], np.lib.stride_tricks.as_strided(base, base.shape, (0,) * len(shape))]


def offsets(dims: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Inside, over each edge by a whole pack and by one element, and far away."""
    found = [(0,) * len(dims), tuple(d // 2 * 2 for d in dims)]
    for axis, by in itertools.product(range(len(dims)), (-16, -1, 16, 1)):
        found.append(tuple((dims[x] + by if by > 0 else by) * (x == axis) for x in range(len(dims))))
    return [*found, (2**62,) + (0,) * (len(dims) - 1), (0,) * (len(dims) - 1) + (-(2**62),)]


def part(shape: Any, dims: Any, offset: Any) -> tuple[Any, Any]:
    """The slices of an array and of a tile that lie on each other."""
    low = [min(max(o, 0), n) for o, n in zip(offset, shape, strict=True)]
    high = [max(min(o + d, n), a) for o, d, n, a in zip(offset, dims, shape, low, strict=True)]
    inside = tuple(map(slice, low, high))
    return inside, tuple(slice(a - o, b - o) if b > a else slice(0) for a, b, o in zip(low, high, offset, strict=True))


def tiles(kind: str, dims: tuple[int, ...]) -> list[Any]:
    """Tiles of random contents: dense, misaligned, padded, and strided backwards."""
    size = int(np.prod(dims))
    shifted = numbers(kind, size + 1)[1:].reshape(dims)
    padded = numbers(kind, (*dims[:-1], dims[-1] + 16))[..., : dims[-1]]
    strided = numbers(kind, [2 * d for d in dims])[tuple(slice(None, None, -2) for _ in dims)]
    return [numbers(kind, dims), shifted, padded, strided]


def steps(a: Any) -> Any:
    return np.array(a.strides, np.int64) // a.itemsize


@pytest.mark.parametrize(("kind", "dims"), SOME, ids=str)
def test_move(kind: str, dims: tuple[int, ...], lib: Any, call: Any) -> None:
    name = f"{kind}_{'x'.join(map(str, dims))}"
    for number, (a, offset) in enumerate(itertools.product(arrays(kind, dims), offsets(dims))):
        tile = tiles(kind, dims)[number % 4]
        inside, covered = part(a.shape, dims, offset)
        want = np.zeros(dims, a.dtype)
        want[covered] = a[inside]
        at = np.array(offset, np.int64)
        for how in ("load", "in"):
            tile[...] = 77
            call(lib[f"{how}_{name}"], tile, Described(a), at, steps(tile))
            np.testing.assert_array_equal(tile, want, err_msg=f"{how} {a.strides} {offset}")
        if 0 in a.strides or not a.size:
            continue
        value = numbers(kind, dims)[tuple(slice(None, None, -1) for _ in dims)]
        tile[...] = value
        before = a.copy()
        after = a.copy()
        after[inside] = value[covered]
        for how in ("store", "out"):
            a[...] = before
            call(lib[f"{how}_{name}"], tile, Described(a), at, steps(tile))
            np.testing.assert_array_equal(a, after, err_msg=f"{how} {a.strides} {offset}")
        a[...] = before


@pytest.mark.parametrize(("kind", "dims"), SOME, ids=str)
def test_copy_and_fill(kind: str, dims: tuple[int, ...], lib: Any, call: Any) -> None:
    name = f"{kind}_{'x'.join(map(str, dims))}"
    for to, source_tile in itertools.product(tiles(kind, dims), tiles(kind, dims)):
        want = np.ascontiguousarray(source_tile[..., ::-1])
        source_tile[...] = want
        call(lib[f"copy_{name}"], to, source_tile, steps(to), steps(source_tile))
        np.testing.assert_array_equal(to, want)
    for tile in tiles(kind, dims)[:2]:
        around = tile.base if tile.base is not None else tile
        before = around.copy()
        call(lib[f"fill_{name}"], tile, np.array([9], TYPES[kind]))
        assert (tile == 9).all()
        np.testing.assert_array_equal(around.ravel()[: -tile.size], before.ravel()[: -tile.size])
