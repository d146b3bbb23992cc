"""The README's example: a matrix product, a loop over K inside a block.

Run it on every device of the machine with ``python -m tilekit demo``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tilekit as tk

Array = np.ndarray[Any, Any]
LEFT = np.arange(24, dtype=np.float32).reshape(4, 6)
RIGHT = np.arange(48, dtype=np.float32).reshape(6, 8)
BLOCK_DIM = 32


@tk.kernel
def gemm(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    out_tile = tk.tile_zeros(shape=(4, 8), dtype=float)
    for k in range(2):
        a_tile = tk.tile_load(a, shape=(4, 3), offset=(0, k * 3))
        b_tile = tk.tile_load(b, shape=(3, 8), offset=(k * 3, 0))
        tk.tile_matmul(a_tile, b_tile, out_tile)
    tk.tile_store(out, out_tile)


def run(device: str | None = None) -> Array:
    """Launch the kernel on a device and give its result."""
    where = "cpu" if device == "interpret" else device
    a, b = tk.array(LEFT, device=where), tk.array(RIGHT, device=where)
    out = tk.zeros((4, 8), dtype=float, device=where)
    tk.launch_tiled(gemm, dim=1, inputs=[a, b], outputs=[out], block_dim=BLOCK_DIM, device=device)
    result: Array = out.numpy()
    return result


def expected() -> Array:
    """The product in float64."""
    return LEFT.astype(np.float64) @ RIGHT.astype(np.float64)


def bound() -> float:
    """The largest error that rounding every product and sum to float32 can cause."""
    depth = LEFT.shape[1]
    return float((depth + 4) * 2.0**-24 * np.max(np.abs(LEFT.astype(np.float64)) @ np.abs(RIGHT.astype(np.float64))))


if __name__ == "__main__":
    print(run())
