"""A linear layer with bias, GELU and a residual on a GPU, in one kernel: ``python -m tilekit bench epilogue``."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import tilekit as tk
from tilekit.bench import kernels
from tilekit.bench.formats import ARITHMETIC, FORMATS, Pair, largest_error
from tilekit.bench.gemm_problems import Tile
from tilekit.bench.launches import Sets, forward, of_torch
from tilekit.bench.report import Report, compare, reporting
from tilekit.bench.rounds import Comparison, Contender, Entry, Graphs, torch_on_gpu
from tilekit.cli.text import table

PRODUCT, OURS, EAGER, COMPILED = "plain product", "tilekit", "PyTorch", "torch.compile"
PEERS = ("torch", "compile")
GELUS = {"erf": "none", "tanh": "tanh"}
"""Forms of GELU, and PyTorch's names for them."""
SIZE = 4096
TILES: tuple[Tile, ...] = ((128, 128, 32), (128, 256, 32))
THREADS = 128
SLOPE = 1.2
"""Above the steepest slope of GELU, which errors before it are multiplied by."""


def linear(dtype: Any, total: Any, tile: Tile, gelu: str, **options: Any) -> Any:
    """``gelu(x @ w + bias) + residual``; ``options`` are the kernel's."""
    m, n, k = tile
    exact, root, slope = gelu == "erf", math.sqrt(0.5), math.sqrt(2 / math.pi)

    @tk.kernel(**options)  # type: ignore[untyped-decorator]
    def linear(
        x: tk.array2d[dtype],
        w: tk.array2d[dtype],
        bias: tk.array1d[dtype],
        residual: tk.array2d[dtype],
        steps: int,
        out: tk.array2d[dtype],
    ) -> None:
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(m, n), dtype=total)
        for step in range(steps):
            a = tk.tile_load(x, shape=(m, k), offset=(i * m, step * k))
            b = tk.tile_load(w, shape=(k, n), offset=(step * k, j * n))
            tk.tile_matmul(a, b, acc)
        t = acc + tk.tile_astype(tk.tile_load(bias, shape=n, offset=j * n), total)[None, :]
        if exact:
            t = 0.5 * t * (1.0 + tk.erf(t * root))
        else:
            t = 0.5 * t * (1.0 + tk.tanh(slope * (t + 0.044715 * t * t * t)))
        t = t + tk.tile_astype(tk.tile_load(residual, shape=(m, n), offset=(i * m, j * n)), total)
        tk.tile_store(out, tk.tile_astype(t, dtype), offset=(i * m, j * n))

    return linear


@dataclass(frozen=True)
class Problem:
    """A layer whose matrices are square."""

    format: str = "bf16"
    size: int = SIZE
    gelu: str = "erf"

    @property
    def flops(self) -> int:
        """Multiplications and additions of the product."""
        return 2 * self.size**3

    def __str__(self) -> str:
        return f"linear, bias, GELU ({self.gelu}), residual {self.format} {self.size}^3"


class Data:
    """The arrays of a problem, and what its contenders share."""

    def __init__(self, torch: Any, problem: Problem, device: str = "cuda:0") -> None:
        torch.manual_seed(0)
        self.torch, self.problem, self.device, size = torch, problem, device, problem.size
        dtype = getattr(torch, FORMATS[problem.format].dtype.name)
        shapes = (size, size), (size, size), (size,), (size, size)
        x, w, bias, residual = (torch.randn(*shape, device=device) for shape in shapes)
        self.given = [each.to(dtype) for each in (x, w / size**0.5, bias, residual)]
        self.out = torch.empty_like(self.given[0])

    @cached_property
    def exact(self) -> dict[bool, list[Pair]]:
        """Results in float64: of the product alone, and of the layer."""
        x, w, bias, residual = (each.double() for each in self.given)
        found, size = x @ w, abs(x) @ abs(w)
        gelu = self.torch.nn.functional.gelu(found + bias, approximate=GELUS[self.problem.gelu])
        return {True: [(found, size)], False: [(gelu + residual, SLOPE * (size + abs(bias)) + abs(residual))]}

    def error_of(self, entry: Entry) -> float:
        """The largest error of what an entry has computed, as a fraction of what is allowed there."""
        unit = FORMATS[self.problem.format].unit
        between = unit if entry.by in (EAGER, COMPILED) else 0.0  # PyTorch may also round between its operations
        return largest_error(entry.result, self.exact[entry.by == PRODUCT], unit, max(ARITHMETIC, between))


