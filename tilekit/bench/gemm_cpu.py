"""Matrix products on one core: tilekit, NumPy and Warp side by side, in one process, in alternating rounds.

Run it with ``python -m tilekit.bench.gemm_cpu``. It starts itself again with every library held to one thread. Inputs
are random and normally distributed, and each result is checked. Times are CPU times, which a busy neighbour disturbs
least; the medians of wall clock times stand beside them.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tilekit as tk
from tilekit.bench import kernels
from tilekit.cli.installed import installed_version, version
from tilekit.cli.text import seconds, table
from tilekit.errors import MissingPackageError, TilekitError
from tilekit.runtime import cpus
from tilekit.runtime.toolchain import find_toolchain
from tilekit.runtime.warp_names import import_warp

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TILEKIT_NUM_THREADS"), "1")
CORETYPE = "OPENBLAS_CORETYPE"
"""Makes OpenBLAS run another processor's code; it is left as it is only with ``--keep-coretype``."""
TILE = (128, 128, 64)
LAUNCHES = 500
Array = np.ndarray[Any, Any]


@dataclass
class Contender:
    """One way to compute the product: what runs it, what its first run took, and the times of its rounds."""

    name: str
    run: Callable[[], Any]
    first: float = 0.0
    """Seconds of the first run, with an empty cache of compiled kernels."""
    first_cpu: float = 0.0
    """The same in CPU time, compilers included."""
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def start(self) -> None:
        """Run for the first time."""
        cpu, wall = sum(os.times()[:4]), time.perf_counter()
        self.run()
        self.first, self.first_cpu = time.perf_counter() - wall, sum(os.times()[:4]) - cpu

    def time(self, repeat: int = 1) -> None:
        """Run one round and keep what a run took."""
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(repeat):
            self.run()
        self.cpu.append((time.process_time() - cpu) / repeat)
        self.wall.append((time.perf_counter() - wall) / repeat)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print.

    Args:
        argv: Arguments; by default those of this process.

    Returns:
        0, or 1 where a result is wrong.
    """
    parser = argparse.ArgumentParser("python -m tilekit.bench.gemm_cpu", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=1024, help="rows, columns and depth: a multiple of 128 (1024)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each product (15)")
    parser.add_argument("--dtypes", nargs="+", choices=("float32", "float64"), default=("float32", "float64"))
    parser.add_argument("--keep-coretype", action="store_true", help=f"leave {CORETYPE} as it is")
    arguments = parser.parse_args(argv)
    if arguments.size % max(TILE) or arguments.size < 1 or arguments.rounds < 1:
        parser.error("--size must be a positive multiple of 128, and --rounds positive")
    given = list(sys.argv[1:] if argv is None else argv)
    environment = {**os.environ, **ONE_THREAD}
    if not arguments.keep_coretype:
        environment.pop(CORETYPE, None)
    if environment != dict(os.environ):
        return subprocess.run(
            [sys.executable, "-m", "tilekit.bench.gemm_cpu", *given], env=environment, check=False
        ).returncode
    with tempfile.TemporaryDirectory(prefix="tilekit-bench-") as folder:
        return _measure(arguments, Path(folder))


def _measure(arguments: argparse.Namespace, folder: Path) -> int:
    toolchain = find_toolchain()
    warp = _warp(folder)
    compiler = toolchain.version if toolchain else "no compiler"
    system = f"{platform.system()} {platform.machine()}"
    print(f"{cpus.cpu_name()}, one thread; {system}; Python {platform.python_version()}")
    print(f"tilekit {version()} with {compiler}; Warp {installed_version('warp-lang')}")
    print(f"NumPy {np.__version__} with {_blas()}, {CORETYPE} {os.environ.get(CORETYPE, 'unset')}")
    correct = True
    with tk.config.scoped(cache_dir=folder / "tilekit"):
        for name in arguments.dtypes:
            correct &= _products(np.dtype(name), arguments.size, arguments.rounds, warp)
        if warp is not None:
            _launches(arguments.rounds, warp)
    return 0 if correct else 1


def _warp(folder: Path) -> Any:
    """Warp with an empty cache of its own, or None where it is not installed."""
    try:
        import warp

        warp.config.kernel_cache_dir = str(folder / "warp")
        return import_warp()
    except (ImportError, MissingPackageError):
        return None


def _blas() -> str:
    found = np.show_config(mode="dicts") or {}
    blas = found.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown BLAS')} {blas.get('version', '')}".strip()


def _products(dtype: np.dtype[Any], size: int, rounds: int, warp: Any) -> bool:
    """Measure one dtype, print its table, and say whether every result is right."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((size, size)).astype(dtype) for _ in range(2))
    results = {name: np.zeros_like(a) for name in ("tilekit", "NumPy", "Warp")}
    contenders = [
        Contender("tilekit", _tilekit_run(dtype, a, b, results["tilekit"])),
        Contender("NumPy", lambda: np.matmul(a, b, out=results["NumPy"])),
    ]
    if warp is not None:
        contenders.append(Contender("Warp", _warp_run(warp, dtype, a, b, results["Warp"])))
    for contender in contenders:
        contender.start()
    for number in range(rounds):
        for shift in range(len(contenders)):
            contenders[(number + shift) % len(contenders)].time()
    tiles = "x".join(map(str, TILE))
    print(f"\n{dtype.name}, {size} x {size} x {size}, tiles of {tiles}, {rounds} alternating rounds")
    print(_report(contenders, 2 * size**3))
    return all([_is_right(contender.name, results[contender.name], a, b) for contender in contenders])


