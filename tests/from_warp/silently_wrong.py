"""Rows of the first table: where Warp is silently wrong."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

import tilekit as tk
from tests.from_warp.rows import A, row, run

wp = pytest.importorskip("warp")


@row("`t @ u` of two tiles multiplies element by element")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(4, 4))
        tk.tile_store(out, t @ t)

    assert np.array_equal(run(k, A, size=(4, 4)), A @ A)


@row("`tile_matmul(a, b, a)` gives wrong values without a diagnostic")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(4, 4))
        tk.tile_matmul(t, t, t)
        tk.tile_store(out, t)

    with pytest.raises(tk.errors.TilekitError, match=r"(?s)line \d+"):
        run(k, A, size=(4, 4))


@row("`tile_matmul` into a `tile_empty` with `beta=1` reads stale memory")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(4, 4))
        acc = tk.tile_empty(shape=(4, 4), dtype=float)
        tk.tile_matmul(t, t, acc)
        tk.tile_store(out, acc)

    with pytest.raises(tk.errors.UninitializedError):
        run(k, A, size=(4, 4))


@row("float16 tiles accumulate a product in float16 where `out` is float16")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[tk.float16], out: tk.array2d[tk.float16]):
        t = tk.tile_load(a, shape=(1, 2048))
        acc = tk.tile_zeros(shape=(1, 1), dtype=tk.float16)
        tk.tile_matmul(t, tk.tile_transpose(t), acc)
        tk.tile_store(out, acc)

    ones = np.full((1, 2048), 1.001, np.float16)
    exact = (ones.astype(np.float64) ** 2).sum()
    assert run(k, ones, size=(1, 1), dtype=np.float16)[0, 0] == np.float16(exact)


@row("float64 tiles multiplied into a float32 `out` are summed in float32")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[tk.float64], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(1, 4))
        acc = tk.tile_zeros(shape=(1, 1), dtype=float)
        tk.tile_matmul(t, tk.tile_ones(shape=(4, 1), dtype=tk.float64), acc)
        tk.tile_store(out, acc)

    a = np.array([[1, 2.0**-30, -1, 2.0**-40]])
    assert run(k, a, size=(1, 1))[0, 0] == 2.0**-30 + 2.0**-40


@row("`tile_load` at a negative offset reads memory before the array")
def _() -> None:
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_load(a, shape=4, offset=-2))
        tk.tile_store(out, tk.tile_full(shape=2, value=9.0), offset=-2)

    assert run(k, np.array([5, 6, 7, 8], np.float32)).tolist() == [0, 0, 5, 6]


@row("an index outside an array reads or writes other memory")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        out[n] = 1.0

    with pytest.raises(IndexError):
        run(k, 7)


@row("writing one element of a `tile_broadcast` changes all its repeats")
def _() -> None:
    @tk.kernel
    def k(out: tk.array2d[float]):
        t = tk.tile_zeros(shape=(1, 3), dtype=float)
        b = tk.tile_broadcast(t, shape=(2, 3))
        b[0, 1] = 5.0
        tk.tile_store(out, b)

    line = k.function.__code__.co_firstlineno
    with pytest.raises(TypeError, match=f"tile_broadcast made at line {line + 3} repeats elements") as caught:
        run(k, size=(2, 3))
    assert caught.value.location.line == line + 4


@row("`t < u` of two tiles is one bool")
def _() -> None:
    @tk.kernel
    def elements(a: tk.array1d[float], out: tk.array1d[int]):
        t = tk.tile_load(a, shape=4)
        tk.tile_store(out, tk.tile_astype(t < 2.0, int))

    @tk.kernel
    def condition(a: tk.array1d[float], out: tk.array1d[int]):
        t = tk.tile_load(a, shape=4)
        if t < 2.0:
            out[0] = 1

    assert run(elements, A[0], dtype=np.int32).tolist() == [1, 1, 0, 0]
    with pytest.raises(TypeError, match="no truth value"):
        run(condition, A[0], dtype=np.int32)


@row("a tile operation under a per-lane condition has no diagnostic")
def _() -> None:
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[float]):
        i, lane = tk.tid()
        if lane > 0:
            tk.tile_store(out, tk.tile_load(a, shape=4))

    with pytest.raises(tk.errors.TilekitError, match="lane"):
        run(k, A[0])


@row("a tile operation whose offset or number differs between lanes: no diagnostic")
def _() -> None:
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[float]):
        _i, lane = tk.tid()
        tk.tile_store(out, tk.tile_load(a, shape=4, offset=lane))

    with pytest.raises(tk.errors.TilekitError, match="lane"):
        run(k, A[0])


@row("`a[i] += 1` in a tiled kernel counts once on the CPU, `block_dim` times on CUDA")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        out[0] += 1.0

    assert run(k, dim=3, block_dim=32)[0] == 3.0


@row("`block_dim` is 1 on the CPU, whatever was asked for")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        i, lane = tk.tid()
        tk.tile_store(out, tk.tile_sum(tk.tile(float(lane))))

    assert run(k, block_dim=16)[0] == sum(range(16))


@row("`np.sin(x)` in a kernel is taken for `wp.sin(x)` by its name")
def _() -> None:
    @tk.kernel
    def k(x: float, out: tk.array1d[float]):
        out[0] = np.sin(x)

    with pytest.raises(TypeError, match=r"use tk\.sin"):
        run(k, 1.0)


@row("`int(x)` of a float that does not fit, or of NaN, is undefined")
def _() -> None:
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[int]):
        i = tk.tid()
        out[i] = int(a[i])

    given = np.array([3e9, -3e9, np.nan, -2.7], np.float32)
    assert run(k, given, dim=4, dtype=np.int32).tolist() == [2**31 - 1, -(2**31), 0, -2]


@row("shifts by the width or more are undefined")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[int]):
        out[0] = n << 40
        out[1] = -n >> 40

    assert run(k, 3, dtype=np.int32)[:2].tolist() == [0, -1]


@row("`min` and `max` with a NaN depend on the order of the operands")
def _() -> None:
    @tk.kernel
    def k(x: float, out: tk.array1d[float]):
        out[0] = min(x, 1.0)
        out[1] = min(1.0, x)
        out[2] = max(x, 1.0)
        out[3] = max(1.0, x)

    assert run(k, float("nan")).tolist() == [1.0] * 4


@row("reductions run in an order that depends on the block size")
def _() -> None:
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_sum(tk.tile_load(a, shape=1000)))

    given = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert len({float(run(k, given, block_dim=width)[0]) for width in (1, 32, 100, 256)}) == 1


@row("a name that only a branch assigns has that branch's value, also where it did not run")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        if n > 100:
            x = 5.0
        out[0] = x

    with pytest.raises(NameError, match=r"line \d+ assigns it, but only in the 'if'"):
        run(k, 3)


@row("a `@wp.func` that ends without `return` on some path gives 0 there")
def _() -> None:
    def some(n):
        if n > 100:
            return 5.0

    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        out[0] = some(n)

    with pytest.raises(TypeError, match="return a value on every path"):
        run(k, 3)


@row("a changed `wp.constant` does not reach a kernel that was compiled before")
def _() -> None:
    constants = type("Constants", (), {"FACTOR": wp.constant(2.0)})

    @tk.kernel
    def k(out: tk.array1d[float]):
        out[0] = constants.FACTOR

    assert run(k)[0] == 2.0
    constants.FACTOR = wp.constant(3.0)
    assert run(k)[0] == 3.0


@row("an integer division by zero ends the process on the CPU")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        out[0] = float(5 // n + 5 % n)

    assert run(k, 0)[0] == 0.0


@row("`assert` is ignored outside debug mode, where it ends the process")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        assert n < 3, "n is too large"
        out[0] = 1.0

    with pytest.raises(AssertionError, match="n is too large"):
        run(k, 3)


@row("tiles of more than 256 KiB in a block end the process on the CPU")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        t = tk.tile_ones(shape=(512, 512), dtype=float)
        tk.tile_store(out, tk.tile_sum(t))

    assert run(k)[0] == 512 * 512


@row("`print` writes to the process's output, past `sys.stdout`")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        print("n is", n)

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run(k, 3)
    assert text.getvalue() == "n is 3\n"
