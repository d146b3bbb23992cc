"""Rows about expressions, calls and loops."""

from __future__ import annotations

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
