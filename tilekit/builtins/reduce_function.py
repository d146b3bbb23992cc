"""Reductions by any function of two numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.builtins.assign import tile_astype
from tilekit.builtins.mapping import map_elements
from tilekit.builtins.reduce import GROUP as GROUP, LANES, accumulator, axis_in, check_keepdims, in_order, reduced
from tilekit.builtins.stepwise import combine_stepwise, known_data, runs_at_once, steps
from tilekit.builtins.view_shapes import require_tile, tile_reshape
from tilekit.errors import KernelTypeError, TilekitError
from tilekit.ir.builtin import builtin
from tilekit.ir.context import Concrete, building, fail
from tilekit.ir.core import Block, Const, Value
from tilekit.ir.handles import OPERATORS, Scalar, Tile, wrap
from tilekit.ir.interpret import conform
from tilekit.ir.operands import common_dtype, constant, convert_constant, describe
from tilekit.ir.regions import Region
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import DType, ScalarType, TileType

__all__ = ["tile_reduce"]


@builtin(region=Region("elements", args="t"), cooperative=True, counted="count")
def reduce_elements(t: Tile, count: Scalar | None = None, axis: int | None = None, branches: bool = False) -> Tile:
    """Combine elements by a block of two parameters, in the fixed order; of an axis the first ``count`` elements."""


@reduce_elements.result
def _result(t: TileType, axis: int | None) -> TileType:
    return reduced(t, axis, False)


@reduce_elements.verify
def _verify(blocks: tuple[Block, ...], types: Any) -> None:
    wide = accumulator(types["t"].dtype)
    taken = [value.type.dtype for value in (*blocks[0].params, *blocks[0].results)]
    if taken != [wide, wide, wide]:
        raise KernelTypeError(f"its function takes two {wide.name} and gives one, not {', '.join(map(str, taken))}")


@reduce_elements.reference
def _reference(t: Any, count: Any, axis: int | None, branches: bool, blocks: Any, types: Any) -> Any:
    def combine(a: Any, b: Any) -> Any:
        if not branches:
            return blocks[0](a, b)[0]
        result = np.empty_like(a)
        for index in np.ndindex(*a.shape):
            (result[index],) = blocks[0](a[index], b[index])
        return result

    values = (t if count is None else t[: int(count)]).astype(accumulator(types[0].dtype).numpy)
    return in_order(values, axis, combine).reshape(types[0].shape)


@reduce_elements.emit
def _emit(cx: Any, results: Any, t: Any, count: str | None, axis: int | None, blocks: tuple[Block, ...]) -> None:
    target = cx.tile(results[0])
    if axis is None or len(t.shape) == 1:
        with cx.leader():
            _emit_run(cx, blocks[0], t, t.type.size, lambda e: _numbered(t, e), f"{target.pointer}[0]", count)
        return
    with cx.each_element(target) as index:

        def element(e: str) -> str:
            return str(t.at([*index[:axis], e, *index[axis:]]))

        _emit_run(cx, blocks[0], t, t.shape[axis], element, target.at(index))


def _numbered(t: Any, e: str) -> str:
    """The element of a tile with row-major number ``e``."""
    if t.dense:
        return f"{t.pointer}[{e}]"
    index, rest = [], t.type.size
    for extent in t.shape:
        rest //= extent
        index.append(f"({e} / {rest} % {extent})")
    return str(t.at(index))


def _emit_run(
    cx: Any, block: Block, t: Any, n: int, element: Callable[[str], str], target: str, given: str | None = None
) -> None:
    """Combine ``n`` elements, or as many of them as ``given`` says."""
    wide = cx.cpp(block.params[0].type)
    most = min(n, LANES)
    end = str(n) if given is None else cx.hold("int", given)
    count = str(most) if given is None else cx.hold("int", f"{end} < {most} ? {end} : {most}")
    part, e = cx.fresh("part"), cx.fresh("e")

    def combine(head: str, first: str, second: str) -> None:
        with cx.braces(head):
            cx.define(block.params[0], first)
            cx.define(block.params[1], second)
            cx.block(block, [first])

    cx.line(f"{wide} {part}[{most}];")
    cx.line(f"for (int {e} = 0; {e} < {count}; ++{e}) {part}[{e}] = tk::cast<{wide}>({element(e)});")
    combine(
        f"for (int {e} = {count}; {e} < {end}; ++{e})",
        f"{part}[{e} % {LANES}]",
        f"tk::cast<{wide}>({element(e)})",
    )
    half = cx.fresh("half")
    with cx.braces(f"for (int {half} = {LANES // 2}; {half}; {half} /= 2)"):
        head = f"for (int {e} = 0; {e} < {half} && {e} + {half} < {count}; ++{e})"
        combine(head, f"{part}[{e}]", f"{part}[{e} + {half}]")
    cx.line(f"{target} = tk::cast<{t.element}>({part}[0]);")


def _combiner(function: Callable[..., Any], wide: ScalarType) -> Block:
    """A function traced on two numbers of a type, which it must return."""
    params = (Value(wide), Value(wide))
    with building("tile_reduce") as builder:
        found = function(*map(Scalar, params))
        datum: Any = found.datum if isinstance(found, Scalar) else constant(found)
        if datum is None:
            raise KernelTypeError(f"tile_reduce(): op must return one number, got {describe(found)}")
        if isinstance(datum, Const):
            common_dtype({"op's argument": wide, "its result": datum.type}, "tile_reduce()")
            datum = convert_constant(datum, wide.dtype, "tile_reduce()")
        elif isinstance(found, Scalar) and found.dtype.is_float and found.dtype.bits == 16 and wide.dtype.is_float:
            datum = OPERATORS["cast"](found, wide.dtype).datum
    if datum.type.dtype != wide.dtype:
        raise KernelTypeError(
            f"tile_reduce(): op takes two {wide.dtype.name} and must return one, got {datum.type.dtype.name}; "
            f"cast it, as in tk.{wide.dtype.name}(...)"
        )
    return builder.block(params, (datum,))


def _stepwise(function: Callable[..., Any], wide: ScalarType, t: Tile, axis: int | None) -> Tile:
    """The reduction by a function that branches in plain Python, where calls run at once."""
    type = reduced(t.type, axis, False)
    values = known_data(t).astype(wide.dtype.numpy)
    found = in_order(values, axis, combine_stepwise(function, wide, "tile_reduce"))
    return wrap(Concrete(type, conform(found.reshape(type.shape), type)))  # type: ignore[no-any-return]


def tile_reduce(op: Callable[..., Any], a: Tile, axis: int | None = None, keepdims: bool = False) -> Tile:
    """Combine a tile's elements by a function of two numbers.

    Args:
        op: A builtin, a ``@tk.func``, a plain function or a lambda of two numbers that returns one of the same dtype.
            It should be associative and commutative: the order is fixed, but not from left to right.
        a: The tile. Elements of 16-bit floats are passed to ``op`` as float32, and the result is rounded once.
        axis: The axis to reduce, a compile-time constant; negative ones count from the last. By default all elements.
        keepdims: Whether the reduced axes stay, with extent 1.

    Returns:
        A new tile of ``a``'s dtype: without ``axis``, or of shape ``(1,)`` where no axis is left. The order is the same
        for every block size and device.

    Raises:
        KernelTypeError: ``op`` does not return one number of the dtype that it is given.
        KernelIndexError: ``a`` has no such axis.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_reduce(tk.mul, tk.tile_arange(1, 5, dtype=int))
        tile<1xi32>
        [24]
    """
    require_tile(a, "tile_reduce", "a")
    try:
        along = axis_in(a.type, axis, "tile_reduce")
        check_keepdims(keepdims, "tile_reduce")
        if keepdims:
            return tile_reshape(tile_reduce(op, a, axis), reduced(a.type, along, True).shape)
        function, wide = OPERATORS["resolve"](op), ScalarType(accumulator(a.dtype))
        try:
            block = _combiner(function, wide)
        except KernelTypeError as error:
            if not error.undecided or not runs_at_once():
                raise
            return _stepwise(function, wide, a, along)
        operands, attrs = {"t": a.read(), "count": None}, {"axis": along, "branches": steps(block)}
        return reduce_elements.record(operands, attrs, (block,))  # type: ignore[no-any-return]
    except TilekitError as error:
        raise fail(error) from error.__cause__


MOST_STEPS = 32
"""As many steps of an order as its gradient repeats, each with code of its own."""


@reduce_elements.adjoint
def _adjoint(cx: Any, axis: int | None, branches: bool) -> dict[str, Any]:
    """Those of the steps of the order, one after the other, as functions of tiles."""
    type, (block,) = cx.op.operands["t"].type, cx.op.blocks
    count = type.size if axis is None else type.shape[axis]
    if count > MOST_STEPS * LANES:
        raise cx.refuse(
            f"its gradient repeats each step of the order, and {count} elements take more than {MOST_STEPS} steps; "
            "reduce along one axis first"
        )

    def combine(a: Tile, b: Tile) -> Tile:
        data = {"args": (a.read(), b.read())}
        attrs = {"branches": branches}
        return map_elements.record(data, attrs, (Rewriter(fresh=True).block(block),))  # type: ignore[no-any-return]

    return {"t": cx.through("t", lambda t: _in_steps(t, axis, block.params[0].type.dtype, combine)), "count": 0}


def _in_steps(t: Tile, axis: int | None, wide: DType, combine: Callable[[Tile, Tile], Tile]) -> Tile:
    """The reduction of ``in_order``, of tiles."""
    lined = tile_astype(tile_reshape(t, (t.type.size,)) if axis is None else t, wide)
    along = axis or 0

    def rows(tile: Tile, start: int, stop: int) -> Tile:
        return tile[(slice(None),) * along + (slice(start, stop),)]  # type: ignore[no-any-return]

    def taken_in(part: Tile, more: Tile) -> Tile:
        count = more.shape[along]
        found = combine(rows(part, 0, count), more)
        if count == part.shape[along]:
            return found
        whole = tile_astype(part, wide)
        whole[(slice(None),) * along + (slice(0, count),)] = found
        return whole

    part = rows(lined, 0, LANES)
    for start in range(LANES, lined.shape[along], LANES):
        part = taken_in(part, rows(lined, start, start + LANES))
    half = LANES // 2
    while half:
        if part.shape[along] > half:
            part = taken_in(rows(part, 0, half), rows(part, half, 2 * half))
        half //= 2
    return tile_astype(tile_reshape(part, reduced(t.type, axis, False).shape), t.dtype)
