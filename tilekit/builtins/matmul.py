"""Matrix products."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tilekit.builtins.construct import tile_zeros
from tilekit.builtins.exact import fused
from tilekit.builtins.logic import where
from tilekit.builtins.mapping import tile_map
from tilekit.builtins.overlap import require_apart
from tilekit.builtins.reduce import tile_max
from tilekit.builtins.slopes import times
from tilekit.builtins.view_shapes import tile_broadcast, tile_transpose
from tilekit.codegen.gemm.kinds import ROUNDED, accumulator
from tilekit.codegen.gemm.plan import Plan
from tilekit.codegen.gemm.products import is_apart
from tilekit.errors import KernelTypeError, KernelValueError, PrecisionWarning
from tilekit.ir.builtin import builtin
from tilekit.ir.context import active
from tilekit.ir.core import Const
from tilekit.ir.handles import OPERATORS, Scalar, Tile
from tilekit.ir.notices import warn_once
from tilekit.ir.operands import constant, describe, known_number, misuse
from tilekit.ir.types import DType, ScalarType, TileType, bfloat16, float16, float32, int32

GROUP = "Linear algebra"
PRECISIONS = ("default", *ROUNDED)


@builtin(
    group=GROUP,
    updates="out",
    reuses=("out",),
    cooperative=True,
    contraction=("a", "b", "out"),
    linear_in=("out",),
    unread_at_zero="beta",
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

    ``tile_matmul(a, b, alpha, precision)`` is the form without ``out`` as well.

    Args:
        a: Left factor, of shape ``(m, k)``; float16, bfloat16, float32 or float64, or integers of up to 32 bits.
        b: Right factor, of shape ``(k, n)``; its dtype may be another of these, floats with floats.
        out: Accumulator, of shape ``(m, n)``; float16, float32 or float64, of integers int32. Not read where ``beta``
            is zero; where nothing was written to it, any other ``beta`` is an error (``UninitializedError``).
        alpha: Factor of the product, run time or constant, of any number type; of integers an integer.
        beta: Factor of ``out``, run time or constant, of any number type; of integers an integer.
        precision: ``"default"``, or for float32 tiles ``"tf32"``, whose factors tensor cores round to 11 bits, or
            ``"tf32x3"``, about as exact as float32; a compile-time constant. Where they cannot serve, as on the CPU,
            float32 is computed with a ``PrecisionWarning``.

    Returns:
        None, or a new tile of shape ``(m, n)`` and ``a``'s dtype, of integers int32. Each element is a sum in float32,
        or in float64 where one of the tiles is float64, rounded once to the result's dtype. Where no tensor cores
        multiply, its terms are added in order of ``k`` by fused multiply-adds. Integers are multiplied and summed in
        int32, which wraps around; uint32 and 64-bit integers are refused.

    Raises:
        KernelTypeError: floats meet integers, a dtype is none of these, ``out`` is bfloat16, ``beta`` comes without
            ``out``, or another precision meets tiles that are not float32.
        KernelValueError: a tile has not two axes, ``m``, ``n`` or ``k`` disagree, ``out`` overlaps ``a`` or ``b``, or
            ``precision`` is unknown.

    Example:
        >>> import tilekit as tk
        >>> a = tk.tile_full((1, 2), 3.0)
        >>> tk.tile_matmul(a, tk.tile_transpose(a))
        tile<1x1xf32>
        [[18.]]
    """


@builtin(late=True, cooperative=True, by_element=True, in_memory=("a", "b"), reuses=("out",))
def gemm_tiles(a: Tile, b: Tile, out: Tile | None, alpha: Scalar, beta: Scalar, precision: str, plan: Any) -> Tile:
    """``tile_matmul`` of tiles in shared memory on tensor cores; how, ``plan`` says."""


@tile_matmul.arguments
def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Warp's second signature, ``(a, b, alpha, precision)``: a number in the place of ``out`` is ``alpha``."""
    if len(args) > 2 and (isinstance(args[2], Scalar) or constant(args[2]) is not None):
        try:
            return (), _WITHOUT_OUT.bind(*args, **kwargs).arguments
        except TypeError:
            raise KernelTypeError(misuse("tile_matmul", _WITHOUT_OUT, args, kwargs)) from None
    out = args[2] if len(args) > 2 else kwargs.get("out")
    if out is None and (len(args) > 4 or "beta" in kwargs):
        raise KernelTypeError("tile_matmul(): beta scales out, but no out is given; pass out, or drop beta")
    return args, kwargs


