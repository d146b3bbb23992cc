"""Attention on a GPU, beside PyTorch's: ``python -m tilekit bench attention``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import tilekit as tk
from tilekit.bench.formats import ARITHMETIC, FORMATS, Pair, largest_error
from tilekit.bench.launches import backward, backward_of_torch, forward, of_torch
from tilekit.bench.report import Report, compare, reporting
from tilekit.bench.rounds import Comparison, Contender, Entry, Graphs, torch_on_gpu

SDPA = "SDPA"
"""``torch.nn.functional.scaled_dot_product_attention``."""
POWERS = ("exp2", "exp")
"""Functions of the weights; before ``exp2`` the scale has the factor that makes it the same."""
HEADS, LENGTH, DEPTHS = 192, 4096, (128, 64)
Tile = tuple[int, int, int]
"""Queries of a block, keys of a step, and threads."""
TILE: Tile = (128, 64, 256)
LEAST = -1e30
"""Below every score: where a running maximum begins."""
CHECKED = 2
"""Heads whose results are compared with float64: the first ones."""
ROUNDINGS = 4
"""Of weights and of their gradients to the format, which sums then weigh."""


def attention(dtype: Any, total: Any, tile: tuple[int, int], depth: int, power: str) -> Any:
    """``softmax(q k^T / sqrt(depth)) v`` of each head, by running maxima and sums.

    Args:
        dtype: Of the arrays, and of the weights where they are multiplied.
        total: Of sums.
        tile: Queries of a block, and keys of a step.
        depth: Of a head.
        power: Of :data:`POWERS`.
    """
    rows, columns = tile
    exp = {"exp": tk.exp, "exp2": tk.exp2}[power]
    scale = depth**-0.5 * (math.log2(math.e) if power == "exp2" else 1.0)

    @tk.kernel
    def attention(
        q: tk.array3d[dtype], k: tk.array3d[dtype], v: tk.array3d[dtype], steps: int, out: tk.array3d[dtype]
    ) -> None:
        h, i = tk.tid()
        queries = tk.tile_load(q[h], shape=(rows, depth), offset=(i * rows, 0))
        most = tk.tile_full(shape=(rows, 1), value=LEAST, dtype=total)
        weight = tk.tile_zeros(shape=(rows, 1), dtype=total)
        found = tk.tile_zeros(shape=(rows, depth), dtype=total)
        for step in range(steps):
            keys = tk.tile_load(k[h], shape=(columns, depth), offset=(step * columns, 0))
            values = tk.tile_load(v[h], shape=(columns, depth), offset=(step * columns, 0))
            scores = tk.tile_zeros(shape=(rows, columns), dtype=total)
            tk.tile_matmul(queries, tk.tile_transpose(keys), scores, alpha=scale)
            now = tk.max(most, tk.tile_max(scores, axis=1, keepdims=True))
            kept = exp(most - now)
            weights = exp(scores - now)
            weight = weight * kept + tk.tile_sum(weights, axis=1, keepdims=True)
            found = found * kept
            tk.tile_matmul(tk.tile_astype(weights, dtype), values, found)
            most = now
        tk.tile_store(out[h], tk.tile_astype(found / weight, dtype), offset=(i * rows, 0))

    return attention


@dataclass(frozen=True)
class Problem:
    """Attention of some heads, each of as many queries as keys."""

    format: str
    depth: int
    heads: int = HEADS
    length: int = LENGTH
    way: str = "forward"

    @property
    def flops(self) -> int:
        """Multiplications and additions of the products: two forward, five backward, where scores are computed again.

        Example:
            >>> Problem("bf16", 64, 1, 128).flops, Problem("bf16", 64, 1, 128, "backward").flops
            (4194304, 10485760)
        """
        return (4 if self.way == "forward" else 10) * self.heads * self.length**2 * self.depth

    def __str__(self) -> str:
        words = f"attention {self.format} {self.heads} x {self.length} x {self.depth}"
        return words if self.way == "forward" else f"{words} {self.way}"


def exact_attention(q: Any, k: Any, v: Any, given: Any = None) -> list[Pair]:
    """The result of heads, or the gradients of their arrays, with sizes that errors are relative to.

    Args:
        q, k, v: Arrays of three dimensions, in float64.
        given: The gradient that comes in.
    """
    scale, (kt, vt) = q.shape[2] ** -0.5, (x.swapaxes(1, 2) for x in (k, v))
    weights = math.e ** (q @ kt * scale)
    weights = weights / weights.sum(2, keepdims=True)
    if given is None:
        return [(weights @ v, weights @ abs(v))]
    wt, above = weights.swapaxes(1, 2), given @ vt
    scores = weights * (above - (above * weights).sum(2, keepdims=True)) * scale
    size = weights * (abs(above) + (abs(above) * weights).sum(2, keepdims=True)) * scale
    return [
        (scores @ k, size @ abs(k)),
        (scores.swapaxes(1, 2) @ q, size.swapaxes(1, 2) @ abs(q)),
        (wt @ given, wt @ abs(given)),
    ]


class Data:
    """The arrays of a problem, and what its contenders share."""

    def __init__(self, torch: Any, problem: Problem, device: str = "cuda:0") -> None:
        torch.manual_seed(0)
        self.torch, self.problem, self.device = torch, problem, device
        shape, dtype = (
            (problem.heads, problem.length, problem.depth),
            getattr(torch, FORMATS[problem.format].dtype.name),
        )
        self.given = [torch.randn(*shape, device=device).to(dtype) for _ in range(3)]
        self.seed = torch.randn(*shape, device=device).to(dtype) if problem.way == "backward" else None
        self.out = torch.empty_like(self.given[0])

    @cached_property
    def exact(self) -> list[Pair]:
        """The results of the first heads in float64, and what their errors may be relative to."""
        first = [None if x is None else x[:CHECKED].double() for x in (*self.given, self.seed)]
        return exact_attention(*first)

    def error_of(self, entry: Entry) -> float:
        """The largest error of what an entry has computed, as a fraction of what is allowed there."""
        if not all(bool(each.isfinite().all()) for each in entry.result):
            return float("inf")
        form = FORMATS[self.problem.format]
        return largest_error(
            [each[:CHECKED] for each in entry.result], self.exact, form.unit, max(ARITHMETIC, ROUNDINGS * form.unit)
        )


def contenders(data: Data, tiles: Sequence[Tile], powers: Sequence[str]) -> Iterator[Contender]:
    """What competes on a problem, PyTorch's first."""
    yield Contender(SDPA, "", partial(_sdpa, data))
    for power, tile in product(powers, tiles):
        how = "x".join(map(str, tile))
        yield Contender(f"tilekit {power}", how, partial(_ours, data, power, tile, how))


