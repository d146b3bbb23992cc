"""Forward and backward of a product on a GPU, beside PyTorch's: ``python -m tilekit.bench.gradients``.

Times are of a forward and a backward launch. The gradient that comes in is copied before each backward launch, as that
takes it; PyTorch's needs no such copy, and it is part of tilekit's time. ``--compile`` measures how long a forward and
its adjoint take to compile, which needs no GPU.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import tilekit as tk
from tilekit.bench import kernels
from tilekit.bench.copies import on_a_gpu, seconds
from tilekit.bench.gemm_problems import KINDS, Tile
from tilekit.cli.text import table
from tilekit.runtime.adjoint import prepare_adjoint
from tilekit.runtime.warp_names import import_warp

THREADS = 128
SAME = 100
"""Backward launches that must give the same bits."""
COMPILED: tuple[tuple[str, str], ...] = (("fp32", "scalar"), ("tf32", "mma"), ("bf16", "mma"))
"""Kinds and backends of the products whose compilation is timed, in tiles of 64x64x64."""


class Ours:
    """A product and its gradients by tilekit."""

    def __init__(self, torch: Any, kind: str, tile: Tile, a: Any, b: Any, seed: Any) -> None:
        self.a, self.b, self.seed = a, b, seed
        self.out, self.given = torch.empty_like(a), torch.empty_like(seed)
        self.found = {"a": torch.zeros_like(a), "b": torch.zeros_like(b)}
        (m, n, k), size = tile, a.shape[0]
        kernel = kernels.product_loop(tk, KINDS[kind].dtype, KINDS[kind].total, tile, KINDS[kind].precision)
        grid, steps = (-(-size // m), -(-size // n)), -(-size // k)
        arrays: dict[str, Any] = {"inputs": [a, b, steps], "outputs": [self.out]}
        self.forward: Any = tk.launch_tiled(kernel, grid, device="cuda:0", block_dim=THREADS, record_cmd=True, **arrays)
        given = {**self.found, "c": self.given}
        self.backward = prepare_adjoint(kernel, grid, [a, b, steps, self.out], given, "cuda:0", THREADS, True)

    def run(self) -> None:
        """A forward and a backward launch."""
        self.forward.launch()
        self.given.copy_(self.seed)
        self.backward.run(None)

    def gradients(self) -> list[Any]:
        """Those of one backward launch."""
        for found in self.found.values():
            found.zero_()
        self.given.copy_(self.seed)
        self.backward.run(None)
        return [found.clone() for found in self.found.values()]


def measure(torch: Any, kind: str, size: int, warp: bool) -> None:
    """Print a table for one kind of product, after checks of every gradient."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = KINDS[kind].precision == "tf32"
    dtype = getattr(torch, KINDS[kind].dtype.name)
    a, b, seed = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(3))
    exact = [seed.double() @ b.double().T, a.double().T @ seed.double()]
    runs: dict[str, Callable[[], object]] = {"PyTorch": _peer(torch, a, b, seed)}
    notes = {"PyTorch": ""}
    for tile in KINDS[kind].tiles:
        name = "x".join(map(str, tile))
        begin = time.perf_counter()
        ours = Ours(torch, kind, tile, a, b, seed)
        ours.run()
        torch.cuda.synchronize()
        first = ours.gradients()
        same = all(torch.equal(x, y) for _ in range(SAME) for x, y in zip(ours.gradients(), first, strict=True))
        errors = [float((x.double() - y).abs().max() / y.abs().max()) for x, y in zip(first, exact, strict=True)]
        cold = f"compiled in {time.perf_counter() - begin:.1f} s"
        notes[name] = f"{'same bits' if same else 'OTHER BITS'} {SAME} times, error {max(errors):.1e}, {cold}"
        runs[name] = ours.run
    if warp:
        runs["Warp"], notes["Warp"] = _warp(kind, a, b, seed), ""
    took = seconds(torch, list(runs.values()))
    rates = [3 * 2 * size**3 / each / 1e12 for each in took]
    rows = [[n, f"{r:.1f}", f"{r / rates[0]:.2f}", notes[n]] for n, r in zip(runs, rates, strict=True)]
    print(f"\n{kind} {size}^3, forward and backward")
    print(table(["", "TFLOP/s", "of PyTorch", ""], rows))


def _peer(torch: Any, a: Any, b: Any, seed: Any) -> Callable[[], object]:
    left, right = a.clone().requires_grad_(), b.clone().requires_grad_()
    return lambda: torch.autograd.grad(left @ right, (left, right), seed)


def _warp(kind: str, a: Any, b: Any, seed: Any) -> Callable[[], object]:
    """Warp's tape, with the tile that is fastest forward; it compiles for a minute or two."""
    wp, (tile, threads) = import_warp(), KINDS[kind].warp
    dtype = {"f32": wp.float32, "f16": wp.float16}[KINDS[kind].dtype.short]
    kernel = kernels.product_loop(wp, dtype, wp.float32, tile, KINDS[kind].precision, module="unique")
    (m, n, k), size = tile, a.shape[0]
    left, right = (wp.from_torch(x, dtype=dtype, requires_grad=True) for x in (a, b))
    out = wp.zeros((size, size), dtype=dtype, device="cuda:0", requires_grad=True)
    given, tape = wp.from_torch(seed, dtype=dtype), wp.Tape()
    with tape:
        wp.launch_tiled(kernel, (-(-size // m), -(-size // n)), [left, right, -(-size // k)], [out], block_dim=threads)

    def run() -> None:
        wp.launch_tiled(kernel, (-(-size // m), -(-size // n)), [left, right, -(-size // k)], [out], block_dim=threads)
        tape.backward(grads={out: given})

    return run


def compile_times(arch: str = "90a") -> list[list[str]]:
    """Seconds that a forward and its adjoint take to compile, without a cache, launches of one program in parallel.

    Args:
        arch: Of the GPU.

    Returns:
        A row for each of :data:`COMPILED`: kind, backend, forward, adjoint, both.
    """
    rows = []
    for kind, backend in COMPILED:
        with tempfile.TemporaryDirectory() as folder, tk.config.scoped(cache_dir=folder, gemm=backend):
            kernel = kernels.product_loop(tk, KINDS[kind].dtype, KINDS[kind].total, (64, 64, 64), KINDS[kind].precision)
            begin = time.perf_counter()
            forward = tk.compile(kernel, arch=arch, block_dim=THREADS)
            middle = time.perf_counter()
            forward.adjoint.build()
            end = time.perf_counter()
        took = (middle - begin, end - middle, end - begin)
        rows.append([kind, backend, *(f"{each:.2f} s" for each in took)])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 where there is something to measure."""
    parser = argparse.ArgumentParser(prog="python -m tilekit.bench.gradients", description=__doc__)
    parser.add_argument("kinds", nargs="*", help="tf32, bf16 by default; also fp16, tf32x3, fp32, fp64")
    parser.add_argument("--size", type=int, default=4096, help="rows and columns (4096)")
    parser.add_argument("--warp", action="store_true", help="Warp as well, where it can: it compiles for a minute")
    parser.add_argument("--compile", action="store_true", help="time compilations instead")
    given = parser.parse_args(arguments)
    if given.compile:
        print(table(["kind", "backend", "forward", "adjoint", "both"], compile_times()))
        return 0

    def run(torch: Any) -> None:
        for kind in given.kinds or ("tf32", "bf16"):
            measure(torch, kind, given.size, given.warp and KINDS[kind].dtype.short in ("f32", "f16"))

    return on_a_gpu(run)


if __name__ == "__main__":
    raise SystemExit(main())
