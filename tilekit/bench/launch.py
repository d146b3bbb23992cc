"""Host time of a warm launch, side by side with Warp, on the CPU and on a GPU: ``python -m tilekit.bench.launch``."""

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tilekit as tk

ROUNDS = 200
LAUNCHES = 40
SIZE = 8


@tk.kernel
def add(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]) -> None:
    i = tk.tid()
    x = tk.tile_load(a, shape=4, offset=i * 4)
    y = tk.tile_load(b, shape=4, offset=i * 4)
    tk.tile_store(out, x + y, offset=i * 4)


def microseconds(*runs: Callable[[], object]) -> list[float]:
    """The lower quartile of the times of each run, measured in turns so that all see the same machine."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        for _ in range(LAUNCHES):
            run()
    tk.synchronize()
    for _ in range(ROUNDS):
        for index, run in enumerate(runs):
            start = time.perf_counter_ns()
            for _ in range(LAUNCHES):
                run()
            times[index].append((time.perf_counter_ns() - start) / LAUNCHES / 1000)
            tk.synchronize()  # so that no launch waits for room in the GPU's queue
    return [statistics.quantiles(found, n=4)[0] for found in times]


Pair = tuple[Callable[[], object], Callable[[], object]]


def pair(a: Any, b: Any, out: Any) -> Pair:
    """A launch, and the same recorded."""
    arguments: dict[str, Any] = {"dim": SIZE // 4, "inputs": [a, b], "outputs": [out], "block_dim": 32}
    command = tk.launch_tiled(add, **arguments, record_cmd=True)
    assert command is not None
    return lambda: tk.launch_tiled(add, dim=SIZE // 4, inputs=[a, b], outputs=[out], block_dim=32), command.launch


def with_numpy() -> Pair:
    a, b, out = (np.ones(SIZE, np.float32) for _ in range(3))
    return pair(a, b, out)


def with_torch() -> Pair | None:
    """The launch on tensors of a GPU; None where PyTorch is missing or sees none."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    a, b, out = (torch.ones(SIZE, device="cuda") for _ in range(3))
    return pair(a, b, out)


def with_warp(device: str) -> tuple[Callable[[], object], ...] | None:
    """The same launch on Warp arrays: by tilekit, recorded by tilekit, by Warp, recorded by Warp.

    None where Warp is missing or has no such device.
    """
    try:
        wp: Any = importlib.import_module("warp")
    except ImportError:
        return None
    wp.config.quiet = True
    if not wp.is_device_available(device):
        return None

    floats = wp.array(dtype=float)

    @wp.kernel  # type: ignore[untyped-decorator]
    def warp_add(a: floats, b: floats, out: floats) -> None:  # type: ignore[valid-type]
        i = wp.tid()
        x = wp.tile_load(a, shape=4, offset=i * 4)
        y = wp.tile_load(b, shape=4, offset=i * 4)
        wp.tile_store(out, x + y, offset=i * 4)

    a, b, out = (wp.zeros(SIZE, dtype=float, device=device) for _ in range(3))
    dim, how = [SIZE // 4], {"block_dim": 32, "device": device}
    command = wp.launch_tiled(warp_add, dim=dim, inputs=[a, b], outputs=[out], record_cmd=True, **how)
    return (
        *pair(a, b, out),
        lambda: wp.launch_tiled(warp_add, dim=dim, inputs=[a, b], outputs=[out], **how),
        command.launch,
    )


def main(arguments: list[str] | None = None) -> None:
    argparse.ArgumentParser(prog="python -m tilekit.bench.launch", description=__doc__).parse_args(arguments)
    rows: dict[str, tuple[Callable[[], object], ...] | None] = {
        "cpu, tilekit, NumPy arrays": with_numpy(),
        "cuda:0, tilekit, PyTorch tensors": with_torch(),
        "cpu, Warp arrays: tilekit, Warp": with_warp("cpu"),
        "cuda:0, Warp arrays: tilekit, Warp": with_warp("cuda:0"),
    }
    print("microseconds of host time: a launch, and the same recorded")
    for name, runs in rows.items():
        if runs is not None:
            print(f"{name:36}", *(f"{found:6.1f}" for found in microseconds(*runs)), flush=True)


if __name__ == "__main__":
    main()
