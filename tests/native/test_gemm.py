"""The tile product: every path gives the bits of its definition, for any shape, strides, types, alpha and beta."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.native.cuda_driver import TEAM

TYPES = {"f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype("f4"), "f64": np.dtype("f8")}
SHAPES = [(1, 1, 1), (7, 5, 3), (6, 16, 8), (65, 33, 8), (13, 40, 300), (150, 24, 70), (64, 64, 32), (50, 17, 530)]
# Element strides of an r x c operand.
LAYOUTS = {
    "rows": lambda r, c: (c, 1),
    "columns": lambda r, c: (1, r),
    "padded": lambda r, c: (c + 3, 1),
    "strided": lambda r, c: (2 * c, 2),
    "flipped": lambda r, c: (-c, -1),
    "one_row": lambda r, c: (0, 1),
    "one_column": lambda r, c: (1, 0),
}
Case = tuple[tuple[int, int, int], str, tuple[str, str, str, str], tuple[str, str, str]]


def cases() -> list[Case]:
    """Shape, accumulator, types of a b c out, layouts of a b c (out is as c)."""
    plain = ("rows", "rows", "rows")
    found: list[Case] = [(s, t, (t,) * 4, plain) for s, t in itertools.product(SHAPES, ("f32", "f64"))]
    for i, (la, lb) in enumerate(itertools.product(LAYOUTS, LAYOUTS)):
        lc = ("rows", "columns", "padded", "strided", "flipped")[i % 5]
        found.append((SHAPES[i % len(SHAPES)], "f32", ("f32",) * 4, (la, lb, lc)))
    for i, (ta, tb) in enumerate(itertools.product(TYPES, TYPES)):
        tc, to = list(TYPES)[i % 4], list(TYPES)[(i // 2) % 4]
        layouts = (("rows", "columns")[i % 2], ("columns", "rows", "strided")[i % 3], "padded")
        found.append((SHAPES[(i + 3) % len(SHAPES)], ("f32", "f64")[i // 3 % 2], (ta, tb, tc, to), layouts))
    found += [((96, 48, 64), "f32", ("f16", "f16", "f32", "f32"), plain)]
    found += [((96, 48, 64), "f32", ("bf16", "bf16", "bf16", "bf16"), ("rows", "columns", "rows"))]
    return found


NAMES = ("gemm", "members", "gemm_plain")
"""The product by the device's plain team, by the members of a block, and by definition."""
CASES = cases()
QUICK = [*enumerate(CASES)][4:16:2] + [*enumerate(CASES)][17:65:10] + [*enumerate(CASES)][65::4]


def source(some: list[tuple[int, Case]]) -> str:
    lines = ['#include "gemm.h"\nusing namespace tk;\n', TEAM]
    for number, ((m, n, k), acc, (ta, tb, tc, to), (la, lb, lc)) in some:
        strides = [*LAYOUTS[la](m, k), *LAYOUTS[lb](k, n), *LAYOUTS[lc](m, n), *LAYOUTS[lc](m, n)]
        operands = ", ".join(
            f"operand<{strides[2 * i]}, {strides[2 * i + 1]}>({name})" for i, name in enumerate(("a", "b", "c", "out"))
        )
        for name in NAMES:
            called, team = ("gemm", "team") if name == "members" else (name, "Team()")
            lines.append(
                f"TK_API void {name}{number}(const {ta}* a, const {tb}* b, const {tc}* c, {to}* out, f64 x, f64 y)\n"
                f"{{ {'EACH_MEMBER' if name == 'members' else '{'} "
                f"{called}<{m}, {n}, {k}, {acc}>({team}, {operands}, ({acc})x, ({acc})y); }} }}\n"
            )
    return "".join(lines)


