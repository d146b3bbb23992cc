"""Chains of ``tile_fma`` on a GPU, as fractions of PyTorch's copy: ``python -m tilekit.bench.fused``."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import tilekit as tk
from tilekit.bench.copies import Run, checked, on_a_gpu, show

SIDE = 16384
TILE = 16, 256
THREADS = (128, 256)
STEPS = (1, 4, 8)
ROUNDINGS = {"float32": ("rn", "rz"), "float16": ("rn",)}
PERIOD = 5
"""Inputs are 0 to 4: the result of every step is exact, in float16 too."""


def chain(steps: int, rounding: str = "rn", tile: tuple[int, int] = TILE) -> Any:
    """A kernel of ``x = 2 x + 1``, so many times, each with one rounding.

    Args:
        steps: How many multiply-adds an element goes through.
        rounding: As for ``tk.tile_fma``.
        tile: The rows and columns of what a block computes.

    Returns:
        A kernel from one array of two dimensions to another of its shape and dtype.

    Example:
        >>> import numpy as np
        >>> x = np.float32([[0, 1], [2, 3]])
        >>> out = np.zeros_like(x)
        >>> tk.launch_tiled(chain(2, tile=(2, 2)), dim=(1, 1), inputs=[x], outputs=[out])
        >>> out.tolist()
        [[3.0, 7.0], [11.0, 15.0]]
    """

    @tk.kernel(enable_backward=False)
    def chained(a: tk.array2d[Any], b: tk.array2d[Any]) -> None:
        i, j = tk.tid()
        at = (i * tile[0], j * tile[1])
        x = tk.tile_load(a, shape=tile, offset=at)
        for _ in tk.static_range(steps):
            x = tk.tile_fma(x, 2.0, 1.0, rounding=rounding)
        tk.tile_store(b, x, offset=at)

    return chained


def expected(x: Any, steps: int) -> Any:
    """What a chain gives, by the arithmetic of the array's own library."""
    for _ in range(steps):
        x = 2 * x + 1
    return x


def measure(torch: Any, name: str, side: int) -> None:
    """Print a table for one dtype, and check every element."""
    dtype = getattr(torch, name)
    x = (torch.arange(side * side, device="cuda") % PERIOD).to(dtype).reshape(side, side)
    out, peer = torch.empty_like(x), torch.empty_like(x)
    runs: dict[str, Run] = {"torch copy": lambda: peer.copy_(x)}
    grid = side // TILE[0], side // TILE[1]
    for rounding in ROUNDINGS[name]:
        for steps in STEPS:
            wanted = expected(x, steps)
            for threads in THREADS:
                run = partial(tk.launch_tiled, chain(steps, rounding), grid, [x], [out], block_dim=threads)
                runs[checked(torch, f"{steps} fma.{rounding}, {threads} threads", run, out, wanted)] = run
    show(torch, f"{name}, {side}x{side}, tiles of {TILE[0]}x{TILE[1]}", runs, x)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 0 where there is something to measure."""
    parser = argparse.ArgumentParser(prog="python -m tilekit.bench.fused", description=__doc__)
    parser.add_argument("--side", type=int, default=SIDE, help=f"rows and columns, multiples of {max(TILE)}")
    side = parser.parse_args(arguments).side
    if side <= 0 or side % max(TILE):
        parser.error(f"--side {side} is no positive multiple of {max(TILE)}")

    def run(torch: Any) -> None:
        for name in ROUNDINGS:
            measure(torch, name, side)

    return on_a_gpu(run)


if __name__ == "__main__":
    raise SystemExit(main())
