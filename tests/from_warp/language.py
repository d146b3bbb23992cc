"""Rows about expressions, calls and loops."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.from_warp.rows import row, run

wp = pytest.importorskip("warp")


@row("`n or 7` is 1, and `n and m` is 0 or 1")
def _() -> None:
    @tk.kernel
    def k(n: int, x: float, out: tk.array1d[float]):
        out[0] = float((n or 7) * 10)
        out[1] = float((n and n + 3) * 10)
        out[2] = 1.0 if n and x else 0.0

    @tk.kernel
    def mixed(n: int, x: float, out: tk.array1d[float]):
        out[0] = n or x

    assert run(k, 2, 0.5)[:3].tolist() == [20, 50, 1]
    assert run(k, 0, 0.5)[:3].tolist() == [70, 0, 0]
    with pytest.raises(tk.errors.KernelTypeError, match="here an int32 or a float32"):
        run(mixed, 2, 0.5)


@row(
    "a literal for an annotated parameter or result of a `@wp.func` must have its type: `f(0.3)` is refused for "
    "`float64`"
)
def _() -> None:
    @wp.func
    def third(x: wp.float64) -> wp.float64:
        return x / wp.float64(3.0)

    @wp.func
    def tenth() -> wp.float64:
        return 0.1

    @tk.kernel
    def k(out: tk.array1d[tk.float64]):
        out[0] = third(0.3)
        out[1] = tenth()

    assert run(k, dtype=np.float64)[:2].tolist() == [0.3 / 3, 0.1]


@row("`overload` gives a kernel for the named types alone")
def _() -> None:
    @tk.kernel
    def k(x: Any, out: tk.array1d[float]):
        out[0] = float(x)

    assert tk.overload(k, [tk.float64, tk.array1d[float]]) is k
    generic = k

    @tk.overload
    def k(x: int, out: tk.array1d[float]): ...

    assert k is generic
    assert run(k, 2.5)[0] == 2.5


@row(
    "`print` takes one value; it shows numbers as C's `%g` does (2, 1.23457e+08), a tile as `[1 2] = tile(shape=(2), "
    "storage=register)`"
)
def _() -> None:
    @tk.kernel
    def k(x: tk.float64, out: tk.array1d[float]):
        print(x, 2.0)
        print(tk.tile_arange(1, 3, dtype=float))

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run(k, 123456789.0)
    assert text.getvalue() == "123456789.0 2.0\n[1. 2.]\n"


@row("a run-time step of 0 makes a loop over a `range` not run")
def _() -> None:
    @tk.kernel
    def k(step: int, out: tk.array1d[float]):
        for i in range(0, 4, step):
            out[i] = 1.0

    assert not run(k, 0).any()
    with tk.config.scoped(checked=True), pytest.raises(AssertionError, match="step must not be zero"):
        run(k, 0)


@row("a dict or set on the host, `{wp.float32: 4}[a.dtype]`")
def _() -> None:
    a = tk.zeros(1, dtype=tk.float32, device="cpu")
    assert a.dtype == tk.float32
    assert {tk.float32: 4}.get(a.dtype) is None

    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array1d[float]):
        out[0] = {wp.float32: 4.0, wp.float64: 8.0}[x.dtype]

    assert run(k, a)[0] == 4


@row("`zeros(shape=3, dtype=float)` in a kernel, an array of each thread's own")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        a = tk.zeros(shape=3, dtype=float)
        a[1] = 2.0
        out[0] = a[1]

    @tk.kernel
    def instead(out: tk.array1d[float]):
        a, t = [0.0] * 3, tk.tile_zeros(shape=3, dtype=float)
        a[1] = 2.0
        t[1] = 3.0
        out[0] = a[1] + t[1]

    with pytest.raises(NotImplementedError, match=r"zeros\(\) is for the host and cannot be called in a kernel"):
        run(k)
    assert run(instead)[0] == 5