class Storage:
    """Random memory around an operand of these element strides, and the address of its element (0, 0)."""

    def __init__(self, rng: Any, dtype: Any, shape: tuple[int, int], strides: tuple[int, int]) -> None:
        span = [(d - 1) * s for d, s in zip(shape, strides, strict=True)]
        self.before = -sum(min(v, 0) for v in span)
        self.memory = rng.standard_normal(self.before + sum(max(v, 0) for v in span) + 1).astype(dtype)
        self.shape, self.strides = shape, strides

    @property
    def start(self) -> Any:
        return self.memory[self.before :]

    def view(self, memory: Any) -> Any:
        strides = tuple(s * memory.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(memory[self.before :], self.shape, strides)


def check_cases(some: list[tuple[int, Case]], compiler: str, build: Any, call: Any) -> None:
    lib = build(source(some), compiler)
    for number, (shape, acc, types, layouts) in some:
        check(lib, call, number, shape, acc, types, layouts)


def test_every_path_gives_the_bits_of_the_definition(device_compiler: str, build: Any, call: Any) -> None:
    check_cases(QUICK, device_compiler, build, call)


@pytest.mark.deep
@pytest.mark.parametrize("group", range(6))
def test_all_shapes_types_and_layouts(group: int, device_compiler: str, build: Any, call: Any) -> None:
    check_cases(list(enumerate(CASES))[group::6], device_compiler, build, call)


def check(lib: Any, call: Any, number: int, shape: Any, acc: str, types: Any, layouts: Any) -> None:
    m, n, k = shape
    rng = np.random.default_rng(number)
    dims = ((m, k), (k, n), (m, n), (m, n))
    operands = [
        Storage(rng, TYPES[t], d, LAYOUTS[name](*d))
        for t, d, name in zip(types, dims, (*layouts, layouts[2]), strict=True)
    ]
    a, b, c, out = operands
    for alpha, beta in ((1.0, 1.0), (1.0, 0.0), (0.5, -1.25)):
        results = []
        if beta == 0:
            c.memory[:] = np.nan
        for name in NAMES:
            memory = out.memory.copy()
            call(lib[f"{name}{number}"], a.start, b.start, c.start, memory[out.before :], alpha, beta)
            results.append(memory)
        bits = {memory.tobytes() for memory in results}
        assert len(bits) == 1, (shape, acc, types, layouts, alpha, beta)
        if beta == 0:
            c.memory[:] = rng.standard_normal(c.memory.size).astype(TYPES[types[2]])
            continue
        wide = [s.view(s.memory).astype(np.float64) for s in operands]
        want = alpha * wide[0] @ wide[1] + beta * wide[2]
        tolerance = {"f16": 4e-3, "bf16": 3e-2, "f32": 1e-4, "f64": 1e-4}[types[3]]
        np.testing.assert_allclose(out.view(results[0]).astype(np.float64), want, rtol=tolerance, atol=tolerance * k)
    reuses_c = types[2] == types[3]
    for name in NAMES[:2] if reuses_c else ():  # in place
        memory = c.memory.copy()
        call(lib[f"{name}{number}"], a.start, b.start, memory[c.before :], memory[c.before :], 0.5, -1.25)
        separate = c.memory.copy()
        call(lib[f"{name}{number}"], a.start, b.start, c.start, separate[c.before :], 0.5, -1.25)
        assert memory.tobytes() == separate.tobytes()


def test_infinities_and_nans_spread_only_where_they_are_used(device_compiler: str, build: Any, call: Any) -> None:
    code = '#include "gemm.h"\nusing namespace tk;\n'
    code += "TK_API void run(const f32* a, const f32* b, const f32* c, f32* out)\n"
    code += (
        "{ gemm<9, 21, 6, f32>(Team(), operand<6, 1>(a), operand<21, 1>(b), operand<21, 1>(c), operand<21, 1>(out), "
    )
    code += "1.0f, 0.0f); }"
    lib = build(code, device_compiler)
    a, b, out = np.ones((9, 6), "f4"), np.ones((6, 21), "f4"), np.full((9, 21), np.nan, "f4")
    a[3, 2], b[1, 20] = np.nan, np.inf
    call(lib.run, a, b, 0, out)
    want = np.full((9, 21), 6, "f4")
    want[:, 20] = np.inf
    want[3] = np.nan
    np.testing.assert_array_equal(out, want)


def products(compiler: str, build: Any, call: Any) -> bytes:
    lib = build(source(QUICK), compiler)
    collected = b""
    for number, ((m, n, k), _, types, layouts) in QUICK:
        rng = np.random.default_rng(number)
        dims = ((m, k), (k, n), (m, n))
        a, b, c = (
            Storage(rng, TYPES[t], d, LAYOUTS[name](*d)) for t, d, name in zip(types, dims, layouts, strict=False)
        )
        out = np.zeros(c.memory.size, TYPES[types[3]])
        call(lib[f"gemm{number}"], a.start, b.start, c.start, out[c.before :], 0.5, -1.25)
        collected += out.tobytes()
    return collected


def test_same_bits_from_every_compiler(compilers: dict[str, list[str]], build: Any, call: Any) -> None:
    assert len({products(compiler, build, call) for compiler in compilers}) == 1


@pytest.mark.gpu
def test_same_bits_on_cuda(compilers: dict[str, list[str]], build: Any, call: Any) -> None:
    assert products("cuda", build, call) == products(next(iter(compilers)), build, call)


@pytest.mark.parametrize("acc", ["f32", "f64"])
def test_fixed_factors_give_the_bits_of_the_numbers(acc: str, device_compiler: str, build: Any, call: Any) -> None:
    m, n, k = 14, 37, 21
    operands = f"operand<{k}, 1>(a), operand<{n}, 1>(b), operand<{n}, 1>(c), operand<{n}, 1>(out)"
    code = '#include "gemm.h"\nusing namespace tk;\n'
    factors = {"one_one": "Fixed<1>(), Fixed<1>()", "one_zero": "Fixed<1>(), Fixed<0>()", "number_one": "x, Fixed<1>()"}
    for name, given in {**factors, "numbers": "x, y"}.items():
        code += f"TK_API void {name}(const {acc}* a, const {acc}* b, const {acc}* c, {acc}* out, f64 s, f64 t)\n"
        code += f"{{ const {acc} x = ({acc})s, y = ({acc})t; (void)x; (void)y;\n"
        code += f"  gemm<{m}, {n}, {k}, {acc}>(Team(), {operands}, {given}); }}\n"
    lib = build(code, device_compiler)
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(shape).astype(TYPES[acc]) for shape in ((m, k), (k, n), (m, n)))
    for name, alpha, beta in (("one_one", 1.0, 1.0), ("one_zero", 1.0, 0.0), ("number_one", -0.3, 1.0)):
        out, want = np.full_like(c, np.nan), np.full_like(c, np.nan)
        call(lib[name], a, b, c, out, alpha, beta)
        call(lib.numbers, a, b, c, want, alpha, beta)
        assert out.tobytes() == want.tobytes(), name
        assert np.isfinite(out).all()