_WITHOUT_OUT = inspect.signature(lambda a, b, alpha=1.0, precision="default": None)


@tile_matmul.coerce
def _coerce(a: TileType, out: TileType | None) -> dict[str, ScalarType]:
    scale = ScalarType(accumulator((out or a).dtype))
    return {"alpha": scale, "beta": scale}


@gemm_tiles.ignores
@tile_matmul.ignores
def _ignores(beta: Any) -> tuple[str, ...]:
    number = known_number(beta)
    return ("out",) if number is None or number == 0 else ()


@tile_matmul.check
def _check(a: Tile, b: Tile, out: Tile | None, alpha: Any, beta: Any, precision: Any) -> None:
    for name, factor in (("alpha", alpha), ("beta", beta)):
        if a.dtype.is_integer and isinstance(factor, Scalar) and factor.dtype.is_float:
            raise KernelTypeError(
                f"tile_matmul(): {name} is a {factor.dtype.name}, but the tiles are integers; write tk.int32({name})"
            )
    if out is not None:
        require_apart(out, a, "a")
        require_apart(out, b, "b")
    tiles = {"a": a.type, "b": b.type} if out is None else {"a": a.type, "b": b.type, "out": out.type}
    if precision in ROUNDED and any(tile.dtype != float32 for tile in tiles.values()):
        raise _not_rounded(precision, tiles)
    if precision in ROUNDED and active() is None:
        warn_once(PrecisionWarning, lost_precision(precision, "on the CPU"), None)


@tile_matmul.warns
def _warns(target: Any, a: Any, b: Any, precision: str) -> tuple[type[Warning], str] | None:
    asked = precision in ROUNDED and a.type.dtype == b.type.dtype == float32  # otherwise it is exact
    lost = asked and target.is_cpu
    return (PrecisionWarning, lost_precision(precision, "on the CPU")) if lost else None


def lost_precision(precision: str, where: str) -> str:
    """What to warn of where a product is more precise, and slower, than was asked for."""
    return f"tile_matmul(): precision {precision!r} is not available {where}; float32 is computed"


def _is_rounded(a: DType, b: DType) -> bool:
    """Whether tensor cores may round a factor: one is float32, the other too or, as in gradients, exact in tf32."""
    return float32 in (a, b) and {a, b} <= {float32, float16, bfloat16}


def _check_precision(tiles: dict[str, TileType], precision: Any) -> None:
    if not isinstance(precision, str) or precision not in PRECISIONS:
        *first, last = map(repr, PRECISIONS)
        shown = f"{', '.join(first)} or {last}"
        raise KernelValueError(
            f"tile_matmul(): precision must be the compile-time string {shown}, got {describe(precision)}"
        )
    sums = tiles.get("out", tiles["a"]).dtype.bits <= float32.bits
    if precision in ROUNDED and not (sums and _is_rounded(tiles["a"].dtype, tiles["b"].dtype)):
        raise _not_rounded(precision, tiles)


def _not_rounded(precision: str, tiles: dict[str, TileType]) -> KernelTypeError:
    listed = ", ".join(f"{name} is a {tile}" for name, tile in tiles.items())
    return KernelTypeError(f"tile_matmul(): precision {precision!r} needs float32 tiles, but {listed}")


def _check_dtypes(tiles: dict[str, TileType]) -> None:
    integers = tiles["a"].dtype.is_integer
    for name, tile in tiles.items():
        dtype = tile.dtype
        if dtype.kind == "b" or (
            dtype.is_integer and not (int32.holds(dtype.limits[0]) and int32.holds(dtype.limits[1]))
        ):
            raise KernelTypeError(
                f"tile_matmul(): {name} is a {tile}; matrix products need floats, or integers that int32 holds, "
                f"as in tk.tile_astype({name}, tk.int32)"
            )
        if dtype.is_integer != integers:
            wanted = "int32" if integers else "float32"
            raise KernelTypeError(
                f"tile_matmul(): a is a {tiles['a']} but {name} is a {tile}; "
                f"integers multiply integers, so convert one, as in tk.tile_astype({name}, tk.{wanted})"
            )
        if name == "out" and integers and dtype != int32:
            raise KernelTypeError(
                f"tile_matmul(): out is a {tile}, but integers are summed in int32; use an int32 accumulator and "
                f"tk.tile_astype(out, tk.{dtype.name}) at the store"
            )


