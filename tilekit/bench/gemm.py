"""Matrix products on a GPU, side by side with cuBLAS, Triton and Warp: ``python -m tilekit bench gemm``."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import tilekit as tk
from tilekit.bench.gemm_contenders import PEERS, Data, Plan, make_data, plans
from tilekit.bench.gemm_measure import ROUNDS, Clock, Entry, attempt, brief, measure
from tilekit.bench.gemm_problems import BATCHES, KINDS, SIZES, Problem, problems
from tilekit.bench.gemm_report import HEAD, Row, as_json, best, markdown, picture, rows_of
from tilekit.cli.text import table
from tilekit.errors import TilekitError

CHECKED_ROWS = 8192
"""Of a result, the first ones: those of a batch are many, and alike."""


@dataclass
class Benchmark:
    """What is measured, how, and what was found so far."""

    kinds: Sequence[str] = tuple(KINDS)
    sizes: Sequence[int] = SIZES
    batches: Sequence[int] = tuple(BATCHES)
    backends: Sequence[str] = ("mma",)
    peers: Sequence[str] = PEERS
    rounds: int = ROUNDS
    budget: float = float("inf")
    """Seconds after which nothing more is compiled; what was compiled is still measured."""
    rows: list[Row] = field(default_factory=list)
    show: Callable[[str], None] = lambda line: print(line, flush=True)
    now: Callable[[], float] = time.perf_counter

    def run(self, load: Callable[[Problem], Data], clock: Clock) -> list[Row]:
        """Measure all problems, and show each as it is done.

        Args:
            load: Gives the factors of a problem.
            clock: What times launches.
        """
        begin = self.now()
        for problem in problems(self.kinds, self.sizes, self.batches):
            self.show(f"{problem}:")
            try:
                data = load(problem)
            except Exception as error:  # such as too little memory: the others may still do
                self.show(f"  left out: {brief(error)}")
                continue
            left = self.budget - (self.now() - begin)
            found = self._measured(problem, data, clock, left)
            self.rows += found
            self.show(table(HEAD[1:], [row.cells[1:] for row in found]))
        return self.rows

    def _measured(self, problem: Problem, data: Data, clock: Clock, left: float) -> list[Row]:
        begin, entries = self.now(), []
        for plan in plans(problem, data, self.backends, self.peers):
            if self.now() - begin > left:
                self.show(f"  {plan.by} {plan.how}: left out, the time is spent")
                continue
            entries.append(self._prepared(plan, data))
        measure(entries, clock, self.rounds)
        return rows_of(problem, entries)

    def _prepared(self, plan: Plan, data: Data) -> Entry:
        """A contender, compiled, launched once and checked; one that fails notes why."""
        begin = self.now()
        try:
            entry = plan.make()
        except Exception as error:  # a peer that is missing or fails must not keep the others from running
            entry = Entry(plan.by, plan.how, lambda: None, None, note=brief(error))
        else:
            entry.error = attempt(entry, lambda: error_of(entry.result, data.exact))
        self.show(f"  {entry.name}: {entry.note or 'ready'} after {self.now() - begin:.1f} s")
        return entry


def error_of(result: Any, exact: Any) -> float:
    """The largest error, relative to the largest element; NaNs are infinitely wrong.

    Args:
        result: A tensor.
        exact: The same in float64.
    """
    part, right = result[:CHECKED_ROWS].double(), exact[:CHECKED_ROWS]
    found = float((part - right).abs().max() / right.abs().max())
    return found if found == found else float("inf")


class Graphs:
    """Times launches that a CUDA graph repeats: a small product takes a GPU less time than a launch takes the host."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.captured: WeakKeyDictionary[Callable[[], object], tuple[int, Any]] = WeakKeyDictionary()

    def time(self, run: Callable[[], object], launches: int) -> float:
        """Seconds of so many launches together, on the current stream, which must not be the default one; a single one
        is not captured.

        Args:
            run: What launches.
            launches: How often it is launched.
        """
        if launches == 1:
            return self._timed(run)
        if self.captured.get(run, (0, None))[0] != launches:
            self.captured[run] = launches, self._capture(run, launches)
        return self._timed(self.captured[run][1].replay)

    def _capture(self, run: Callable[[], object], launches: int) -> Any:
        graph = self.torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for _ in range(launches):
                run()
        finally:
            graph.capture_end()
        graph.replay()  # the first one loads it
        return graph

    def _timed(self, run: Callable[[], object]) -> float:
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000


def main(benchmark: Benchmark, json: Path | None = None, image: Path | None = None) -> None:
    """Measure on the first GPU and print a table of the fastest.

    Args:
        benchmark: What to measure.
        json: Where all rows go.
        image: Where a picture goes.

    Raises:
        ImportError: PyTorch is not installed.
        RuntimeError: PyTorch sees no GPU.
    """
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch sees no GPU")
    name = torch.cuda.get_device_name(0)
    about = f"{name}, tilekit {tk.__version__}, PyTorch {torch.__version__}, medians of {benchmark.rounds} rounds"
    print(about, flush=True)
    try:
        with torch.cuda.stream(torch.cuda.Stream()):
            benchmark.run(lambda problem: make_data(problem, torch), Graphs(torch))
    finally:  # what was measured until an interruption is not lost
        print(markdown(best(benchmark.rows)), flush=True)
        if json is not None:
            json.write_text(as_json(benchmark.rows, about), encoding="utf-8")
    if image is not None:
        try:
            picture(benchmark.rows, image)
        except TilekitError as error:
            print(error.message)
