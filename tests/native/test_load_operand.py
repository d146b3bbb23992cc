"""Tiles that products read where they lie: the same bits as from a copy, wherever in an array of any strides."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest

M, N, K = 17, 40, 24
DTYPES = {"f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype("f4"), "f64": np.dtype("f8")}
STEPS = f"const i64 sa[] = {{0, {K}}}, sb[] = {{{K}, 0}}; (void)sa; (void)sb;"


def describe(a: Any) -> Any:
    """A pointer to its ``tk::Array``."""
    return (ctypes.c_longlong * 5)(a.ctypes.data, *a.shape, *a.strides)


def longs(values: Any) -> Any:
    return (ctypes.c_longlong * 4)(*values)


def source(kind: str, acc: str) -> str:
    """The product of tiles of two arrays, from operands and from copies; and where an operand lies."""
    code = '#include "gemm.h"\n#include "load_operand.h"\nusing namespace tk;\n'
    code += f"static {kind} ta[{M * K}], tb[{K * N}];\n"
    given = f"const Array<{kind}, 2>* a, const Array<{kind}, 2>* b, const i64* o, {acc}* out"
    at = "const i64 oa[] = {o[0], o[1]}, ob[] = {o[2], o[3]};"
    rest = f"operand<{N}, 1>(out), operand<{N}, 1>(out), Fixed<1>(), Fixed<0>()"
    code += f"""TK_API void in_place({given})
{{
    {at} {STEPS}
    gemm<{M}, {N}, {K}, {acc}>(Team(), load_operand<{kind}>(ta, *a, oa, sa, {M}, {K}),
                               load_operand<{kind}>(tb, *b, ob, sb, {K}, {N}), {rest});
}}
TK_API void copied({given})
{{
    {at}
    load<{kind}, {M}, {K}>(Team(), ta, *a, oa);
    load<{kind}, {K}, {N}>(Team(), tb, *b, ob);
    gemm_plain<{M}, {N}, {K}, {acc}>(Team(), operand<{K}, 1>(ta), operand<{N}, 1>(tb), {rest});
}}
TK_API void place(const Array<{kind}, 2>* a, const i64* o, i64* found)
{{
    const i64 oa[] = {{o[0], o[1]}}; {STEPS}
    const auto x = load_operand<{kind}>(ta, *a, oa, sa, {M}, {K});
    found[0] = x.p == ta ? -1 : (const char*)x.p - (const char*)a->data;
    found[1] = x.row;
    found[2] = x.next ? (const char*)x.next - (const char*)a->data : -1;
}}
"""
    return code


def arrays(dtype: Any, shape: tuple[int, int]) -> dict[str, Any]:
    """One matrix in memory of different strides."""
    rows, columns = shape
    values = np.random.default_rng(rows).standard_normal(shape).astype(dtype)
    wide = np.zeros((rows, columns + 7), dtype)
    places = {
        "dense": np.zeros(shape, dtype),
        "padded": wide[:, :columns],
        "flipped": np.zeros(shape, dtype)[::-1],
        "columns": np.zeros(shape, dtype, order="F"),
        "strided": np.zeros((rows, 2 * columns), dtype)[:, ::2],
        "mirrored": np.zeros(shape, dtype)[:, ::-1],
    }
    for place in places.values():
        place[...] = values
    return places


@pytest.mark.parametrize(("kind", "acc"), [("f32", "f32"), ("f16", "f32"), ("bf16", "f32"), ("f64", "f64")])
def test_a_product_of_operands_has_the_bits_of_one_of_copies(kind: str, acc: str, compiler: str, build: Any) -> None:
    lib = build(source(kind, acc), compiler)
    dtype = DTYPES[kind]
    a, b = arrays(dtype, (40, 60)), arrays(dtype, (60, 100))
    for name in a:
        # Inside; at the last place; over each edge.
        for offset in ((3, 5, 5, 7), (23, 36, 36, 60), (-2, 5, 5, -3), (30, 40, 40, 90), (-50, 0, 0, 0)):
            out, want = np.full((M, N), np.nan, DTYPES[acc]), np.full((M, N), np.nan, DTYPES[acc])
            for function, result in ((lib.in_place, out), (lib.copied, want)):
                function(describe(a[name]), describe(b[name]), longs(offset), ctypes.c_void_p(result.ctypes.data))
            assert out.tobytes() == want.tobytes(), (name, offset)
            assert np.isfinite(out.astype("f8")).all()


def test_where_operands_lie(compiler: str, build: Any) -> None:
    lib = build(source("f32", "f32"), compiler)

    def place(a: Any, row: int, column: int) -> list[int]:
        found = (ctypes.c_longlong * 3)()
        lib.place(describe(a), longs((row, column, 0, 0)), found)
        return list(found)

    places = arrays(np.dtype("f4"), (40, 60))
    # In the array: where, elements between rows, and where the next one lies if that is inside.
    assert place(places["dense"], 3, 5) == [4 * (3 * 60 + 5), 60, 4 * (3 * 60 + 5 + K)]
    assert place(places["dense"], 3, 36) == [4 * (3 * 60 + 36), 60, -1]
    assert place(places["padded"], 0, 0) == [0, 67, 4 * K]
    assert place(places["flipped"], 1, 0) == [-4 * 60, -60, 4 * (K - 60)]
    # A copy.
    uneven = np.lib.stride_tricks.as_strided(np.zeros(2 * 40 * 60, "f4"), (40, 60), (4 * 60 + 2, 4))
    others = [(places[name], 0, 0) for name in ("columns", "strided", "mirrored")]
    for a, row, column in [(places["dense"], -1, 0), (places["dense"], 24, 0), (uneven, 0, 0), *others]:
        assert place(a, row, column) == [-1, K, -1]
