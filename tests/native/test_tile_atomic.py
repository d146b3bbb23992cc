"""A tile added to an array atomically, by the members of a block and by one thread."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.native.cuda_driver import TEAM, Described

TYPES = {"u8": "u1", "i32": "i4", "f16": "f2", "bf16": ml_dtypes.bfloat16, "f32": "f4", "f64": "f8"}
DIMS = [(24,), (6, 16), (2, 3, 8), (3, 5)]


def source() -> str:
    lines = ['#include "tile_atomic.h"\nusing namespace tk;\n', TEAM]
    for t, d in itertools.product(TYPES, DIMS):
        n, dims = len(d), ", ".join(map(str, d))
        name = f"{t}_{'x'.join(map(str, d))}"
        offsets, strides = (", ".join(f"{v}[{i}]" for i in range(n)) for v in "os")
        tail = f"const Array<{t}, {n}>* a, const i64* o, const i64* s"
        for how, team in (("members", "team"), ("team", "Team()")):
            start = "EACH_MEMBER" if how == "members" else "{"
            lines += [
                f"TK_API void {how}_{name}(const {t}* x, {tail}) {{ {start} "
                f"tile_atomic_add<{t}, {dims}>({team}, x, {{{strides}}}, *a, {{{offsets}}}); }} }}\n",
            ]
    return "".join(lines)


def arrays(kind: str, dims: tuple[int, ...]) -> list[Any]:
    shape = tuple(2 * d for d in dims)
    dtype = np.dtype(TYPES[kind])
    base = np.random.default_rng(0).integers(0, 99, (*shape[:-1], shape[-1] + 1)).astype(dtype)
    return [np.ascontiguousarray(base[..., :-1]), base[..., 1:], np.ascontiguousarray(base[..., :-1])[::-1]]


@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("kind", TYPES)
def test_adds_inside(kind: str, dims: tuple[int, ...], device_compiler: str, build: Any, call: Any) -> None:
    lib = build(source(), device_compiler, "-O1", "-march=native")
    name = f"{kind}_{'x'.join(map(str, dims))}"
    tile = np.random.default_rng(1).integers(0, 50, dims).astype(TYPES[kind])
    steps = np.array(tile.strides, np.int64) // tile.itemsize
    offsets = [(0,) * len(dims), (8,) * len(dims), (-8,) * len(dims), (-1,) * len(dims), (2**40,) * len(dims)]
    for a, offset, how in itertools.product(arrays(kind, dims), offsets, ("members", "team")):
        want = a.copy()
        for index in np.ndindex(*dims):
            at = tuple(i + o for i, o in zip(index, offset, strict=True))
            if all(0 <= p < n for p, n in zip(at, a.shape, strict=True)):
                want[at] = a[at] + tile[index]
        start = a.copy()
        call(lib[f"{how}_{name}"], tile, Described(a), np.array(offset, np.int64), steps)
        np.testing.assert_array_equal(a, want)
        a[...] = start
