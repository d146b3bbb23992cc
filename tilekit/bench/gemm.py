"""Matrix products on a GPU, side by side with cuBLAS, Triton and Warp: ``python -m tilekit bench gemm``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import tilekit as tk
from tilekit.bench.gemm_contenders import PEERS, Data, contenders, make_data
from tilekit.bench.gemm_problems import BATCHES, KINDS, SIZES, Problem, problems
from tilekit.bench.gemm_report import HEAD, Row, as_json, best, markdown, picture, rows_of
from tilekit.bench.rounds import ROUNDS, Clock, Comparison, Entry, Graphs, brief, torch_on_gpu
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
        comparison = Comparison(self.rounds, self.budget, self.show, self.now)
        for problem in problems(self.kinds, self.sizes, self.batches):
            self.show(f"{problem}:")
            try:
                data = load(problem)
            except Exception as error:  # such as too little memory: the others may still do
                self.show(f"  left out: {brief(error)}")
                continue
            competing = contenders(problem, data, self.backends, self.peers)
            entries = comparison.measured(competing, clock, partial(_error, data))
            found = rows_of(problem, entries)
            self.rows += found
            self.show(table(HEAD[1:], [row.cells[1:] for row in found]))
        return self.rows


def _error(data: Data, entry: Entry) -> float:
    return error_of(entry.result, data.exact)


def error_of(result: Any, exact: Any) -> float:
    """The largest error, relative to the largest element; NaNs are infinitely wrong.

    Args:
        result: A tensor.
        exact: The same in float64.
    """
    part, right = result[:CHECKED_ROWS].double(), exact[:CHECKED_ROWS]
    found = float((part - right).abs().max() / right.abs().max())
    return found if found == found else float("inf")


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
    torch = torch_on_gpu()
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
