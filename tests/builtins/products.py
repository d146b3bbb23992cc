"""Kernels that multiply matrices of any size by tiles, in every dtype, form and view, for the fuzz of tile_matmul."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tilekit as tk

DTYPES = {"f16": tk.float16, "bf16": tk.bfloat16, "f32": tk.float32, "f64": tk.float64}
HOST = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
UNIT = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "f64": 2.0**-53}
LEAST = {"f16": 2.0**-25, "bf16": 2.0**-134, "f32": 2.0**-150, "f64": 0.0}
VIEWS = ("plain", "transposed", "slice", "reversed")


@dataclass(frozen=True)
class Spec:
    """A product: the tile's sizes, dtypes of a, b and out, and how each operand is seen."""

    m: int
    n: int
    k: int
    a: str
    b: str
    out: str
    see_a: str = "plain"
    see_b: str = "plain"
    see_out: str = "plain"

    @property
    def sum(self) -> str:
        """The dtype of the accumulator's tile: what out is rounded from once."""
        return "f64" if "f64" in (self.a, self.b, self.out) else "f32"


def operand(array: Any, how: str, rows: int, columns: int, i: Any, j: Any) -> Any:
    """A tile of an array from (i, j), seen through a view; a transposed one lies transposed in memory as well."""
    if how == "transposed":
        return tk.tile_transpose(tk.tile_load(array, shape=(columns, rows), offset=(j, i)))
    if how == "slice":
        return tk.tile_load(array, shape=(rows + 2, columns + 1), offset=(i - 1, j - 1))[1:-1, 1:]
    whole = tk.tile_load(array, shape=(rows, columns), offset=(i, j))
    if how == "reversed":
        turned = tk.tile_empty(shape=(rows, columns), dtype=whole.dtype)
        tk.tile_assign(turned, whole[::-1, ::-1])
        return turned[::-1, ::-1]
    return whole


def tiled(spec: Spec) -> Any:
    """A kernel for arrays of any size: a loop over k, ragged edges, run-time factors."""
    m, n, k, total, stored = spec.m, spec.n, spec.k, DTYPES[spec.sum], DTYPES[spec.out]
    see_a, see_b, see_out = spec.see_a, spec.see_b, spec.see_out

    @tk.kernel
    def product(
        a: tk.array2d[DTYPES[spec.a]],
        b: tk.array2d[DTYPES[spec.b]],
        steps: int,
        alpha: float,
        beta: float,
        c: tk.array2d[stored],
        out: tk.array2d[stored],
    ):
        i, j = tk.tid()
        t = tk.tile_astype(operand(c, see_out, m, n, i * m, j * n), total)
        scale = beta
        for s in range(steps):
            left = operand(a, see_a, m, k, i * m, s * k)
            right = operand(b, see_b, k, n, s * k, j * n)
            if see_out == "transposed":
                tk.tile_matmul(right.T, left.T, t.T, alpha=alpha, beta=scale)
            else:
                tk.tile_matmul(left, right, t, alpha=alpha, beta=scale)
            scale = 1.0
        tk.tile_store(out, tk.tile_astype(t, stored), offset=(i * m, j * n))

    return product


def values(rng: np.random.Generator, shape: tuple[int, int], dtype: str, how: str = "plain") -> np.ndarray:
    """Random numbers of mixed magnitude, laid out as the view expects."""
    found = rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 3, shape)
    found = np.where(rng.random(shape) < 0.05, 0.0, found).astype(HOST[dtype])
    return np.ascontiguousarray(found.T) if how == "transposed" else found


def straight(array: np.ndarray, how: str) -> np.ndarray:
    """The matrix that a stored array stands for, in float64."""
    return np.asarray(array.T if how == "transposed" else array).astype(np.float64)


def bound(spec: Spec, depth: int, a: Any, b: Any, c: Any, alpha: float, beta: float, wanted: Any) -> Any:
    """How far an element may be from the float64 result: (K + 4) u (|alpha| |A||B| + |beta| |C|) and one rounding.

    Where the product itself is float64, the reference has an error of that size as well.
    """
    scale = abs(alpha) * (np.abs(a) @ np.abs(b)) + (abs(beta) * np.abs(c) if beta else 0.0)
    sums = (depth + 4) * UNIT[spec.sum] * scale * (2 if spec.sum == "f64" else 1)
    return sums + UNIT[spec.out] * (np.abs(wanted) + sums) + LEAST[spec.out]


def on_cpu(kernel: Any, dim: Any, inputs: Sequence[Any], outputs: Sequence[np.ndarray]) -> None:
    tk.launch_tiled(kernel, dim=dim, inputs=inputs, outputs=outputs, block_dim=32)


def check_tiled(
    kernel: Any,
    spec: Spec,
    size: Sequence[int],
    alpha: float,
    beta: float,
    seed: int,
    poison: bool,
    launch: Callable[..., None] = on_cpu,
) -> None:
    """Run a tiled kernel on random arrays and compare every element with float64."""
    rows, columns, depth = size
    rng = np.random.default_rng(seed)
    a = values(rng, (rows, depth), spec.a, spec.see_a)
    b = values(rng, (depth, columns), spec.b, spec.see_b)
    c = values(rng, (rows, columns), spec.out, spec.see_out)
    if poison and beta == 0:
        c[...] = np.nan
    out = np.zeros((rows, columns), HOST[spec.out])
    grid = (-(-rows // spec.m), -(-columns // spec.n))
    launch(kernel, grid, [a, b, -(-depth // spec.k), alpha, beta, c], [out])
    left, right, old = straight(a, spec.see_a), straight(b, spec.see_b), straight(c, spec.see_out)
    wanted = alpha * (left @ right) + (beta * old if beta else 0.0)
    error = np.abs(out.astype(np.float64) - wanted)
    allowed = bound(spec, depth, left, right, old, alpha, beta, wanted)
    assert (error <= allowed).all(), f"{spec}, {size}: {error.max()} where {allowed.flat[error.argmax()]} is allowed"