def _tilekit_run(dtype: np.dtype[Any], a: Array, b: Array, c: Array) -> Callable[[], Any]:
    kernel = kernels.gemm(tk, dtype, TILE)
    grid = (a.shape[0] // TILE[0], b.shape[1] // TILE[1])
    steps = a.shape[1] // TILE[2]
    return lambda: tk.launch_tiled(kernel, grid, [a, b, c, steps], device="cpu")


def _warp_run(warp: Any, dtype: np.dtype[Any], a: Array, b: Array, c: Array) -> Callable[[], Any]:
    kernel = kernels.gemm(warp, getattr(warp, dtype.name), TILE)
    grid = [a.shape[0] // TILE[0], b.shape[1] // TILE[1]]
    arrays = [warp.array(x, dtype=getattr(warp, dtype.name), device="cpu", copy=False) for x in (a, b, c)]
    inputs = [*arrays, a.shape[1] // TILE[2]]

    def run() -> None:
        with warp.ScopedLogLevel(warp.LOG_WARNING):  # it prints what it compiles to stdout
            warp.launch_tiled(kernel, dim=grid, inputs=inputs, block_dim=64, device="cpu")

    return run


def _report(contenders: Sequence[Contender], work: int) -> str:
    """A row each; a ratio is the median of the rounds' own ratios, as neighbours slow whole rounds down."""
    ours = contenders[0]
    rows = []
    for other in contenders:
        ratio = statistics.median(theirs / mine for theirs, mine in zip(other.cpu, ours.cpu, strict=True))
        cpu, wall = statistics.median(other.cpu), statistics.median(other.wall)
        speeds = [f"{work / cpu / 1e9:.1f}", f"{work / min(other.cpu) / 1e9:.1f}"]
        first = "-" if other.name == "NumPy" else f"{seconds(other.first)} ({seconds(other.first_cpu)})"
        rows.append([other.name, seconds(cpu), seconds(wall), *speeds, f"{ratio:.2f}", first])
    head = ["", "median, CPU", "median, wall", "GFLOP/s", "best", "time / tilekit's", "first run, wall (CPU)"]
    return table(head, rows)


def _is_right(name: str, result: Array, a: Array, b: Array) -> bool:
    """Compare with float64 (float32) or a wider sum of products (float64), by the bound on rounding errors."""
    wide = np.float64 if a.dtype == np.float32 else np.longdouble
    unit = float(np.finfo(a.dtype).eps) / 2
    rows = slice(0, None if wide is np.float64 else 16)  # long doubles are slow
    exact = a[rows].astype(wide) @ b.astype(wide)
    bound = (a.shape[1] + 4) * unit * (np.abs(a[rows]).astype(np.float64) @ np.abs(b).astype(np.float64))
    right = bool(np.all(np.abs(result[rows] - exact) <= bound))
    if not right:
        print(f"{name}: WRONG RESULT, {float(np.max(np.abs(result[rows] - exact))):.2e} off")
    return right


def _launches(rounds: int, warp: Any) -> None:
    """What a warm launch costs the host, with the same Warp arrays for both."""
    a, b = (warp.zeros(16, dtype=warp.float32, device="cpu") for _ in range(2))
    ours, theirs = kernels.copy(tk), kernels.copy(warp)
    contenders = [
        Contender("tilekit", lambda: tk.launch_tiled(ours, 1, [a, b], device="cpu")),
        Contender("Warp", lambda: warp.launch_tiled(theirs, dim=[1], inputs=[a, b], block_dim=64, device="cpu")),
    ]
    with warp.ScopedLogLevel(warp.LOG_WARNING):
        for contender in contenders:
            contender.run()
    for _ in range(rounds):
        for contender in contenders:
            contender.time(LAUNCHES)
    print(f"\na warm launch of a kernel that copies 16 numbers, {rounds} rounds of {LAUNCHES}")
    rows = [[c.name, seconds(statistics.median(c.cpu)), seconds(min(c.cpu))] for c in contenders]
    print(table(["", "median, CPU", "best"], rows))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TilekitError as error:
        sys.exit(f"tilekit: {error}")
