"""Views of views: their values on every device, and what compiled code makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests import on_gpu
from tilekit.ir.core import walk

A = np.arange(12, dtype=np.float32).reshape(3, 4)


@tk.func
def turned(t: tk.tile[float, 3, 4]):
    held = tk.tile_astype(t, float)
    return held[::-1, ::-1]


@tk.kernel
def transposed(a: tk.array2d[float], out: tk.array2d[float]):
    seen = turned(tk.tile_load(a, shape=(3, 4)))
    tk.tile_store(out, seen.T)


@tk.kernel
def bits(a: tk.array2d[float], out: tk.array2d[tk.int32]):
    t = tk.tile_load(a, shape=(3, 4))
    columns = t.T
    named = columns
    tk.tile_store(out, tk.tile_bitcast(named, tk.int32))


@tk.kernel
def reshaped(a: tk.array2d[float], out: tk.array2d[float]):
    t = tk.tile_load(a, shape=(3, 4))
    columns = t.T
    named = columns
    tk.tile_store(out, tk.tile_reshape(named, shape=(2, 6)))


@tk.kernel
def moving(a: tk.array2d[float], n: int, out: tk.array2d[float]):
    t = tk.tile_load(a, shape=(3, 4))
    columns = t.T
    named = columns
    row = named[n]
    row += 100.0
    tk.tile_store(out[0], row)
    tk.tile_store(out[1], named[:, 1][0:3])
    tk.tile_store(out[2], t[0][0:3])


CASES = {
    "transposed": (transposed, (), A[::-1, ::-1].T),
    "bits": (bits, (), np.ascontiguousarray(A.T).view(np.int32)),
    "reshaped": (reshaped, (), A.T.reshape(2, 6)),
    "moving": (moving, (2,), np.array([A.T[2] + 100, [4, 5, 106], A[0][:3]], np.float32)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_values(name, device):
    kernel, numbers, wanted = CASES[name]
    out = np.zeros_like(wanted)
    tk.launch_tiled(kernel, dim=1, inputs=[A.copy(), *numbers], outputs=[out], block_dim=32, device=device)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.gpu
@pytest.mark.skipif(not on_gpu.GPUS, reason="needs a CUDA device")
@pytest.mark.parametrize("name", CASES)
def test_values_on_a_gpu(name):
    kernel, numbers, wanted = CASES[name]
    out = np.zeros_like(wanted)
    on_gpu.launch_tiled(kernel, 1, [A.copy(), *numbers], [out])
    np.testing.assert_array_equal(out, wanted)


def test_one_map_leads_to_the_storage_where_there_is_one():
    ops = [op.builtin.name for op in walk(tk.compile(transposed, device="cpu").program.launches[0].function.body)]
    assert "view_replace" not in ops