def contenders(data: Data, tiles: Sequence[Tile], backend: str, peers: Sequence[str]) -> Iterator[Contender]:
    """What competes on a problem: the layer and the product alone, tile by tile, then PyTorch."""
    for tile in tiles:
        how = "x".join(map(str, tile))
        yield Contender(PRODUCT, how, partial(_ours, data, PRODUCT, tile, backend, how))
        yield Contender(OURS, how, partial(_ours, data, OURS, tile, backend, how))
    if "torch" in peers:
        yield Contender(EAGER, "", partial(_torch, data, False))
    if "compile" in peers:
        yield Contender(COMPILED, "", partial(_torch, data, True))


def kernel_of(problem: Problem, by: str, tile: Tile, backend: str) -> Any:
    """The kernel of the layer, or of its product alone."""
    dtype = FORMATS[problem.format].dtype
    own: dict[str, Any] = {"enable_backward": False, "module_options": {"gemm": backend}}
    if by == PRODUCT:
        return kernels.product_loop(tk, dtype, tk.float32, tile, **own)
    return linear(dtype, tk.float32, tile, problem.gelu, **own)


def _ours(data: Data, by: str, tile: Tile, backend: str, how: str) -> Entry:
    size, kernel = data.problem.size, kernel_of(data.problem, by, tile, backend)
    grid, steps = tuple(-(-size // extent) for extent in tile[:2]), -(-size // tile[2])
    sets: Sets = [([*data.given[: 2 if by == PRODUCT else 4], steps], data.out)]
    return _timed(lambda: forward(by, how, kernel, grid, sets, THREADS, data.device))


def _torch(data: Data, compiled: bool) -> Entry:
    functions, form = data.torch.nn.functional, GELUS[data.problem.gelu]

    def layer(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        return functions.gelu(data.torch.addmm(bias, x, w), approximate=form) + residual

    compute = data.torch.compile(layer) if compiled else layer
    return _timed(lambda: of_torch(COMPILED if compiled else EAGER, compute, [data.given]))


def _timed(make: Callable[[], Entry]) -> Entry:
    """An entry with the time of its first launch, which compiles: there is nothing in the cache."""
    begin = time.perf_counter()
    entry = make()
    tk.synchronize()
    entry.cold = time.perf_counter() - begin
    return entry


def work(problem: Problem) -> tuple[float, dict[str, float]]:
    """The multiplications and additions of a problem, which are the same for all contenders."""
    return problem.flops, {}


def compile_times(problem: Problem, tiles: Sequence[Tile], backend: str, arch: str = "90a") -> list[list[str]]:
    """Seconds that the product alone and the layer take to compile, without a cache.

    Args:
        problem: What is computed.
        tiles: Of a block.
        backend: A value of the option ``gemm``.
        arch: Of the GPU, which need not be there.

    Returns:
        A row for each tile.
    """
    rows = []
    for tile in tiles:
        took = []
        for by in (PRODUCT, OURS):
            with tempfile.TemporaryDirectory() as folder, tk.config.scoped(cache_dir=folder):
                begin = time.perf_counter()
                tk.compile(kernel_of(problem, by, tile, backend), arch=arch, block_dim=THREADS)
                took.append(f"{time.perf_counter() - begin:.2f} s")
        rows.append(["x".join(map(str, tile)), *took])
    return rows


def show_compile_times(problem: Problem, tiles: Sequence[Tile], backend: str) -> None:
    """Print a table of :func:`compile_times`."""
    print(table(["tile", PRODUCT, OURS], compile_times(problem, tiles, backend)))


def main(
    problem: Problem,
    tiles: Sequence[Tile],
    backend: str,
    peers: Sequence[str],
    comparison: Comparison,
    json: Path | None = None,
) -> None:
    """Measure on the first GPU and print a table.

    Args:
        problem: What to measure.
        tiles: Of a block.
        backend: A value of the option ``gemm``.
        peers: Some of :data:`PEERS`.
        comparison: How.
        json: Where all rows go.

    Raises:
        ImportError: PyTorch is not installed.
        RuntimeError: PyTorch sees no GPU.
    """
    torch, report = torch_on_gpu(), Report("TFLOP/s", [PRODUCT, EAGER, COMPILED])
    competing = partial(contenders, tiles=tiles, backend=backend, peers=peers)
    with tempfile.TemporaryDirectory() as folder, tk.config.scoped(cache_dir=folder), reporting(torch, report, json):
        compare([problem], partial(Data, torch), competing, work, comparison, Graphs(torch), report)
