"""Host time of a warm launch, side by side with Warp: ``python -m tilekit.bench.launch``."""

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tilekit as tk

ROUNDS = 40
LAUNCHES = 200
SIZE = 8


@tk.kernel
def add(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]) -> None:
    i = tk.tid()
    x = tk.tile_load(a, shape=4, offset=i * 4)
    y = tk.tile_load(b, shape=4, offset=i * 4)
    tk.tile_store(out, x + y, offset=i * 4)


def microseconds(*runs: Callable[[], object]) -> list[float]:
    """The median time of each run, measured in turns so that all see the same machine."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        for _ in range(LAUNCHES):
            run()
    for _ in range(ROUNDS):
        for index, run in enumerate(runs):
            start = time.perf_counter_ns()
            for _ in range(LAUNCHES):
                run()
            times[index].append((time.perf_counter_ns() - start) / LAUNCHES / 1000)
    return [statistics.median(found) for found in times]


def with_numpy() -> Callable[[], object]:
    a, b, out = (np.ones(SIZE, np.float32) for _ in range(3))
    return lambda: tk.launch_tiled(add, dim=SIZE // 4, inputs=[a, b], outputs=[out], block_dim=32)


def with_warp() -> tuple[Callable[[], object], Callable[[], object]] | None:
    """The same launch on Warp arrays, by tilekit and by Warp; None where Warp is missing."""
    try:
        wp: Any = importlib.import_module("warp")
    except ImportError:
        return None
    wp.config.quiet = True

    floats = wp.array(dtype=float)

    @wp.kernel  # type: ignore[untyped-decorator]
    def warp_add(a: floats, b: floats, out: floats) -> None:  # type: ignore[valid-type]
        i = wp.tid()
        x = wp.tile_load(a, shape=4, offset=i * 4)
        y = wp.tile_load(b, shape=4, offset=i * 4)
        wp.tile_store(out, x + y, offset=i * 4)

    a, b, out = (wp.zeros(SIZE, dtype=float, device="cpu") for _ in range(3))
    arguments: dict[str, Any] = {"inputs": [a, b], "outputs": [out], "block_dim": 32, "device": "cpu"}
    dim = SIZE // 4
    return (
        lambda: tk.launch_tiled(add, dim=dim, **arguments),
        lambda: wp.launch_tiled(warp_add, dim=[dim], **arguments),
    )


def main() -> None:
    pair = with_warp()
    times = microseconds(with_numpy(), *(pair or ()))
    print(f"tilekit, NumPy arrays  {times[0]:6.1f} us")
    if pair is not None:
        print(f"tilekit, Warp arrays   {times[1]:6.1f} us")
        print(f"Warp                   {times[2]:6.1f} us")
        print(f"tilekit / Warp         {times[1] / times[2]:6.2f}")


if __name__ == "__main__":
    main()
