"""Ways to compute the products of ``python -m tilekit bench gemm``: tilekit's backends, PyTorch, Warp and Triton."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tilekit as tk
from tilekit.bench import kernels
from tilekit.bench.gemm_problems import KINDS, Problem, Tile
from tilekit.bench.gemm_report import CUBLAS, WARP
from tilekit.bench.gemm_triton import triton_product
from tilekit.bench.rounds import Contender, Entry
from tilekit.runtime.warp_names import import_warp

PEERS = ("cublas", "triton", "warp")
BATCH_THREADS = 128
WARP_OPTIONS = {"module": "unique", "module_options": {"enable_backward": False}}
"""The module's: a kernel's own ``enable_backward`` does not reach its products in Warp, which then take three times as
long to compile, and refuse bfloat16."""
TRITON_TILES = ((128, 256, 64, 8, 3), (128, 128, 32, 4, 4), (64, 64, 32, 4, 4))
"""Rows, columns, depth, warps and stages."""
TRITON_PRECISIONS = {"default": "ieee", "tf32": "tf32", "tf32x3": "tf32x3"}


@dataclass(frozen=True)
class Data:
    """Factors on the GPU, and their product in float64."""

    a: Any
    b: Any
    exact: Any
    torch: Any

    def empty(self) -> Any:
        """Where a result goes."""
        return self.torch.empty_like(self.a)


def make_data(problem: Problem, torch: Any) -> Data:
    """Normally distributed factors; those of a batch lie one below the other.

    Args:
        problem: What is computed.
        torch: PyTorch.
    """
    torch.manual_seed(0)
    kind, size, count = KINDS[problem.kind], problem.size, problem.count
    dtype = getattr(torch, kind.dtype.name)
    a, b = (torch.randn(size * count, size, device="cuda", dtype=dtype) for _ in range(2))
    left, right = (x.double().view(count, size, size) for x in (a, b))
    return Data(a, b, torch.bmm(left, right).view(size * count, size), torch)


def contenders(problem: Problem, data: Data, backends: Sequence[str], peers: Sequence[str]) -> Iterator[Contender]:
    """What competes on a problem, the quickest to compile first.

    Args:
        problem: What is computed.
        data: The factors.
        backends: Of ``tk.config.gemm``.
        peers: Some of :data:`PEERS`.
    """
    if "cublas" in peers:
        yield Contender(CUBLAS, "", partial(_cublas, problem, data))
    for backend in backends:
        for tile in problem.tiles if backend != "scalar" else problem.tiles[-1:]:
            yield Contender(f"tilekit {backend}", _named(tile), partial(_ours, problem, data, backend, tile))
    if "triton" in peers and problem.count == 1:
        for how in TRITON_TILES:
            yield Contender("Triton", _named(how[:3]), partial(_triton, problem, data, how))
    if "warp" in peers and KINDS[problem.kind].precision != "tf32x3":
        tile, threads = KINDS[problem.kind].warp
        if problem.count > 1:
            tile, threads = problem.tiles[0], BATCH_THREADS
        yield Contender(WARP, _named(tile), partial(_warp, problem, data, tile, threads))


def _named(tile: Sequence[int]) -> str:
    return "x".join(map(str, tile))


def _started(by: str, how: str, run: Callable[[], object], result: Any, torch: Any, begin: float) -> Entry:
    """An entry that was launched once; the time since ``begin`` is that of a compilation, where no cache has it."""
    run()
    torch.cuda.synchronize()
    return Entry(by, how, run, result, time.perf_counter() - begin)


def _grid(problem: Problem, tile: Tile) -> tuple[tuple[int, ...], int]:
    """The blocks of a kernel, and its steps along k."""
    if problem.count > 1:
        return (problem.count,), 1
    (m, n, k), size = tile, problem.size
    return (-(-size // m), -(-size // n)), -(-size // k)


def _maker(problem: Problem) -> Callable[..., Any]:
    return kernels.product_loop if problem.count == 1 else kernels.product_batch


def _ours(problem: Problem, data: Data, backend: str, tile: Tile) -> Entry:
    kind, out = KINDS[problem.kind], data.empty()
    own = {"enable_backward": False, "module_options": {"gemm": backend}}  # the kernel's, so that each launch has it
    kernel = _maker(problem)(tk, kind.dtype, kind.total, tile, kind.precision, **own)
    grid, steps = _grid(problem, tile)
    begin = time.perf_counter()
    given: dict[str, Any] = {"inputs": [data.a, data.b, steps], "outputs": [out], "block_dim": BATCH_THREADS}
    command: Any = tk.launch_tiled(kernel, dim=grid, device="cuda:0", record_cmd=True, **given)
    return _started(f"tilekit {backend}", _named(tile), command.launch, out, data.torch, begin)


def _cublas(problem: Problem, data: Data) -> Entry:
    torch, out, size = data.torch, data.empty(), problem.size
    allowed = KINDS[problem.kind].precision == "tf32"
    a, b, c = (x.view(problem.count, size, size) for x in (data.a, data.b, out))

    def run() -> None:
        torch.backends.cuda.matmul.allow_tf32 = allowed
        if problem.count == 1:
            torch.matmul(data.a, data.b, out=out)
        else:
            torch.bmm(a, b, out=c)

    return _started(CUBLAS, "", run, out, torch, time.perf_counter())


def _warp(problem: Problem, data: Data, tile: Tile, threads: int) -> Entry:
    warp, kind, out = import_warp(), KINDS[problem.kind], data.empty()
    names = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
    dtype, total = (getattr(warp, names[each.short]) for each in (kind.dtype, kind.total))
    kernel = _maker(problem)(warp, dtype, total, tile, kind.precision, **WARP_OPTIONS)
    grid, steps = _grid(problem, tile)
    arrays = [warp.from_torch(array, dtype=dtype) for array in (data.a, data.b, out)]
    stream = warp.stream_from_torch(data.torch.cuda.current_stream())
    begin = time.perf_counter()
    how = {"dim": grid, "block_dim": threads, "device": "cuda:0", "stream": stream, "record_cmd": True}
    command = warp.launch_tiled(kernel, inputs=[*arrays[:2], steps], outputs=arrays[2:], **how)
    return _started(WARP, _named(tile), lambda: command.launch(stream=stream), out, data.torch, begin)


def _triton(problem: Problem, data: Data, tile: tuple[int, ...]) -> Entry:
    importlib.import_module("triton")
    out, precision = data.empty(), TRITON_PRECISIONS[KINDS[problem.kind].precision]
    begin = time.perf_counter()
    run = triton_product(data.a, data.b, out, tile, precision)
    return _started("Triton", _named(tile[:3]), run, out, data.torch, begin)
