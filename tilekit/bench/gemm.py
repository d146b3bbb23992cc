"""Matrix products on a GPU, side by side with PyTorch's (cuBLAS): ``python -m tilekit bench gemm``."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tilekit as tk
from tilekit.bench.kernels import product_loop
from tilekit.cli.text import table
from tilekit.errors import TilekitError

SIZES = (1024, 2048, 4096)
ROUNDS = 7
LAUNCHES = 10
CUBLAS = "cuBLAS"
Tile = tuple[int, int, int]


@dataclass(frozen=True)
class Kind:
    """Dtypes of a product, and the tiles of which the fastest counts."""

    dtype: Any
    precision: str
    tiles: tuple[Tile, ...]


LARGE, MIDDLE, SMALL = (128, 256, 32), (128, 128, 32), (64, 64, 32)
KINDS = {
    "fp16": Kind(tk.float16, "default", (LARGE, MIDDLE, SMALL)),
    "bf16": Kind(tk.bfloat16, "default", (LARGE, MIDDLE, SMALL)),
    "tf32": Kind(tk.float32, "tf32", (LARGE, MIDDLE, SMALL)),
    "tf32x3": Kind(tk.float32, "tf32x3", (MIDDLE, SMALL)),
    "fp32": Kind(tk.float32, "default", (MIDDLE, SMALL)),
    "fp64": Kind(tk.float64, "default", (MIDDLE, SMALL)),
}


@dataclass
class Entry:
    """One way to compute a product: what launches it, where its result is, how long compiling and running took."""

    name: str
    run: Callable[[], object]
    result: Any
    cold: float | None = None
    seconds: float = 0.0


def _ours(kind: Kind, backend: str, tile: Tile, a: Any, b: Any, torch: Any) -> Entry:
    """Our product, launched once; ``cold`` is only that of a compilation if the cache on disk is off."""
    (m, n, k), size = tile, a.shape[0]
    kernel = product_loop(tk, kind.dtype, tk.float64 if kind.dtype is tk.float64 else tk.float32, tile, kind.precision)
    out = torch.empty_like(a)
    launch: dict[str, Any] = {"dim": [-(-size // m), -(-size // n)], "block_dim": 128, "device": "cuda:0"}
    with tk.config.scoped(gemm=backend):
        start = time.perf_counter()
        command: Any = tk.launch_tiled(kernel, inputs=[a, b, -(-size // k)], outputs=[out], record_cmd=True, **launch)
        command.launch()
        torch.cuda.synchronize()
    return Entry(f"{backend} {m}x{n}x{k}", command.launch, out, time.perf_counter() - start)


def _cublas(kind: Kind, a: Any, b: Any, torch: Any) -> Entry:
    torch.backends.cuda.matmul.allow_tf32 = kind.precision == "tf32"
    out = torch.empty_like(a)
    allowed = kind.precision == "tf32"

    def run() -> None:
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.matmul(a, b, out=out)

    return Entry(CUBLAS, run, out)


def _measure(entries: Sequence[Entry], torch: Any) -> None:
    """The median over alternating rounds, timed by the GPU."""
    times: dict[str, list[float]] = {entry.name: [] for entry in entries}
    for _ in range(ROUNDS + 1):
        for entry in entries:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(LAUNCHES):
                entry.run()
            end.record()
            end.synchronize()
            times[entry.name].append(begin.elapsed_time(end) / 1000 / LAUNCHES)
    for entry in entries:
        entry.seconds = statistics.median(times[entry.name][1:])  # the first round warms up


def _error(result: Any, exact: Any) -> float:
    """The largest error, relative to the largest element."""
    return float((result.double() - exact).abs().max() / exact.abs().max())


def _rows(name: str, size: int, backends: Sequence[str], torch: Any) -> Iterator[list[str]]:
    kind = KINDS[name]
    torch.manual_seed(0)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}[kind.dtype.short]
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    exact = a.double() @ b.double()
    entries = [_cublas(kind, a, b, torch)]
    for backend in backends:
        tiles = kind.tiles if backend in ("mma", "cublasdx") else kind.tiles[-1:]
        for tile in tiles:
            try:
                entries.append(_ours(kind, backend, tile, a, b, torch))
            except TilekitError as error:
                yield [name, str(size), f"{backend} {tile}", error.message, "", "", ""]
    _measure(entries, torch)
    base = entries[0].seconds
    for entry in entries:
        speed = f"{2 * size**3 / entry.seconds / 1e12:.1f}"
        cold = "" if entry.cold is None else f"{entry.cold:.2f}"
        found = _error(entry.result, exact)
        yield [name, str(size), entry.name, speed, f"{base / entry.seconds:.2f}", cold, f"{found:.1e}"]


HEAD = ["dtype", "size", "by", "TFLOP/s", "of cuBLAS", "first launch (s)", "error"]


def main(kinds: Sequence[str], sizes: Sequence[int], backends: Sequence[str]) -> None:
    """Print a table of the products asked for.

    Args:
        kinds: Some of :data:`KINDS`.
        sizes: Rows and columns of the square matrices.
        backends: Of ``tk.config.gemm``.

    Raises:
        ImportError: PyTorch is not installed.
        RuntimeError: PyTorch sees no GPU.
    """
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch sees no GPU")
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}, medians of {ROUNDS} alternating rounds")
    for name in kinds:
        rows = [row for size in sizes for row in _rows(name, size, backends, torch)]
        print(table(HEAD, rows), flush=True)
