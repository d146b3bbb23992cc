"""Elementwise kernels on a GPU beside PyTorch's, as fractions of its copy: ``python -m tilekit.bench.elementwise``."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import tilekit as tk
from tilekit.bench.copies import Run, checked, on_a_gpu, show

SIDE = 16384
SHAPES = ((4, 256), (16, 256), (1, 1024), (64, 64))
THREADS = (128, 256)


def scaled(rows: int, columns: int) -> Any:
    """``b = 2 a`` by tiles."""

    @tk.kernel
    def scaled(a: tk.array2d[Any], b: tk.array2d[Any]) -> None:
        i, j = tk.tid()
        at = (i * rows, j * columns)
        tk.tile_store(b, 2 * tk.tile_load(a, shape=(rows, columns), offset=at), offset=at)

    return scaled


@tk.kernel
def scaled_points(a: tk.array1d[Any], b: tk.array1d[Any]) -> None:
    """``b = 2 a``, an element a point."""
    i = tk.tid()
    b[i] = 2 * a[i]


def launches(x: Any, out: Any, side: int) -> dict[str, Run]:
    """The launches that are compared: tiles of several shapes, and points."""
    found: dict[str, Run] = {}
    for threads in THREADS:
        for rows, columns in SHAPES:
            grid = side // rows, side // columns
            found[f"{rows}x{columns}, {threads} threads"] = partial(
                tk.launch_tiled, scaled(rows, columns), grid, [x], [out], block_dim=threads
            )
        flat = [x.reshape(-1)], [out.reshape(-1)]
        found[f"points, {threads} threads"] = partial(tk.launch, scaled_points, side * side, *flat, block_dim=threads)
    return found


def measure(torch: Any, dtype: Any, side: int) -> None:
    """Print a table for one dtype, and check every element."""
    x = torch.randn(side, side, device="cuda").to(dtype)
    out = torch.empty_like(x)
    peer = torch.empty_like(x)
    runs: dict[str, Run] = {
        "torch copy": lambda: peer.copy_(x),
        "torch mul": lambda: torch.mul(x, 2, out=peer),
    }
    for title, run in launches(x, out, side).items():
        runs[checked(torch, f"tilekit {title}", run, out, x * 2)] = run
    show(torch, f"{dtype}, {side}x{side}", runs, x)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 0 where there is something to measure."""
    parser = argparse.ArgumentParser(prog="python -m tilekit.bench.elementwise", description=__doc__)
    parser.add_argument("--side", type=int, default=SIDE, help="rows and columns of the arrays")
    side = parser.parse_args(arguments).side

    def run(torch: Any) -> None:
        for dtype in (torch.float32, torch.float16):
            measure(torch, dtype, side)

    return on_a_gpu(run)


if __name__ == "__main__":
    raise SystemExit(main())