@gemm_tiles.result
@tile_matmul.result
def _result(a: TileType, b: TileType, out: TileType | None, precision: str) -> TileType:
    tiles = {"a": a, "b": b} if out is None else {"a": a, "b": b, "out": out}
    _check_dtypes(tiles)
    for name, tile in tiles.items():
        if len(tile.shape) != 2:
            raise KernelValueError(
                f"tile_matmul(): {name} is a {tile}; matrix products need two axes, as tk.tile_reshape gives"
            )
    _check_precision(tiles, precision)
    if a.shape[1] != b.shape[0]:
        raise KernelValueError(f"tile_matmul(): K differs: a is a {a} and b is a {b}; a.shape[1] must equal b.shape[0]")
    shape = (a.shape[0], b.shape[1])
    if out is None:
        return TileType(int32 if a.dtype.is_integer else a.dtype, shape)
    if out.shape != shape:
        raise KernelValueError(f"tile_matmul(): out is a {out}, but a {a} times a {b} has shape {shape}")
    if out.dtype == bfloat16:
        raise KernelTypeError(
            "tile_matmul(): out is bfloat16, which cannot accumulate; use a float32 accumulator and "
            "tk.tile_astype(out, tk.bfloat16) at the store"
        )
    return out


@gemm_tiles.reference
@tile_matmul.reference
def _reference(a: Any, b: Any, out: Any, alpha: Any, beta: Any, types: Any) -> Any:
    if types[0].dtype.is_integer:
        product = np.uint32(alpha) * (a.astype(np.uint32) @ b.astype(np.uint32))
        return (product if out is None else product + np.uint32(beta) * out.astype(np.uint32)).view(np.int32)
    dtypes = [np.dtype(x.dtype).name for x in (a, b, types[0].dtype.numpy.type())]
    wide = np.float64 if "float64" in dtypes else np.float32
    total = np.zeros(types[0].shape, wide)
    left, right = a.astype(wide), b.astype(wide)
    for k in range(a.shape[1]):
        total = fused(left[:, k, None], right[None, k], total)
    product = wide(alpha) * total
    return product if out is None or beta == 0 else product + wide(beta) * out.astype(wide)


@tile_matmul.emit
def _emit(cx: Any, results: Any, a: Any, b: Any, out: Any, alpha: str, beta: str) -> None:
    target = cx.tile(results[0])
    wide = accumulator(a.type.dtype, b.type.dtype, target.type.dtype)
    (m, n), k = target.shape, a.shape[1]
    tiles = ", ".join(tile.operand for tile in (a, b, out or target, target))
    sums = _sums(wide)
    cx.line(f"tk::gemm<{m}, {n}, {k}, {sums}>(team, {tiles}, {_factors(cx, alpha, beta if out else '', sums)});")


@gemm_tiles.emit
def _tiles_emit(cx: Any, results: Any, a: Any, b: Any, out: Any, alpha: str, beta: str, plan: Plan) -> None:
    target, numbers = cx.tile(results[0]), [known_number(cx.op.operands[name]) for name in ("alpha", "beta")]
    operands = ", ".join(
        f"{type}{{{f'tk::shared_address({tile.pointer})' if 'SharedOperand' in type else tile.pointer}}}"
        for type, tile in zip(plan.operands, (a, b), strict=True)
    )
    how = f"<{plan.kind}, {cx.layout_name(plan.layout)}, {plan.depth}>"
    old = out if out is not None and numbers[1] != 0 else None
    in_memory = all(tile.layout is None for tile in (target, old or target))
    if in_memory and is_apart(plan, cx.products, adds=False):
        tiles = f"{operands}, {(old or target).operand}, {target.operand}"
        cx.line(f"tk::product_apart{how}(team.rank(), {tiles}, {_factors(cx, alpha, beta if old else '', plan.sum)});")
        return
    call = f"tk::multiply{'_apart' if is_apart(plan, cx.products, adds=True) else ''}{how}"
    in_place = target.layout == plan.layout and cx.scalar(target.type) == plan.sum
    if in_place and out is not None and numbers == [1, 1]:
        cx.copy_tiles([(target, out)])
        cx.line(f"{call}(team.rank(), {target.pointer}, {operands});")
        return
    sums = cx.fresh("sums")
    with cx.braces():
        cx.declare_registers(plan.sum, sums, plan.layout, " = {}")
        cx.line(f"{call}(team.rank(), {sums}, {operands});")
        with cx.own_elements(plan.layout, target) as index:
            value = f"tk::cast<{plan.sum}>({alpha}) * {sums}[{index.register}]"
            if old is not None:
                value = f"tk::plus_scaled<{plan.sum}>({value}, {beta}, {old.at(index)})"
            cx.line(f"{target.at(index)} = tk::cast<{target.element}>({value});")


