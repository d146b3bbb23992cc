"""What launches on a GPU take, as fractions of PyTorch's copy: what the benchmarks that move memory share."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import tilekit as tk

ROUNDS = 5
REPEATS = 20
Run = Callable[[], object]


def seconds(torch: Any, runs: list[Run]) -> list[float]:
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


def checked(torch: Any, title: str, run: Run, out: Any, wanted: Any, within: float = 0.0) -> str:
    """Run the first time, and check every element of the result; the title, with how long that took.

    ``within`` is how far an element may be off, relative to itself or to the median size, whichever is larger.
    """
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    name = f"{title}, first run {time.perf_counter() - start:.2f} s"
    least = within * float(wanted.abs().median()) if within else 0.0
    assert torch.allclose(out, wanted, rtol=within, atol=least), name
    out.fill_(float("nan"))
    return name


def show(torch: Any, title: str, runs: Mapping[str, Run], x: Any) -> None:
    """Measure, and print a table of runs that read ``x`` and write as much, the first of which copies it."""
    took = seconds(torch, list(runs.values()))
    moved = 2 * x.numel() * x.element_size()
    print(f"\n{title}")
    for name, time_of_one in zip(runs, took, strict=True):
        print(f"{name:48} {moved / time_of_one / 1e9:7.0f} GB/s  {took[0] / time_of_one:.2f} of the copy")


def on_a_gpu(measure: Callable[[Any], None]) -> int:
    """Measure by PyTorch's means, after a line that names GPU and versions; 1 where there is nothing to measure."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("nothing to measure: this needs a GPU and PyTorch")
        return 1
    print(f"{torch.cuda.get_device_name()}; PyTorch {torch.__version__}; tilekit {tk.__version__}")
    measure(torch)
    return 0