WHOLE = {"i8": np.dtype("i1"), "u8": np.dtype("u1"), "i32": np.dtype("i4")}
WHOLE_CASES: list[tuple[int, Case]] = [
    (i, (shape, "u32", (a, b, "i32", "i32"), layouts))
    for i, (shape, (a, b), layouts) in enumerate(
        zip(
            SHAPES,
            itertools.islice(itertools.cycle(itertools.product(WHOLE, WHOLE)), len(SHAPES)),
            itertools.cycle(
                [("rows", "rows", "rows"), ("columns", "strided", "padded"), ("flipped", "columns", "columns")]
            ),
            strict=False,
        )
    )
]


def test_integers_wrap_on_every_path(device_compiler: str, build: Any, call: Any) -> None:
    lib = build(source(WHOLE_CASES).replace("f64 x, f64 y", "i32 x, i32 y"), device_compiler)
    for number, (shape, _, types, layouts) in WHOLE_CASES:
        (m, n, k), rng = shape, np.random.default_rng(number)
        operands = []
        for t, d, name in zip(types, ((m, k), (k, n), (m, n), (m, n)), (*layouts, layouts[2]), strict=True):
            held = Storage(rng, np.float64, d, LAYOUTS[name](*d))
            limits = np.iinfo(WHOLE[t])
            held.memory = rng.integers(limits.min, limits.max, held.memory.size, WHOLE[t], endpoint=True)
            operands.append(held)
        a, b, c, out = operands
        wide = [s.view(s.memory).astype(np.int64) for s in (a, b, c)]
        for name, (alpha, beta) in itertools.product(NAMES, ((1, 1), (-3, 0), (2**31 - 1, -5))):
            call(lib[f"{name}{number}"], a.start, b.start, c.start, out.start, alpha, beta)
            want = (alpha * (wide[0] @ wide[1]) + beta * wide[2]).astype(np.int32)
            assert np.array_equal(out.view(out.memory), want), (shape, types, name, alpha, beta)
