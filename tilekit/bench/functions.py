"""Elementary functions and softmax on a GPU, as fractions of PyTorch's copy: ``python -m tilekit.bench.functions``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import tilekit as tk
from tilekit.bench.copies import Run, checked, on_a_gpu, show

ROWS, COLUMNS = 16384, 4096
THREADS = 256
DTYPES = {"float32": 1e-5, "bfloat16": 2.0**-7}
"""Dtypes, with how far a result may be from PyTorch's in float64, relative to that."""
SQRT_HALF, SLOPE = 0.5**0.5, (2 / 3.141592653589793) ** 0.5


def sigmoid(x: Any) -> Any:
    """As users write it."""
    return 1.0 / (1.0 + tk.exp(-x))


def gelu(x: Any) -> Any:
    """By the error function."""
    return 0.5 * x * (1.0 + tk.erf(x * SQRT_HALF))


def gelu_tanh(x: Any) -> Any:
    """By the hyperbolic tangent."""
    return 0.5 * x * (1.0 + tk.tanh(SLOPE * (x + 0.044715 * x * x * x)))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: tk.exp(x), "exp2": lambda x: tk.exp2(x), "log": lambda x: tk.log(tk.abs(x)),
    "tanh": lambda x: tk.tanh(x), "erf": lambda x: tk.erf(x), "sigmoid": sigmoid, "gelu": gelu, "gelu tanh": gelu_tanh,
    "scalar divisor": lambda x: x / 3.0,
}  # fmt: skip


def mapped(function: Callable[[Any], Any], columns: int = COLUMNS) -> Any:
    """A kernel that applies a function of float32 to each element of rows, one a block; the array's dtype is kept.

    Args:
        function: What is applied to a tile of float32.
        columns: The columns of the arrays.

    Returns:
        A kernel from one array of two dimensions to another of its shape and dtype.

    Example:
        >>> import numpy as np
        >>> x = np.float32([[0, 1], [2, 3]])
        >>> out = np.zeros_like(x)
        >>> tk.launch_tiled(mapped(tk.exp2, 2), dim=2, inputs=[x], outputs=[out])
        >>> out.tolist()
        [[1.0, 2.0], [4.0, 8.0]]
    """

    @tk.kernel(enable_backward=False)
    def mapped(a: tk.array2d[Any], b: tk.array2d[Any]) -> None:
        i = tk.tid()
        x = tk.tile_astype(tk.tile_load(a[i], shape=columns), tk.float32)
        tk.tile_store(b[i], tk.tile_astype(function(x), b.dtype))

    return mapped


def softmax(x: Any) -> Any:
    """Of a tile of one axis."""
    e = tk.exp(x - tk.tile_max(x)[0])
    return e / tk.tile_sum(e)[0]


def peers(torch: Any) -> dict[str, Callable[[Any], Any]]:
    """PyTorch's functions of the same names."""
    gelu = torch.nn.functional.gelu
    return {
        "exp": torch.exp, "exp2": torch.exp2, "log": lambda x: torch.log(torch.abs(x)), "tanh": torch.tanh,
        "erf": torch.erf, "sigmoid": torch.sigmoid, "gelu": gelu, "gelu tanh": partial(gelu, approximate="tanh"),
        "scalar divisor": lambda x: x / 3.0, "softmax": partial(torch.softmax, dim=1),
    }  # fmt: skip


def measure(torch: Any, name: str, rows: int) -> None:
    """Print a table for one dtype, and check every element."""
    dtype = getattr(torch, name)
    x = torch.randn(rows, COLUMNS, device="cuda").to(dtype)
    out, peer = torch.empty_like(x), torch.empty_like(x)
    runs: dict[str, Run] = {"torch copy": lambda: peer.copy_(x)}
    theirs = peers(torch)
    for title, function in {**FUNCTIONS, "softmax": softmax}.items():
        run = partial(tk.launch_tiled, mapped(function), rows, [x], [out], block_dim=THREADS)
        wanted = theirs[title](x.double()).to(dtype)
        runs[checked(torch, title, run, out, wanted, DTYPES[name])] = run
        runs[f"torch {title}"] = partial(theirs[title], x)
    show(torch, f"{name}, {rows}x{COLUMNS}, a row a block", runs, x)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 0 where there is something to measure."""
    parser = argparse.ArgumentParser(prog="python -m tilekit.bench.functions", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of {COLUMNS} elements")
    rows = parser.parse_args(arguments).rows

    def run(torch: Any) -> None:
        for name in DTYPES:
            measure(torch, name, rows)

    return on_a_gpu(run)


if __name__ == "__main__":
    raise SystemExit(main())
