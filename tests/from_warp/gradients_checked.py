"""The row of gradient checks."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

import tilekit as tk
from tests.from_warp.rows import row

wp = pytest.importorskip("warp")


@row(
    "`wp.autograd.gradcheck` takes Warp arrays that require grad and compares float32 results; "
    "`jacobian` gives Warp arrays"
)
def _() -> None:
    @tk.kernel
    def squares(x: tk.array1d[float], out: tk.array1d[float]):
        t = tk.tile_load(x, shape=2)
        tk.tile_store(out, t * t)

    given, out = [np.float32([1, 2])], [np.zeros(2, np.float32)]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert tk.gradcheck(squares, 1, given, out, input_output_mask=[("x", "out")])
    assert printed.getvalue().startswith("gradcheck of kernel 'squares' in float64: passed")
    assert tk.jacobian(squares, 1, given, out)[0, 0].tolist() == [[2, 0], [0, 4]]