def _sdpa(data: Data) -> Entry:
    def compute(*heads: Any) -> Any:
        return data.torch.nn.functional.scaled_dot_product_attention(*(x[None] for x in heads))[0]

    if data.seed is None:
        return of_torch(SDPA, compute, [data.given])
    return backward_of_torch(data.torch, SDPA, compute, [data.given], data.seed)


def _ours(data: Data, power: str, tile: Tile, how: str) -> Entry:
    problem, (rows, columns, threads) = data.problem, tile
    dtype = FORMATS[problem.format].dtype
    kernel = attention(dtype, tk.float32, (rows, columns), problem.depth, power)
    grid, sets = (problem.heads, problem.length // rows), [([*data.given, problem.length // columns], data.out)]
    given = f"tilekit {power}", how, kernel, grid, sets
    if data.seed is None:
        return forward(*given, threads, data.device)
    found = dict(zip("qkv", map(data.torch.zeros_like, data.given), strict=True))
    return backward(*given, [found], data.seed, threads, data.device)


def work(problem: Problem) -> tuple[float, dict[str, float]]:
    """The multiplications and additions of a problem, which are the same for all contenders."""
    return problem.flops, {}


def main(
    problems: Sequence[Problem],
    tiles: Sequence[Tile],
    powers: Sequence[str],
    comparison: Comparison,
    json: Path | None = None,
) -> None:
    """Measure on the first GPU and print a table.

    Args:
        problems: What to measure.
        tiles: Of a block.
        powers: Some of :data:`POWERS`.
        comparison: How.
        json: Where all rows go.

    Raises:
        ImportError: PyTorch is not installed.
        RuntimeError: PyTorch sees no GPU.
    """
    torch, report = torch_on_gpu(), Report("TFLOP/s", [SDPA])
    with reporting(torch, report, json):
        competing = partial(contenders, tiles=tiles, powers=powers)
        compare(problems, partial(Data, torch), competing, work, comparison, Graphs(torch), report)
