"""Ways to compute the problems of ``python -m tilekit bench rows``: tilekit, a copy, PyTorch and Triton."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial
from typing import Any

import tilekit as tk
from tilekit.bench import rows_kernels
from tilekit.bench.formats import ARITHMETIC, FORMATS, Pair, largest_error
from tilekit.bench.launches import Sets, backward, backward_of_torch, commands, forward, of_torch, spoil, started
from tilekit.bench.rounds import Contender, Entry
from tilekit.bench.rows_kernels import EPSILON
from tilekit.bench.rows_problems import KINDS, Block, Problem
from tilekit.bench.rows_triton import triton_blocks, triton_rows

COPY, TORCH, TRITON, OURS = "copy", "PyTorch", "Triton", "tilekit"
PEERS = ("torch", "triton")
ROTATED = 256 << 20
"""Bytes of inputs that launches go through before they come to the first again: several times a cache."""
MOST_SETS, BACKWARD_SETS = 8, 4
SUMMED, PARTS = (32, 128), 16
"""Rows and columns that a block of a column sum loads at once, and the parts of the rows that blocks share."""
SQUARE = 64
"""Rows and columns that a block transposes."""
MATRIX_THREADS = 128


class Data:
    """The arrays of a problem on the GPU, and what its contenders share."""

    def __init__(self, torch: Any, problem: Problem, device: str = "cuda:0") -> None:
        torch.manual_seed(0)
        self.torch, self.problem, self.device = torch, problem, device
        backward = problem.way == "backward"
        sets = max(BACKWARD_SETS if backward else 1, min(MOST_SETS, -(-ROTATED // problem.size)))
        self.dtype = getattr(torch, FORMATS[problem.format].dtype.name)
        self.xs = [self.normal(*problem.shape) for _ in range(sets)]
        self.outs = [torch.full_like(x, float("nan")) for x in self.xs]
        vectors = KINDS[problem.kind].vectors if problem.kind in KINDS else 0
        self.vectors = [self.normal(problem.shape[1]) for _ in range(vectors)]
        self.seed: Any = self.normal(*problem.shape) if backward else None
        self._bits: dict[int, Any] = {}

    def normal(self, *shape: int) -> Any:
        """Normally distributed numbers."""
        return self.torch.randn(*shape, device=self.device).to(self.dtype)

    @cached_property
    def exact(self) -> list[Pair]:
        """The results of the first set in float64."""
        x, problem = self.xs[0].double(), self.problem
        if problem.kind == "column_sum":
            return [(x.sum(0), abs(x).sum(0))]
        vectors, kind = [each.double() for each in self.vectors], KINDS[problem.kind]
        return kind.wanted(x, *vectors) if self.seed is None else kind.gradients(self.seed.double(), x, *vectors)

    def error_of(self, entry: Entry) -> float:
        """The largest error of what an entry has computed, as a fraction of what is allowed there."""
        if entry.by == COPY or self.problem.kind == "transpose":
            wanted = self.xs[0] if entry.by == COPY else self.xs[0].t()
            return 0.0 if self.torch.equal(entry.result[0], wanted) else float("inf")
        form = FORMATS["fp32"] if self.problem.kind == "column_sum" else FORMATS[self.problem.format]
        self._note_bits(entry)
        # PyTorch may also round between its operations, as the result that its backward pass of softmax starts from.
        between = 2 * form.unit if entry.by == TORCH else 0.0
        return largest_error(entry.result, self.exact, form.unit, max(ARITHMETIC, between))

    def _note_bits(self, entry: Entry) -> None:
        """Say where another number of threads gives other bits; the first one's are kept."""
        if len(self.problem.blocks) > 1 and entry.by.startswith(OURS):
            rows = int(entry.how.partition("x")[0])
            first = self._bits.setdefault(rows, entry.result[0].clone())
            entry.how += "" if self.torch.equal(entry.result[0], first) else ", other bits"


def contenders(data: Data, peers: Sequence[str]) -> Iterator[Contender]:
    """What competes on a problem, the copy first."""
    problem = data.problem
    yield Contender(COPY, "", partial(_copy, data))
    for block in problem.blocks or ((0, MATRIX_THREADS),):
        how = f"{block[0]}x{block[1]}" if problem.blocks else ""
        by = OURS if len(problem.blocks) < 2 else f"{OURS} {how}"
        make = MATRICES.get(problem.kind, _rows)
        yield Contender(by, how, partial(make, data, block, by, how))
    if "torch" in peers:
        yield Contender(TORCH, "", partial(_torch, data))
    if "triton" in peers and problem.kind in KINDS and problem.way == "forward":
        for block in triton_blocks(problem.shape[1]):
            yield Contender(TRITON, f"{block[0]}x{block[1] * 32}", partial(_triton, data, block))


