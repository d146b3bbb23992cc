"""Run the README's example on every device of this machine, and check it against NumPy.

The exit status is 1 where a device whose toolchain is installed fails or falls back to something else. A device whose
toolchain is missing is a row that says what to install.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import tilekit as tk
from tilekit.cli.installed import install_command, missing
from tilekit.cli.text import seconds, table
from tilekit.errors import FallbackWarning, PerformanceWarning, TilekitError
from tilekit.examples import first_gemm
from tilekit.ir.context import LaunchForm
from tilekit.runtime import nvidia, toolchain
from tilekit.runtime.placement import INTERPRET
from tilekit.runtime.program import compile_kernel

ROUNDS = 5
_log = logging.getLogger("tilekit")


@dataclass(frozen=True)
class Outcome:
    """One row: what a device did, or what it lacks."""

    device: str
    compiler: str = "-"
    compile_time: str = "-"
    run_time: str = "-"
    error: str = "-"
    note: str = ""
    """Where the source lies, what failed, or what to install."""
    failed: bool = False


def configure(parser: argparse.ArgumentParser) -> None:
    """It takes no arguments."""


def run(arguments: argparse.Namespace) -> int:
    outcomes = list(_outcomes())
    head = ["device", "compiler", "compile", "run", "max error", "result"]
    rows = [[o.device, o.compiler, o.compile_time, o.run_time, o.error, _result(o)] for o in outcomes]
    print(table(head, rows) + "\n")
    print(table([], [[f"{outcome.device}:", outcome.note] for outcome in outcomes]))
    failed = [outcome.device for outcome in outcomes if outcome.failed]
    if failed:
        print(f"\nFAILED: {', '.join(failed)}. `python -m tilekit doctor` tells more.")
    return 1 if failed else 0


def _result(outcome: Outcome) -> str:
    return "FAILED" if outcome.failed else "ok" if outcome.error != "-" else "not run"


def _outcomes() -> Iterator[Outcome]:
    yield _cpu()
    yield _checked(INTERPRET, "none needed", None)
    for gpu in nvidia.find_driver().gpus:
        if missing("cuda"):
            yield Outcome(gpu.device, note=f"{gpu.name} needs NVRTC: run {install_command('cuda')}")
        else:
            yield _checked(gpu.device, "NVRTC", partial(_compile_for, gpu))


def _cpu() -> Outcome:
    candidates = toolchain.candidates()
    broken = [c for c in candidates if c.command and not c.works]
    asked_for = next((c for c in broken if c.name == "TILEKIT_CXX"), None)
    chosen = next((c for c in candidates if c.works), None)
    blamed = asked_for or (broken[0] if broken and chosen is None else None)
    if blamed is not None:
        return Outcome("cpu", blamed.name, note=blamed.reason.partition("\n")[0], failed=True)
    if chosen is None:
        note = f"no C++ compiler was found: install g++ or clang++, or run {install_command('cpu')}"
        return Outcome("cpu", note=note)
    return _checked("cpu", chosen.name, _compile)


def _compile() -> tuple[str, Path]:
    """Compile the example; the time it took, and where its source lies."""
    began = time.perf_counter()
    library = compile_kernel(first_gemm.gemm, ndim=1, block_dim=first_gemm.BLOCK_DIM).library
    return _timed(began, library), library.parent / "kernel.cpp"


def _compile_for(gpu: nvidia.Gpu) -> tuple[str, Path]:
    """As :func:`_compile`, for a GPU."""
    from tilekit.runtime.cuda import build, generate, nvrtc

    form = LaunchForm(True, 1, first_gemm.BLOCK_DIM)
    kernel = first_gemm.gemm
    began = time.perf_counter()
    target = generate.cuda_target(form, nvrtc.arch_of(gpu.capability), {})
    found = generate.generate(kernel.trace(kernel.default_types(), form), target)
    _, folder = build.build(found.source, kernel.key, target, kernel.options, found.units)
    return _timed(began, folder / "kernel.cubin"), folder / "kernel.cu"


def _timed(began: float, built: Path) -> str:
    """The time since then, and whether the cache had the file."""
    took = time.perf_counter() - began
    return seconds(took) + (" (cached)" if built.stat().st_mtime < time.time() - took - 1.0 else "")


def _checked(device: str, compiler: str, compiling: Callable[[], tuple[str, Path]] | None) -> Outcome:
    """Compile, run and compare; whatever goes wrong is the row's note."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FallbackWarning)
            warnings.simplefilter("ignore", PerformanceWarning)  # the example is tiny, so that all of it can be read
            compile_time, source = compiling() if compiling else ("-", Path(first_gemm.__file__))
            run_time, error = _run(device)
    except (TilekitError, FallbackWarning) as problem:
        return Outcome(device, compiler, note=str(problem), failed=True)
    except Exception as fault:  # tilekit's own: the other devices still get their rows
        _log.debug("the demo failed on %s", device, exc_info=True)
        return Outcome(device, compiler, note=f"{type(fault).__name__}: {fault}", failed=True)
    failed = not error <= first_gemm.bound()
    return Outcome(device, compiler, compile_time, run_time, f"{error:.1e}", f"its source is {source}", failed)


def _run(device: str) -> tuple[str, float]:
    """The best time of a warm launch, and the largest error against NumPy."""
    run = _on_gpu if device.startswith("cuda") else first_gemm.run
    run(device)
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        result = run(device)
        best = min(best, time.perf_counter() - began)
    return seconds(best), float(np.max(np.abs(result - first_gemm.expected())))


def _on_gpu(device: str) -> first_gemm.Array:
    """The example on a GPU, with arrays that need neither Warp nor PyTorch."""
    from tilekit.runtime.cuda.buffers import Buffer

    ordinal = int(device.partition(":")[2])
    a, b = Buffer(first_gemm.LEFT, ordinal), Buffer(first_gemm.RIGHT, ordinal)
    out = Buffer(np.zeros((4, 8), np.float32), ordinal)
    tk.launch_tiled(first_gemm.gemm, dim=1, inputs=[a, b], outputs=[out], block_dim=first_gemm.BLOCK_DIM, device=device)
    return out.numpy()
