"""Elementwise kernels on a GPU beside PyTorch's, as fractions of its copy: ``python -m tilekit.bench.elementwise``."""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import tilekit as tk

ROUNDS = 5
REPEATS = 20
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


def seconds(torch: Any, runs: list[Callable[[], object]]) -> list[float]:
    """The median time of each run, in turns so that all see the same clocks."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    for _ in range(ROUNDS):
        for index, run in enumerate(runs):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(REPEATS):
                run()
            last.record()
            last.synchronize()
            times[index].append(first.elapsed_time(last) / REPEATS / 1000)
    return [statistics.median(found) for found in times]


def launches(x: Any, out: Any, side: int) -> dict[str, Callable[[], object]]:
    """The launches that are compared: tiles of several shapes, and points."""
    found: dict[str, Callable[[], object]] = {}
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
    runs: dict[str, Callable[[], object]] = {
        "torch copy": lambda: peer.copy_(x),
        "torch mul": lambda: torch.mul(x, 2, out=peer),
    }
    for title, run in launches(x, out, side).items():
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        name = f"tilekit {title}, first run {time.perf_counter() - start:.2f} s"
        assert torch.equal(out, x * 2), name
        out.fill_(float("nan"))
        runs[name] = run
    found = dict(zip(runs, seconds(torch, list(runs.values())), strict=True))
    bytes_moved = 2 * x.numel() * x.element_size()
    print(f"\n{dtype}, {side}x{side}")
    for name, took in found.items():
        print(f"{name:48} {bytes_moved / took / 1e9:7.0f} GB/s  {found['torch copy'] / took:.2f} of the copy")


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 0 where there is something to measure."""
    parser = argparse.ArgumentParser(prog="python -m tilekit.bench.elementwise", description=__doc__)
    parser.add_argument("--side", type=int, default=SIDE, help="rows and columns of the arrays")
    side = parser.parse_args(arguments).side
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("nothing to measure: this needs a GPU and PyTorch")
        return 1
    print(f"{torch.cuda.get_device_name()}; PyTorch {torch.__version__}; tilekit {tk.__version__}")
    for dtype in (torch.float32, torch.float16):
        measure(torch, dtype, side)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