def _factors(cx: Any, alpha: str, beta: str, sums: str) -> str:
    """Both factors as C++, ``beta`` being empty where nothing is added to the product."""
    return f"{_factor(cx, 'alpha', alpha, sums)}, {_factor(cx, 'beta', beta, sums) if beta else 'tk::Fixed<0>()'}"


def _factor(cx: Any, name: str, expression: str, sums: str) -> str:
    """A factor as C++; one that changes nothing is known as such when the kernel is compiled."""
    number = known_number(cx.op.operands[name])
    if number == 1 or (name == "beta" and number == 0):
        return f"tk::Fixed<{int(number)}>()"
    return f"tk::cast<{sums}>({expression})"


def _sums(wide: DType) -> str:
    """The C++ type of sums: of integers an unsigned one, which wraps."""
    return "tk::u32" if wide == int32 else f"tk::{wide.short}"


@tile_matmul.adjoint
def _adjoint(cx: Any, grad: Any, value: Any, precision: str) -> dict[str, Any]:
    def product(name: str, left: Any, right: Any, factor: Any, precision: str) -> Any:
        """``left @ right`` in the dtype of the gradient of an operand."""
        return _multiplied(left, right, cx.zeros(name), factor, precision)

    def old() -> Any:
        beta = value("beta")
        if isinstance(beta, int | float):
            return 0 if beta == 0 else grad if beta == 1 else grad * float(beta)
        factor = cx.widen(beta)
        return tile_map(lambda g, f: where(f == 0.0, 0.0, times(g, f)), grad, factor)  # 0 * inf would be NaN

    def forward() -> Any:
        return _multiplied(value("a"), value("b"), tile_zeros(grad.shape, grad.dtype), 1.0, precision)

    def factors() -> Any:
        a, b = (cx.op.operands[name].type.dtype for name in "ab")
        return _gradient_factor(grad, a, b, precision)

    def left() -> Any:
        rounded, how = factors()
        return product("a", rounded, tile_transpose(_met(cx, "b", grad, 0)), value("alpha"), how)

    def right() -> Any:
        rounded, how = factors()
        return product("b", tile_transpose(_met(cx, "a", grad, 1)), rounded, value("alpha"), how)

    return {
        "a": left,
        "b": right,
        "out": old,
        "alpha": lambda: cx.sum(tile_map(times, grad, forward())),
        "beta": lambda: cx.sum(tile_map(times, grad, cx.widen(value("out")))),
    }


def _met(cx: Any, name: str, grad: Any, axis: int) -> Any:
    """A factor, with zeros where it meets nothing but zeros of the gradient along an axis: it may be infinite there."""
    factor = cx.value(name)
    if cx.finite_outside(name):
        return factor
    met = tile_max(tile_map(lambda g: where(g == 0.0, 0, 1), grad), axis=axis, keepdims=True)
    return tile_map(lambda x, m: where(m == 0, x.dtype(0.0), x), factor, tile_broadcast(met, factor.shape))


def _multiplied(a: Tile, b: Tile, out: Tile, alpha: Any, precision: str) -> Any:
    """``out + alpha * a @ b``; one factor of a product in tf32 may have 16 bits."""
    scale = ScalarType(accumulator(out.dtype))
    factor = alpha.datum if isinstance(alpha, Scalar) else Const(scale, float(alpha))
    operands = {"a": a.read(), "b": b.read(), "out": out.read(), "alpha": factor, "beta": Const(scale, 1.0)}
    return tile_matmul.record(operands, {"precision": precision})


def _gradient_factor(grad: Any, a: DType, b: DType, precision: str) -> tuple[Any, str]:
    """The gradient of a product as a factor of the gradients' products, and the precision of these: the forward's.

    Of bfloat16 it is rounded to that. Its range is float32's, float16's is not: there the gradient stays float32, which
    tensor cores round to as many bits as float16 has.
    """
    halves = {a, b} <= {float16, bfloat16}
    if grad.dtype != float32 or not halves:
        return grad, precision if a == b == grad.dtype == float32 else "default"
    if a == b == bfloat16:
        return OPERATORS["cast"](grad, bfloat16), "default"
    return grad, "tf32"


def matmul_operator(a: Any, b: Any) -> Any:
    """``a @ b``."""
    return tile_matmul(a, b)


OPERATORS["@"] = matmul_operator
