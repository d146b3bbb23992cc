"""Kernels of atoms with what they must give, written in NumPy: for the CPU, the interpreter and GPUs.

The data are small integers, of which every result is exact: which bits an atom gives is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilekit as tk

ptx = tk.ptx


@dataclass(frozen=True)
class Case:
    """A kernel, the arrays it reads, those it writes, and what is in these afterwards."""

    kernel: Any
    inputs: tuple[np.ndarray[Any, Any], ...]
    outputs: tuple[np.ndarray[Any, Any], ...]
    expected: Callable[..., tuple[np.ndarray[Any, Any], ...]]

    @property
    def arguments(self) -> dict[str, Any]:
        return dict(zip(self.kernel.parameters, (*self.inputs, *self.outputs), strict=True))

    def __str__(self) -> str:
        return str(self.kernel.key).rpartition(".")[2]


CASES: list[Case] = []


def integers(*shape: int, dtype: Any = np.float32, start: int = -5) -> np.ndarray[Any, Any]:
    return (np.arange(start, start + int(np.prod(shape))) % 17 - 6).reshape(shape).astype(dtype)


def case(
    *inputs: np.ndarray[Any, Any], out: tuple[int, ...], dtype: Any = np.float32, expected: Callable[..., Any]
) -> Callable[[Any], Any]:
    """Add a kernel of these inputs and one output, which is all -1 before."""

    def add(kernel: Any) -> Any:
        before = np.full(out, -1).astype(dtype)
        CASES.append(Case(kernel, inputs, (before,), lambda *given: (np.asarray(expected(*given)),)))
        return kernel

    return add


def placed(out: np.ndarray[Any, Any], at: Any, values: Any) -> np.ndarray[Any, Any]:
    """A copy of ``out`` with a part replaced."""
    found = out.copy()
    found[at] = values
    return found


def snapshot_expected(a: Any, out: Any) -> Any:
    r = a[2:6, 1:4]
    return placed(out, np.s_[1:5, 0:3], r * r[2, 0] + 1)


@case(integers(8, 6), out=(8, 6), expected=snapshot_expected)
@tk.kernel
def an_element_is_read_once(A: tk.array2d[tk.float32], Out: tk.array2d[tk.float32]):
    r = tk.tile_empty(shape=(4, 3))
    tk.tile_apply(ptx["ld.global.f32"], r, A, offset=(2 + tk.tid(), 1))
    tk.tile_apply(ptx.fma.rn.f32, r, r, r[2, 0], 1.0)
    tk.tile_apply(ptx["st.global.f32"], Out, r, offset=(1, 0))


def gaps_expected(a: Any, out: Any) -> Any:
    r = a.copy()
    r[::2, 1] = r[1::2, 0] * 2 + r[::2, 1]
    return r


@case(integers(8, 6), out=(8, 6), expected=gaps_expected)
@tk.kernel
def tiles_with_gaps(A: tk.array2d[tk.float32], Out: tk.array2d[tk.float32]):
    r = tk.tile_load(A, shape=(8, 6))
    tk.tile_apply("fma.rn.f32", r[::2, 1], r[1::2, 0], 2.0, r[::2, 1])
    tk.tile_store(Out, r)


@case(integers(8), out=(8,), expected=lambda a, out: a[2] * 2 + a)
@tk.kernel
def zero_stride(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
    r = tk.tile_load(A, shape=(8,))
    q = tk.tile_empty(8)
    tk.tile_apply("fma.rn.f32", q, tk.tile_broadcast(r[2:3], (8,)), 2.0, r)
    tk.tile_apply("st.global.f32", Out, q)


@case(integers(140), out=(140,), expected=lambda a, out: a[::-1] * a + 3)
@tk.kernel
def more_repeats_than_threads(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
    r = tk.tile_load(A, shape=(140,))
    q = tk.tile_empty(140)
    tk.tile_apply("fma.rn.f32", q, r[::-1], r, 3.0)
    tk.tile_apply("st.global.f32", Out, q)


@case(integers(8), out=(8,), expected=lambda a, out: np.where(a > 0, a * 2 + 1, out))
@tk.kernel
def a_tile_of_predicates(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
    r = tk.tile_load(A, shape=(8,))
    p = r > 0.0
    tk.tile_apply("fma.rn.f32", r, r, 2.0, 1.0, pred=p, preserve_dst=True)
    tk.tile_apply("st.global.f32", Out, r, pred=p)


def one_predicate_expected(a: Any, out: Any) -> Any:
    return np.where(a[5] > 0, a + a, a)


@case(integers(8), out=(8,), expected=one_predicate_expected)
@tk.kernel
def one_predicate(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
    r = tk.tile_load(A, shape=(8,))
    p = A[5] > 0.0
    tk.tile_apply("add.rn.f32", r, r, r, pred=p, preserve_dst=True)
    tk.tile_apply("mul.rn.f32", r, r, 100.0, pred=False, preserve_dst=True)
    tk.tile_apply("st.global.f32", Out, r, pred=True)
    tk.tile_apply("st.global.f32", Out, r, pred=int(A[0]) - int(A[0]), offset=99)


@case(integers(6), out=(6,), expected=lambda a, out: placed(np.where(np.arange(6) < 4, a, 9), 5, 9))
@tk.kernel
def predicates_exclude_what_is_outside(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
    r = tk.tile_full(8, 9.0)
    e = tk.tile_arange(8, dtype=int)
    tk.tile_apply("ld.global.f32", r, A, pred=e < 4, preserve_dst=True, offset=0)
    tk.tile_apply("ld.global.f32", r, A, pred=e > 9, preserve_dst=True, offset=-50)
    tk.tile_apply("st.global.f32", Out, r, pred=e < 6)


@case(integers(16), out=(16,), expected=lambda a, out: a * a)
@tk.kernel
def two_and_four_at_once(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
    r = tk.tile_empty(16)
    tk.tile_apply("ld.global.v4.f32", r, A)
    tk.tile_apply("mul.rn.f32", r, r, r)
    tk.tile_apply("st.global.v2.f32", Out, r)


def some_wide_expected(a: Any, out: Any) -> Any:
    p = a.reshape(2, 4, 4)[:, :, 0] > -2
    loaded = np.where(np.repeat(p, 4, axis=-1), a, 0)
    return np.where(np.repeat(np.arange(8) % 3 > 0, 2), loaded, out)


@case(integers(2, 16), out=(2, 16), expected=some_wide_expected)
@tk.kernel
def some_at_once(A: tk.array2d[tk.float32], Out: tk.array2d[tk.float32]):
    r = tk.tile_zeros((2, 16))
    firsts = tk.tile_load(A, (2, 16))[:, ::4]
    tk.tile_apply("ld.global.v4.f32", r, A, pred=firsts > -2.0, preserve_dst=True)
    e = tk.tile_broadcast(tk.tile_arange(8, dtype=int), (2, 8))
    tk.tile_apply("st.global.v2.f32", Out, r, pred=e % 3 > 0)


@case(
    integers(8, 2, dtype=np.float16),
    out=(8, 2),
    dtype=np.float16,
    expected=lambda a, out: a * np.array([1, 2], np.float16) + a,
)
@tk.kernel
def pairs_of_halves(A: tk.array2d[tk.float16], Out: tk.array2d[tk.float16]):
    r = tk.tile_load(A, shape=(8, 2))
    p = tk.tile_bitcast(r, tk.uint32)
    tk.tile_apply("fma.rn.f16x2", p, p, tk.pack2(1.0, 2.0, tk.float16), p)
    tk.tile_store(Out, r)


@case(integers(12, dtype=np.float16), out=(12,), dtype=np.float16, expected=lambda a, out: (a * 2 + 1) * 1 + 1)
@tk.kernel
def halves_and_their_bits(A: tk.array1d[tk.float16], Out: tk.array1d[tk.float16]):
    r = tk.tile_load(A, shape=(12,))
    tk.tile_apply("fma.rn.f16", r, r, tk.float16(2.0), 1.0)
    q = tk.tile_bitcast(r, tk.uint16)
    tk.tile_apply("fma.rn.f16", q, q, tk.uint16(0x3C00), 1.0)
    tk.tile_apply("st.global.b16", Out, r)


@case(integers(8, 1), out=(8, 1), expected=lambda a, out: (a * np.arange(8)[:, None] + np.arange(8)[:, None]) * 2 + 1)
@tk.kernel
def a_last_extent_of_one(A: tk.array2d[tk.float32], Out: tk.array2d[tk.float32]):
    r = tk.tile_load(A, shape=(8, 1))
    s = tk.tile_arange(8, dtype=tk.float32)
    tk.tile_apply("fma.rn.f32", r, r, s, s)
    tk.tile_apply("fma.rn.f32", s, r, 2.0, 1.0)
    tk.tile_apply("st.global.f32", Out, tk.tile_reshape(s, (8, 1)))


@case(integers(8), out=(8,), expected=lambda a, out: a)
@tk.kernel
def registers_together_and_apart(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
    r = tk.tile_load(A, shape=(8,))
    w = tk.tile_empty(4, dtype=tk.float64)
    tk.tile_apply("mov.b64", w, r)
    q = tk.tile_empty(8)
    tk.tile_apply("mov.b64", q, w)
    tk.tile_apply("st.global.f32", Out, q)


@case(integers(8), out=(8,), dtype=np.uint32, expected=lambda a, out: a.view(np.uint32))
@tk.kernel
def bits_are_not_converted(A: tk.array1d[tk.float32], Out: tk.array1d[tk.uint32]):
    r = tk.tile_load(A, shape=(8,))
    bits = tk.tile_empty(8, dtype=tk.uint32)
    tk.tile_apply("mov.b32", bits, r)
    tk.tile_apply("st.global.b32", Out, bits)


@case(integers(140), integers(140, start=4), out=(140,), expected=lambda a, b, out: (a * b + a) * b + a)
@tk.kernel
def each_thread_runs_all(A: tk.array1d[tk.float32], B: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
    r = tk.tile_empty(140)
    s = tk.tile_load(B, 140)
    tk.tile_apply("ld.global.f32", r, A, scope="thread")
    t = tk.tile_astype(r, tk.float32)
    tk.tile_apply("fma.rn.f32", r, r, s, t, scope="thread")
    tk.tile_apply("fma.rn.f32", r, r, s, t, scope="thread", pred=True, preserve_dst=True)
    tk.tile_apply("st.global.f32", Out, r, scope="thread")


@case(integers(6, dtype=np.int8), out=(6,), dtype=np.int8, expected=lambda a, out: a)
@tk.kernel
def bytes_are_moved(A: tk.array1d[tk.int8], Out: tk.array1d[tk.int8]):
    r = tk.tile_empty(6, dtype=tk.int8)
    tk.tile_apply("ld.global.s8", r, A)
    tk.tile_apply("st.global.b8", Out, r)


@case(integers(2, 3, 4, dtype=np.float64), out=(2, 3, 4), dtype=np.float64, expected=lambda a, out: a * a - 0.5)
@tk.kernel
def three_axes_of_doubles(A: tk.array3d[tk.float64], Out: tk.array3d[tk.float64]):
    r = tk.tile_empty((2, 3, 4), dtype=tk.float64)
    tk.tile_apply("ld.global.f64", r, A)
    tk.tile_apply("fma.rz.f64", r, r, r, -0.5)
    tk.tile_apply("st.global.f64", Out, r)


@case(integers(4, 8), out=(4, 8), expected=lambda a, out: (2 * a + a) * a - 3)
@tk.kernel
def the_friendly_forms(A: tk.array2d[tk.float32], Out: tk.array2d[tk.float32]):
    r = tk.tile_load(A, shape=(4, 8))
    s = tk.tile_fma(2.0, r, r, rounding="rz")
    tk.tile_store(Out, tk.tile_map(lambda x, y: tk.fma(x, y, -3.0, rounding="rp"), s, r))


def loop_expected(a: Any, out: Any) -> Any:
    r = a.copy()
    for step in range(3):
        r = r + a * step
    return r


@case(integers(40), out=(40,), expected=loop_expected)
@tk.kernel
def in_a_loop(A: tk.array1d[tk.float32], Out: tk.array1d[tk.float32]):
    a = tk.tile_load(A, shape=(40,))
    r = tk.tile_load(A, shape=(40,))
    steps = int(A.shape[0]) // 13
    for step in range(steps):
        tk.tile_apply("fma.rn.f32", r, a, float(step), r)
    tk.tile_apply("st.global.f32", Out, r)
