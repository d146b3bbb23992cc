"""Gradients of fused layers on a GPU, beside PyTorch's: ``python -m tilekit.bench.layers``.

Times are of a forward and a backward launch; every gradient is checked against PyTorch's in float64. The gradient that
comes in is copied before each backward launch, as that takes it; PyTorch's needs no such copy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import tilekit as tk
from tilekit.bench.copies import on_a_gpu, seconds
from tilekit.cli.text import table
from tilekit.runtime.adjoint import prepare_adjoint

THREADS = 128
LEAST = -1e30
"""Below every score: where a running maximum begins."""


def attention(dtype: Any, total: Any, rows: int, columns: int, depth: int) -> Any:
    """``softmax(q k^T * scale) v`` by running maxima and sums, ``rows`` queries a block, ``columns`` keys a step."""

    @tk.kernel
    def attention(
        q: tk.array2d[dtype],
        k: tk.array2d[dtype],
        v: tk.array2d[dtype],
        scale: float,
        steps: int,
        out: tk.array2d[dtype],
    ) -> None:
        i = tk.tid()
        queries = tk.tile_load(q, shape=(rows, depth), offset=(i * rows, 0))
        most = tk.tile_full(shape=(rows, 1), value=LEAST, dtype=total)
        weight = tk.tile_zeros(shape=(rows, 1), dtype=total)
        found = tk.tile_zeros(shape=(rows, depth), dtype=total)
        for step in range(steps):
            keys = tk.tile_load(k, shape=(columns, depth), offset=(step * columns, 0))
            values = tk.tile_load(v, shape=(columns, depth), offset=(step * columns, 0))
            scores = tk.tile_zeros(shape=(rows, columns), dtype=total)
            tk.tile_matmul(queries, tk.tile_transpose(keys), scores, alpha=scale)
            now = tk.tile_map(tk.max, most, tk.tile_reshape(tk.tile_max(scores, axis=1), shape=(rows, 1)))
            kept = tk.tile_map(tk.exp, most - now)
            weights = tk.tile_map(tk.exp, scores - tk.tile_broadcast(now, shape=(rows, columns)))
            weight = weight * kept + tk.tile_reshape(tk.tile_sum(weights, axis=1), shape=(rows, 1))
            found = found * tk.tile_broadcast(kept, shape=(rows, depth))
            tk.tile_matmul(tk.tile_astype(weights, dtype), values, found)
            most = now
        found = found / tk.tile_broadcast(weight, shape=(rows, depth))
        tk.tile_store(out, tk.tile_astype(found, dtype), offset=(i * rows, 0))

    return attention


def layer_norm(dtype: Any, total: Any, columns: int) -> Any:
    """Rows with mean 0 and variance 1, times ``weight`` plus ``bias``; one row a block."""

    @tk.kernel
    def layer_norm(
        x: tk.array2d[dtype], weight: tk.array1d[dtype], bias: tk.array1d[dtype], out: tk.array2d[dtype]
    ) -> None:
        i = tk.tid()
        row = tk.tile_astype(tk.tile_load(x[i], shape=columns), total)
        centred = row - tk.tile_sum(row)[0] / total(columns)
        variance = tk.tile_sum(centred * centred)[0] / total(columns)
        normal = centred * (total(1.0) / tk.sqrt(variance + total(1e-5)))
        scaled = normal * tk.tile_astype(tk.tile_load(weight, shape=columns), total)
        shifted = scaled + tk.tile_astype(tk.tile_load(bias, shape=columns), total)
        tk.tile_store(out[i], tk.tile_astype(shifted, dtype))

    return layer_norm


Layer = tuple[Any, Any, list[Any], Callable[..., Any]]
"""A kernel, its grid, its arguments but the last, and what PyTorch computes of the tensors among them."""


def attention_layer(torch: Any, dtype: str, length: int, depth: int) -> Layer:
    """One head of attention."""
    q, k, v = (torch.randn(length, depth, device="cuda", dtype=getattr(torch, dtype)) for _ in range(3))
    scale, rows = depth**-0.5, 64
    kernel = attention(getattr(tk, dtype), tk.float32, rows, rows, depth)

    def wanted(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None])[0, 0]

    return kernel, length // rows, [q, k, v, scale, length // rows], wanted


def norm_layer(torch: Any, dtype: str, rows: int, columns: int) -> Layer:
    """A layer norm with weight and bias."""
    shapes = (rows, columns), (columns,), (columns,)
    x, weight, bias = (torch.randn(*shape, device="cuda", dtype=getattr(torch, dtype)) for shape in shapes)

    def wanted(x: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (columns,), weight, bias)

    return layer_norm(getattr(tk, dtype), tk.float32, columns), rows, [x, weight, bias], wanted


def measure(torch: Any, title: str, layer: Layer) -> list[str]:
    """A row: milliseconds of tilekit and PyTorch, their ratio, the largest error of a gradient relative to its largest
    element."""
    kernel, grid, given, wanted = layer
    tensors = [item for item in given if isinstance(item, torch.Tensor)]
    out = torch.empty_like(tensors[0])
    seed, names = torch.randn_like(out), list(kernel.parameters)
    found = {name: torch.zeros_like(x) for name, x in zip(names, given, strict=False) if isinstance(x, torch.Tensor)}
    taken = seed.clone()
    forward: Any = tk.launch_tiled(kernel, grid, given, [out], device="cuda:0", block_dim=THREADS, record_cmd=True)
    backward = prepare_adjoint(kernel, grid, [*given, out], {**found, names[-1]: taken}, "cuda:0", THREADS, True)

    def ours() -> None:
        forward.launch()
        taken.copy_(seed)
        backward.run(None)

    ours()
    wide = [x.double().requires_grad_() for x in tensors]
    exact = torch.autograd.grad(wanted(*wide), wide, seed.double())
    errors = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(found.values(), exact, strict=True)]
    leaves = [x.clone().requires_grad_() for x in tensors]
    took = seconds(torch, [ours, lambda: torch.autograd.grad(wanted(*leaves), leaves, seed)])
    return [title, *(f"{each * 1e3:.3f}" for each in took), f"{took[1] / took[0]:.3f}", f"{max(errors):.1e}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 where there is something to measure."""
    parser = argparse.ArgumentParser(prog="python -m tilekit.bench.layers", description=__doc__)
    parser.add_argument("--length", type=int, default=2048, help="queries and keys, a multiple of 64 (2048)")
    parser.add_argument("--rows", type=int, default=4096, help="rows of the layer norm (4096)")
    given = parser.parse_args(arguments)
    if given.length <= 0 or given.length % 64:
        parser.error(f"--length {given.length} is no positive multiple of 64")

    def run(torch: Any) -> None:
        torch.manual_seed(0)
        rows = []
        for dtype in ("float32", "bfloat16"):
            layer = attention_layer(torch, dtype, given.length, 64)
            rows.append(measure(torch, f"attention {dtype} {given.length}x64", layer))
            rows.append(
                measure(torch, f"layer norm {dtype} {given.rows}x1024", norm_layer(torch, dtype, given.rows, 1024))
            )
        print(table(["forward and backward", "ms", "PyTorch ms", "of its speed", "error"], rows))

    return on_a_gpu(run)


if __name__ == "__main__":
    raise SystemExit(main())
