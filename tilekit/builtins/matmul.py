"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.builtins.logic import where
from tilekit.builtins.mapping import tile_map
from tilekit.builtins.view_shapes import tile_transpose
from tilekit.errors import KernelTypeError, KernelValueError
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import OPERATORS, Scalar, Tile
from tilekit.ir.types import DType, ScalarType, TileType, bfloat16, float32, float64

GROUP = "Linear algebra"


def accumulator(*dtypes: DType) -> DType:
    """The dtype a product is summed in: float64 where one of the dtypes is, else float32."""
    return float64 if float64 in dtypes else float32


@builtin(
    group=GROUP, updates="out", reuses=("out",), cooperative=True, contraction=("a", "b", "out"), linear_in=("out",)
)
def tile_matmul(
    a: Tile,
    b: Tile,
    out: Tile | None = None,
    alpha: Scalar = 1.0,  # type: ignore[assignment]
    beta: Scalar = 1.0,  # type: ignore[assignment]
    precision: str = "default",
) -> Tile | None:
    """Multiply two tiles: ``out = alpha * a @ b + beta * out`` in place, or a new tile without ``out``.

    Args:
        a: Left factor, of shape ``(m, k)``; float16, bfloat16, float32 or float64.
        b: Right factor, of shape ``(k, n)``.
        out: Accumulator, of shape ``(m, n)``; not read where ``beta`` is zero.
        alpha: Factor of the product, run time or constant.
        beta: Factor of ``out``, run time or constant.
        precision: ``"default"``, or ``"tf32"`` for float32 tiles.

    Returns:
        None, or a new tile of shape ``(m, n)`` and ``a``'s dtype.

    Example:
        >>> import tilekit as tk
        >>> a = tk.tile_full((1, 2), 3.0)
        >>> tk.tile_matmul(a, tk.tile_transpose(a))
        tile<1x1xf32>
        [[18.]]
    """


@tile_matmul.coerce
def _coerce(a: TileType, out: TileType | None) -> dict[str, ScalarType]:
    scale = ScalarType(accumulator((out or a).dtype))
    return {"alpha": scale, "beta": scale}


@tile_matmul.result
def _result(a: TileType, b: TileType, out: TileType | None, precision: str) -> TileType:
    for name, tile in (("a", a), ("b", b), ("out", out)):
        if tile is not None and not tile.dtype.is_float:
            raise KernelTypeError(f"tile_matmul: {name} is a {tile}; matrix products need floating tiles")
        if tile is not None and len(tile.shape) != 2:
            raise KernelValueError(f"tile_matmul: {name} is a {tile}; matrix products need two axes")
    if a.shape[1] != b.shape[0]:
        raise KernelValueError(f"tile_matmul: K differs: a is a {a} and b is a {b}; a.shape[1] must equal b.shape[0]")
    shape = (a.shape[0], b.shape[1])
    if out is None:
        return TileType(a.dtype, shape)
    if out.shape != shape:
        raise KernelValueError(f"tile_matmul: out is a {out}, but a {a} times a {b} has shape {shape}")
    if out.dtype == bfloat16:
        raise KernelTypeError(
            "tile_matmul: out is bfloat16, which cannot accumulate; use a float32 accumulator and "
            "tk.tile_astype(out, tk.bfloat16) at the store"
        )
    return out


@tile_matmul.reference
def _reference(a: Any, b: Any, out: Any, alpha: Any, beta: Any, types: Any) -> Any:
    dtypes = [np.dtype(x.dtype).name for x in (a, b, types[0].dtype.numpy.type())]
    wide = np.float64 if "float64" in dtypes else np.float32
    product = wide(alpha) * (a.astype(wide) @ b.astype(wide))
    if out is None or beta == 0:
        return product
    return product + wide(beta) * out.astype(wide)


@tile_matmul.emit
def _emit(cx: Any, results: Any, a: Any, b: Any, out: Any, alpha: str, beta: str) -> None:
    target = cx.tile(results[0])
    wide = accumulator(a.type.dtype, b.type.dtype, target.type.dtype)
    (m, n), k = target.shape, a.shape[1]
    source = out or target
    steps = ", ".join(f"{tile.element}, {tile.strides[0]}, {tile.strides[1]}" for tile in (a, b, source, target))
    names = f"team, {a.pointer}, {b.pointer}, {out.pointer if out else 'nullptr'}, {target.pointer}"
    scale = f"tk::cast<tk::{wide.short}>({alpha}), {f'tk::cast<tk::{wide.short}>({beta})' if out else '0'}"
    cx.line(f"tk::gemm<{m}, {n}, {k}, tk::{wide.short}, {steps}>({names}, {scale});")


@tile_matmul.adjoint
def _adjoint(cx: Any, grad: Any, value: Any) -> dict[str, Any]:
    def product() -> Any:
        return tile_matmul(cx.widen(value("a")), cx.widen(value("b")))

    def old() -> Any:
        beta = value("beta")
        if isinstance(beta, int | float):
            return 0 if beta == 0 else grad if beta == 1 else grad * float(beta)
        factor = cx.widen(beta)
        return tile_map(lambda g, f: where(f == 0.0, 0.0, g * f), grad, factor)  # 0 * inf would be NaN

    return {
        "a": lambda: tile_matmul(grad, tile_transpose(value("b")), alpha=value("alpha")),
        "b": lambda: tile_matmul(cx.widen(tile_transpose(value("a"))), grad, alpha=value("alpha")),
        "out": old,
        "alpha": lambda: cx.sum(grad * product()),
        "beta": lambda: cx.sum(grad * cx.widen(value("out"))),
    }


def matmul_operator(a: Any, b: Any) -> Any:
    """``a @ b``."""
    return tile_matmul(a, b)


OPERATORS["@"] = matmul_operator
