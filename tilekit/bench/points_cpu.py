"""Point kernels on one core, beside NumPy and Warp: ``python -m tilekit.bench.points_cpu``.

Index checks are on in tilekit. Each result is compared with NumPy's. Contenders run in turns, so that all see the same
machine; times are of the CPU.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tilekit as tk
from tilekit.bench import kernels
from tilekit.cli.text import table
from tilekit.runtime.cpus import cpu_name
from tilekit.runtime.toolchain import find_toolchain

Array = np.ndarray[Any, Any]
Run = Callable[[], object]


def numpys_heat(u: Array, o: Array, c: Any) -> None:
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - np.float32(4.0) * u[1:-1, 1:-1]
    o[1:-1, 1:-1] = u[1:-1, 1:-1] + c * around


def numpys_scale(u: Array, o: Array, c: Any) -> None:
    o[...] = c * u


def numpys_blur(u: Array, o: Array, c: Any) -> None:
    o[:, 2:-2] = c * (u[:, :-4] + u[:, 1:-3] + u[:, 2:-2] + u[:, 3:-1] + u[:, 4:])


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Array, Array, Any], None], int]] = {
    "heat, guarded": (kernels.heat, numpys_heat, 0),
    "c * u, guarded": (kernels.scale, numpys_scale, 0),
    "mean of 5 in a row": (kernels.blur, numpys_blur, 4),
}
"""Kernel, NumPy's form, and how many columns fewer than the arrays have it runs over."""


def contenders(name: str, size: int, warp: Any) -> dict[str, tuple[Run, Array]]:
    """Who computes a case, and where each puts its result."""
    function, numpys, fewer = CASES[name]
    u, c = np.random.default_rng(0).random((size, size), dtype=np.float32), np.float32(0.2)
    out = {who: np.zeros((size, size), np.float32) for who in ("tilekit", "NumPy", "Warp")}
    kernel, dim = function(tk), (size, size - fewer)
    found: dict[str, tuple[Run, Array]] = {
        "tilekit": (lambda: tk.launch(kernel, dim=dim, inputs=[u, out["tilekit"], 0.2]), out["tilekit"]),
        "NumPy": (lambda: numpys(u, out["NumPy"], c), out["NumPy"]),
    }
    if warp is not None:
        own = function(warp)
        arrays = [warp.from_numpy(array, dtype=warp.float32, device="cpu") for array in (u, out["Warp"])]
        found["Warp"] = lambda: warp.launch(own, dim=dim, inputs=[*arrays, 0.2], device="cpu"), arrays[1].numpy()
    return found


def measure(name: str, size: int, rounds: int, warp: Any) -> list[list[str]]:
    """A row of the table for each contender.

    Raises:
        AssertionError: a result is wrong.
    """
    found = contenders(name, size, warp)
    times: dict[str, list[float]] = {who: [] for who in found}
    for _ in range(rounds + 1):
        for who, (run, _) in found.items():
            start = time.process_time()
            run()
            times[who].append(1000 * (time.process_time() - start))
    for who, (_, result) in found.items():
        np.testing.assert_allclose(result, found["NumPy"][1], rtol=1e-5, atol=1e-6, err_msg=f"{name}, {who}")
    medians = {who: statistics.median(took[1:]) for who, took in times.items()}
    return [
        [name, who, f"{medians[who]:.2f} ms", f"{min(times[who][1:]):.2f}", f"{medians[who] / medians['tilekit']:.2f}"]
        for who in found
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        "python -m tilekit.bench.points_cpu", description=(__doc__ or "").partition(":")[0]
    )
    parser.add_argument("--size", type=int, default=2048, help="rows and columns (2048)")
    parser.add_argument("--rounds", type=int, default=15, help="of which the median counts (15)")
    arguments = parser.parse_args(argv)
    try:
        warp = importlib.import_module("warp")
    except ImportError:
        warp = None
    toolchain = find_toolchain()
    print(f"{cpu_name()}, one thread; {toolchain.version if toolchain is not None else 'no compiler'}")
    print(f"tilekit {tk.__version__}; NumPy {np.__version__}; {f'Warp {warp.__version__}' if warp else 'no Warp'}")
    print(f"float32, {arguments.size} x {arguments.size}, {arguments.rounds} alternating rounds")
    with tk.config.scoped(num_threads=1):
        rows = [row for name in CASES for row in measure(name, arguments.size, arguments.rounds, warp)]
    print(table(["kernel", "", "median", "best", "time / tilekit's"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