@cache
def kernel_of(kind: str, form: str, rows: int, columns: int) -> Any:
    """The kernel of a problem, which forward and backward share."""
    return KINDS[kind].kernel(FORMATS[form].dtype, tk.float32, rows, columns)


def _sets(data: Data, more: Sequence[Any], outs: Sequence[Any]) -> Sets:
    return [([x, *more], out) for x, out in zip(data.xs, outs, strict=True)]


def _copy(data: Data) -> Entry:
    runs = [partial(out.copy_, x) for x, out in zip(data.xs, data.outs, strict=True)]
    return started(COPY, "", runs, data.outs[:1])


def _rows(data: Data, block: Block, by: str, how: str) -> Entry:
    (rows, threads), (count, columns), problem = block, data.problem.shape, data.problem
    kernel, grid = kernel_of(problem.kind, problem.format, rows, columns), -(-count // rows)
    given = kernel, grid, _sets(data, data.vectors, data.outs)
    if data.seed is None:
        return forward(by, how, *given, threads, data.device)
    shared, names = [data.torch.zeros_like(each) for each in data.vectors], list(kernel.parameters)
    found = [dict(zip(names, [data.torch.zeros_like(x), *shared], strict=False)) for x in data.xs]
    return backward(by, how, *given, found, data.seed, threads, data.device)


def _column_sum(data: Data, block: Block, by: str, how: str) -> Entry:
    """Blocks sum parts of the rows, and then others their sums."""
    (count, columns), (rows, width), threads = data.problem.shape, SUMMED, block[1]
    dtype = FORMATS[data.problem.format].dtype
    first = rows_kernels.column_sum(dtype, tk.float32, rows, width)
    last = rows_kernels.column_sum(tk.float32, tk.float32, PARTS, width)
    parts, out = (data.torch.full((n, columns), float("nan"), device=data.device) for n in (PARTS, 1))
    steps, across = -(-count // (rows * PARTS)), -(-columns // width)
    begun = commands(first, (PARTS, across), _sets(data, [steps], [parts] * len(data.xs)), threads, data.device)
    (ended,) = commands(last, (1, across), [([parts, 1], out)], threads, data.device)

    def both(command: Any) -> None:
        command.launch()
        ended.launch()

    return started(by, how, [partial(both, each) for each in begun], [out[0]])


def _transpose(data: Data, block: Block, by: str, how: str) -> Entry:
    kernel = rows_kernels.transpose(FORMATS[data.problem.format].dtype, SQUARE)
    grid = tuple(-(-extent // SQUARE) for extent in data.problem.shape)
    outs = [out.view(*reversed(data.problem.shape)) for out in data.outs]
    return forward(by, how, kernel, grid, _sets(data, [], outs), block[1], data.device)


MATRICES: dict[str, Callable[[Data, Block, str, str], Entry]] = {"column_sum": _column_sum, "transpose": _transpose}


def _torch(data: Data) -> Entry:
    torch, problem = data.torch, data.problem
    functions, width = torch.nn.functional, problem.shape[1:]
    made: dict[str, Callable[..., Any]] = {
        "softmax": lambda x: torch.softmax(x, 1),
        "layer_norm": lambda x, weight, bias: functions.layer_norm(x, width, weight, bias, EPSILON),
        "rms_norm": lambda x, weight: functions.rms_norm(x, width, weight, EPSILON),
        "column_sum": lambda x: x.sum(0, dtype=torch.float32),
        "transpose": lambda x: x.t().contiguous(),
    }
    sets = [[x, *data.vectors] for x in data.xs]
    if data.seed is None:
        return of_torch(TORCH, made[problem.kind], sets)
    return backward_of_torch(torch, TORCH, made[problem.kind], sets, data.seed)


def _triton(data: Data, block: tuple[int, int]) -> Entry:
    spoil(data.outs)
    sets = _sets(data, data.vectors, data.outs)
    runs = [triton_rows(data.problem.kind, [*inputs, out], block) for inputs, out in sets]
    return started(TRITON, f"{block[0]}x{block[1] * 32}", runs, data.outs[:1])
