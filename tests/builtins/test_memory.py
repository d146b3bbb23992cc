"""``tile_load``, ``tile_store`` and ``tile_atomic_add`` far outside their arrays."""

import shlex

import numpy as np
import pytest

import tilekit as tk
from tilekit.runtime.toolchain import candidates


@tk.kernel
def far(a: tk.array1d[float], out: tk.array1d[float], total: tk.array1d[tk.int32], offset: tk.uint64):
    tk.tile_store(out, tk.tile_load(a, shape=4, offset=offset))
    tk.tile_store(a, tk.tile_ones(shape=4), offset=offset)
    tk.tile_atomic_add(total, tk.tile_ones(shape=4, dtype=tk.int32), offset=offset)


@tk.kernel
def last(a: tk.array1d[float], index: tk.uint64):
    t = tk.tile_load(a, shape=4)
    a[0] = t[index]


@pytest.mark.parametrize("chain", [c.toolchain for c in candidates() if c.works], ids=lambda chain: chain.name)
def test_offsets_of_64_unsigned_bits(chain):
    """For every compiler: some refuse what others convert."""
    with tk.config.scoped(cxx=shlex.join(chain.command)):
        for device in ("cpu", "interpret"):
            a, out, total = np.arange(8, dtype=np.float32), np.full(4, 9, np.float32), np.zeros(8, np.int32)
            tk.launch_tiled(far, dim=1, inputs=[a, out, total, 2**64 - 1], device=device)
            assert not out.any() and not total.any() and np.array_equal(a, np.arange(8))
            tk.launch_tiled(far, dim=1, inputs=[a, out, total, 6], device=device)
            assert out.tolist() == [6, 7, 0, 0] and a[6:].tolist() == [1, 1] and total[6:].tolist() == [1, 1]
            with pytest.raises(IndexError, match="is out of bounds for axis 0"):
                tk.launch_tiled(last, dim=1, inputs=[a, 2**64 - 1], device=device)
