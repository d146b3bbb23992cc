"""Tile loads, stores and copies against NumPy; atomics against plain arithmetic and from many threads; reductions."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.native.cuda_driver import ONE_THREAD, SHARED, THREADS, Described

DIMS = [(7,), (3, 5), (2, 3, 4), (2, 2, 3, 5)]
KINDS = {"u8": np.uint8, "f32": np.float32}


def source() -> str:
    lines = ['#include "tile.h"\n#include "atomic.h"\n#include "reduce.h"\nusing namespace tk;\n']
    for t in KINDS:
        for d in DIMS:
            n, dims = len(d), ", ".join(map(str, d))
            name = f"{t}_{'x'.join(map(str, d))}"
            offsets = ", ".join(f"o[{i}]" for i in range(n))
            strides = ", ".join(f"s[{i}]" for i in range(n))
            array, tail = f"const Array<{t}, {n}>* a", "const i64* o, const i64* s"
            lines += [
                f"TK_API void load_{name}({t}* tile, {array}, const i64* o) "
                f"{{ load<{t}, {dims}>(Team(), tile, *a, {{{offsets}}}); }}\n",
                f"TK_API void store_{name}(const {t}* tile, {array}, const i64* o) "
                f"{{ store<{t}, {dims}>(Team(), tile, *a, {{{offsets}}}); }}\n",
                f"TK_API void load_strided_{name}({t}* tile, {array}, {tail}) "
                f"{{ load_strided<{t}, {dims}>(Team(), tile, {{{strides}}}, *a, {{{offsets}}}); }}\n",
                f"TK_API void store_strided_{name}(const {t}* tile, {array}, {tail}) "
                f"{{ store_strided<{t}, {dims}>(Team(), tile, {{{strides}}}, *a, {{{offsets}}}); }}\n",
                f"TK_API void copy_{name}({t}* d, const {t}* x, const i64* o, const i64* s) "
                f"{{ copy<{t}, {dims}>(Team(), d, {{{offsets}}}, x, {{{strides}}}); }}\n",
            ]
    return "".join(lines)


def arrays(kind: str, rank: int) -> list[Any]:
    """Views with positive, negative, zero, odd and permuted strides."""
    rng = np.random.default_rng(rank)
    base = (rng.standard_normal((6, 9, 5, 8)[:rank]) * 50).astype(KINDS[kind])
    wide = np.repeat(base, 2, axis=-1)
    empty = base[:0]
    views = [base, base[::-1, ...], wide[..., ::2], np.asfortranarray(base), base[..., ::-1], empty]
    return [*views, np.lib.stride_tricks.as_strided(base, base.shape, (0,) * rank)]


def expected_tile(a: Any, dims: Any, offset: Any) -> Any:
    tile = np.zeros(dims, a.dtype)
    for index in np.ndindex(*dims):
        at = tuple(i + o for i, o in zip(index, offset, strict=True))
        if all(0 <= p < n for p, n in zip(at, a.shape, strict=True)):
            tile[index] = a[at]
    return tile


def offsets(rank: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(rank)
    found = [tuple(int(v) for v in rng.integers(-6, 9, rank)) for _ in range(12)]
    huge = [2**63 - 1, -(2**63), 2**62, -(2**62), 2**32, -(2**32)]
    return [(0,) * rank, *found, *[(v,) + (0,) * (rank - 1) for v in huge], *[(0,) * (rank - 1) + (v,) for v in huge]]


@pytest.fixture
def lib(device_compiler: str, build: Any) -> Any:
    return build(source(), device_compiler, "-O2", "-march=native")


def steps(a: Any) -> Any:
    return np.array(a.strides, np.int64) // a.itemsize


@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_load_and_store(kind: str, dims: tuple[int, ...], lib: Any, call: Any) -> None:
    name = f"{kind}_{'x'.join(map(str, dims))}"
    dense = np.empty(dims, KINDS[kind])
    padded = np.zeros([2 * d for d in dims], KINDS[kind])[tuple(slice(None, None, -2) for _ in dims)]
    for a in arrays(kind, len(dims)):
        for offset in offsets(len(dims)):
            want, start = expected_tile(a, dims, offset), np.array(offset, np.int64)
            call(lib[f"load_{name}"], dense, Described(a), start)
            np.testing.assert_array_equal(dense, want)
            call(lib[f"load_strided_{name}"], padded, Described(a), start, steps(padded))
            np.testing.assert_array_equal(padded, want)
            if 0 in a.strides:
                continue
            after, again = a.copy(order="K"), a.copy(order="K")
            value = np.arange(dense.size).reshape(dims).astype(KINDS[kind])
            padded[...] = value
            check = a.copy()
            for index in np.ndindex(*dims):
                at = tuple(i + o for i, o in zip(index, offset, strict=True))
                if all(0 <= p < n for p, n in zip(at, a.shape, strict=True)):
                    check[at] = value[index]
            call(lib[f"store_{name}"], value, Described(after), start)
            call(lib[f"store_strided_{name}"], padded, Described(again), start, steps(padded))
            np.testing.assert_array_equal(after, check)
            np.testing.assert_array_equal(again, check)


@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_copy(dims: tuple[int, ...], lib: Any, call: Any) -> None:
    source_tile = np.arange(np.prod(dims), dtype="f4").reshape(dims)[tuple(slice(None, None, -1) for _ in dims)]
    target = np.zeros(dims[::-1], "f4").T
    name = f"copy_f32_{'x'.join(map(str, dims))}"
    call(lib[name], target, source_tile, steps(target), steps(source_tile))
    np.testing.assert_array_equal(target, source_tile)


ATOMIC = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8"}
FLOATING = {"f16": "f2", "bf16": ml_dtypes.bfloat16, "f32": "f4", "f64": "f8"}


def atomic_source() -> str:
    lines = ['#include "atomic.h"\nusing namespace tk;\n', ONE_THREAD]
    for t in [*ATOMIC, *FLOATING]:
        for op in ("add", "min", "max", "exch", *(("and", "or", "xor") if t in ATOMIC else ())):
            lines.append(
                f"TK_API void {op}_{t}({t}* p, const {t}* v, {t}* old, i64 n) "
                f"{{ ONE_THREAD for (i64 i = 0; i < n; ++i) old[i] = atomic_{op}(p, v[i]); }}\n"
            )
        lines.append(
            f"TK_API void cas_{t}({t}* p, const {t}* v, {t}* old) {{ ONE_THREAD *old = atomic_cas(p, v[0], v[1]); }}\n"
        )
    return "".join(lines)


@pytest.mark.parametrize("kind", [*ATOMIC, *FLOATING])
def test_atomics_return_the_old_value(kind: str, device_compiler: str, build: Any, call: Any) -> None:
    lib = build(atomic_source(), device_compiler, "-O2", "-march=native")
    dtype = np.dtype({**ATOMIC, **FLOATING}[kind])
    values = np.array([3, 1, 7, 7, 2, 100], dtype)
    rules: dict[str, Any] = {"add": np.add, "min": np.minimum, "max": np.maximum, "exch": lambda _, v: v}
    if kind in ATOMIC:
        rules |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    for name, rule in rules.items():
        cell, old = np.array([5], dtype), np.empty_like(values)
        call(lib[f"{name}_{kind}"], cell, values, old, len(values))
        state = np.array([5], dtype)
        for v, o in zip(values, old, strict=True):
            assert o == state[0], name
            state = rule(state, np.array([v])).astype(dtype)
        assert cell[0] == state[0]
    cell, old = np.array([5], dtype), np.empty(1, dtype)
    call(lib[f"cas_{kind}"], cell, np.array([5, 9], dtype), old)
    assert (old[0], cell[0]) == (5, 9)
    call(lib[f"cas_{kind}"], cell, np.array([5, 1], dtype), old)
    assert (old[0], cell[0]) == (9, 9)


@pytest.mark.parametrize("kind", ["u8", "i64", "f16", "f32", "f64"])
def test_atomic_adds_from_threads_lose_nothing(kind: str, compiler: str, build: Any, call: Any) -> None:
    lib = build(atomic_source(), compiler, "-O2", "-march=native")
    dtype = np.dtype({**ATOMIC, **FLOATING}[kind])
    count = 400 if kind == "f16" else 200_000
    cell, ones = np.zeros(1, dtype), np.ones(count, dtype)
    threads = [
        threading.Thread(target=call, args=(lib[f"add_{kind}"], cell, ones, np.empty_like(ones), count))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cell[0] == np.array([4 * count]).astype(dtype)[0]


REDUCED = {"i32": ("i32", "i4"), "f32": ("f32", "f4"), "f64": ("f64", "f8"), "f16": ("f32", "f2")}
REDUCED_DIMS = [(1,), (33,), (200,), (40, 48), (3, 34, 2)]

OPERATIONS = {"Sum": np.add, "Min": np.fmin, "Max": np.fmax}


def reduce_source() -> str:
    lines = ['#include "reduce.h"\nusing namespace tk;\n', SHARED]
    for t, (acc, _) in REDUCED.items():
        for d in REDUCED_DIMS:
            dims, n = ", ".join(map(str, d)), len(d)
            strides = ", ".join(f"s[{i}]" for i in range(n))
            into = ", ".join(f"o[{i}]" for i in range(n))
            for op in OPERATIONS if t == "f32" else ("Sum",):
                name = f"{op}_{t}_{'x'.join(map(str, d))}"
                lines.append(
                    f"TK_API void all_{name}(const {t}* x, const i64* s, {acc}* y) {{ SHARED {acc} scratch[kLanes]; "
                    f"const BlockTeam<{THREADS}> team; y[team.rank()] = "
                    f"reduce_all<{t}, {acc}, {op}, {dims}>(team, x, {{{strides}}}, {op}(), scratch); }}\n"
                )
                lines += [
                    f"TK_API void axis{x}_{name}(const {t}* x, const i64* s, {acc}* y, const i64* o) {{\n"
                    f"reduce_axis<{x}, {t}, {acc}, {acc}, {op}, {dims}>(BlockTeam<{THREADS}>(), y, {{{into}}}, "
                    f"x, {{{strides}}}, {op}()); }}\n"
                    for x in range(n)
                ]
    return "".join(lines)


def in_fixed_order(values: Any, combine: Any) -> Any:
    """The documented order, element by element."""
    lanes = list(values[:32])
    for e in range(32, len(values)):
        lanes[e % 32] = combine(lanes[e % 32], values[e])
    for half in (16, 8, 4, 2, 1):
        for i in range(half):
            if i + half < len(lanes):
                lanes[i] = combine(lanes[i], lanes[i + half])
    return lanes[0]


@pytest.mark.parametrize("dims", REDUCED_DIMS, ids=str)
@pytest.mark.parametrize("kind", REDUCED)
def test_reductions_keep_their_order(
    kind: str, dims: tuple[int, ...], device_compiler: str, build: Any, call: Any
) -> None:
    lib = build(reduce_source(), device_compiler, "-O0", "-march=native")
    members = THREADS if device_compiler == "cuda" else 1
    acc = np.dtype(REDUCED[REDUCED[kind][0]][1])
    x = (np.random.default_rng(0).standard_normal(dims) * 100).astype(REDUCED[kind][1])
    transposed = np.asfortranarray(x)
    for op, combine in (OPERATIONS if kind == "f32" else {"Sum": np.add}).items():
        name = f"{op}_{kind}_{'x'.join(map(str, dims))}"
        for view in (x, transposed):
            out = np.empty(THREADS, acc)
            call(lib[f"all_{name}"], view, steps(view), out)
            assert (out[:members] == in_fixed_order(x.ravel().astype(acc), combine)).all(), (op, "all")
            for axis in range(len(dims)):
                want = np.apply_along_axis(lambda v: in_fixed_order(v, combine), axis, x.astype(acc))  # noqa: B023
                result = np.empty(np.delete(dims, axis), acc)
                into = np.insert(steps(result), axis, 0)
                call(lib[f"axis{axis}_{name}"], view, steps(view), result, into)
                np.testing.assert_array_equal(result, want)


def test_first_error_wins(device_compiler: str, build: Any, call: Any) -> None:
    code = '#include "base.h"\nusing namespace tk;\n' + ONE_THREAD
    code += "TK_API void check(Error* e, i64 i, i64 n, i64 line, u8* ok) "
    code += "{ ONE_THREAD *ok = check_index(e, i, n, 1, (i32)line, 42, 3, 4); }\n"
    lib = build(code, device_compiler, "-O2")
    error = np.zeros(1, np.dtype("i4,i4,i8,i8,i8,i4,i4,i4,i4"))
    ok = np.empty(1, np.uint8)
    for index, extent, good in ((0, 5, 1), (4, 5, 1), (5, 5, 0), (-1, 5, 0), (0, 0, 0)):
        call(lib.check, error, index, extent, 100 + index, ok)
        assert ok[0] == good
    assert error[0].tolist() == (1, 105, 42, 5, 5, 1, 3, 4, 1)
    call(lib.check, 0, 9, 5, 1, ok)  # no record: still skipped
    assert ok[0] == 0
