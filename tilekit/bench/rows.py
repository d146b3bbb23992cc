"""Kernels of rows on a GPU, beside a copy, PyTorch and Triton: ``python -m tilekit bench rows``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import tilekit as tk
from tilekit.bench.formats import FORMATS
from tilekit.bench.report import Report, compare, reporting
from tilekit.bench.rounds import Clock, Comparison, Entry, Graphs, attempt, torch_on_gpu
from tilekit.bench.rows_contenders import COPY, OURS, TORCH, TRITON, Data, contenders, kernel_of
from tilekit.bench.rows_problems import KINDS, Block, Problem
from tilekit.runtime.adjoint import prepare_adjoint
from tilekit.runtime.parallel import in_parallel

REFERENCES = (COPY, TORCH, TRITON)


def compile_ahead(torch: Any, device: str, problems: Sequence[Problem]) -> None:
    """Compile the kernels of rows on all CPUs, by launches over no block; one that fails does so again where it is
    measured."""

    def compiled(problem: Problem, block: Block) -> None:
        (rows, threads), columns = block, problem.shape[1]
        kernel, dtype = kernel_of(problem.kind, problem.format, rows, columns), FORMATS[problem.format].dtype
        shapes = [(2 * rows, columns), *[(columns,)] * KINDS[problem.kind].vectors, (2 * rows, columns)]
        arrays = [torch.zeros(shape, device=device, dtype=getattr(torch, dtype.name)) for shape in shapes]
        tk.launch_tiled(kernel, 0, arrays[:-1], arrays[-1:], device=device, block_dim=threads)
        if problem.way == "backward":
            gradients = {name: torch.zeros_like(x) for name, x in zip(kernel.parameters, arrays, strict=True)}
            prepare_adjoint(kernel, 1, arrays, gradients, device, threads, True)

    entries = [
        (problem, block, Entry(OURS, "", lambda: None, None))
        for problem in problems
        if problem.kind in KINDS
        for block in problem.blocks
    ]
    in_parallel([partial(attempt, entry, partial(compiled, problem, block)) for problem, block, entry in entries])


def run(
    problems: Sequence[Problem],
    peers: Sequence[str],
    load: Callable[[Problem], Data],
    comparison: Comparison,
    clock: Clock,
    report: Report,
    ahead: Callable[[Sequence[Problem]], None],
) -> None:
    """Measure problems, and show each as it is done.

    Args:
        problems: In order, those forward first.
        peers: Those beside a copy.
        load: Gives the arrays of a problem.
        comparison: How contenders are compared.
        clock: What times launches.
        report: Where the rows go.
        ahead: Compiles kernels of problems side by side.
    """
    for _, group in groupby(problems, lambda problem: problem.way):
        together = list(group)
        if not comparison.spent:
            ahead(together)
        compare(together, load, partial(contenders, peers=peers), _work, comparison, clock, report)


def _work(problem: Problem) -> tuple[float, Mapping[str, float]]:
    return problem.moved, {COPY: 2 * problem.size}


def main(problems: Sequence[Problem], peers: Sequence[str], comparison: Comparison, json: Path | None = None) -> None:
    """Measure on the first GPU and print a table.

    Args:
        problems: What to measure.
        peers: Some of :data:`~tilekit.bench.rows_contenders.PEERS`.
        comparison: How.
        json: Where all rows go.

    Raises:
        ImportError: PyTorch is not installed.
        RuntimeError: PyTorch sees no GPU.
    """
    torch, report = torch_on_gpu(), Report("GB/s", REFERENCES)
    with reporting(torch, report, json):
        load, ahead = partial(Data, torch), partial(compile_ahead, torch, "cuda:0")
        run(problems, peers, load, comparison, Graphs(torch), report, ahead)
