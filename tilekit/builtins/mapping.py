"""Any scalar function over the elements of tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.builtins.broadcasting import common_shape, how_to_repeat, repeat_to
from tilekit.builtins.stepwise import map_stepwise, runs_at_once, steps
from tilekit.errors import KernelTypeError, KernelValueError, operand
from tilekit.ir.builtin import Builtin, builtin
from tilekit.ir.context import active, building, fail
from tilekit.ir.core import Block, Const, Op, Value
from tilekit.ir.handles import OPERATORS, Scalar, Tile
from tilekit.ir.literals import adopt, tracked
from tilekit.ir.operands import Tiles, adapted, constant, describe, describe_for_tile, usual
from tilekit.ir.regions import Region
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import DType, ScalarType, TileType

__all__ = ["tile_map"]
GROUP = "Tile math"


@builtin(region=Region("elements", args="args"), cooperative=True, reuses=("args",), by_element=True)
def map_elements(args: Tiles, branches: bool = False) -> Tile:
    """Run a block for each element of the tiles among ``args``; scalars are the same for all."""


@map_elements.result
def _result(args: tuple[Any, ...], blocks: tuple[Block, ...]) -> TileType:
    tiles = [type for type in args if isinstance(type, TileType)]
    if not tiles:
        raise KernelTypeError("tile_map(): none of the arguments is a tile")
    if any(tile.shape != tiles[0].shape for tile in tiles):
        raise KernelValueError(f"tile_map(): the shapes differ: {', '.join(map(str, tiles))}")
    (body,) = blocks
    return TileType(body.results[0].type.dtype, tiles[0].shape)


@map_elements.verify
def _verify(args: tuple[Any, ...], blocks: tuple[Block, ...]) -> None:
    for param, arg in zip(blocks[0].params, args, strict=True):
        if param.type.dtype != arg.type.dtype:
            raise KernelTypeError(f"its function takes elements of {arg.type} as {param.type}")


@map_elements.reference
def _reference(args: tuple[Any, ...], branches: bool, blocks: Any, types: Any) -> Any:
    shape = types[0].shape
    if not branches:
        return np.broadcast_to(blocks[0](*args)[0], shape).copy()
    result = np.empty(shape, types[0].dtype.numpy)
    for index in np.ndindex(*shape):
        (result[index],) = blocks[0](*(arg[index] if np.ndim(arg) else arg for arg in args))
    return result


@map_elements.emit
def _emit(cx: Any, results: Any, args: Any, blocks: tuple[Block, ...]) -> None:
    target = cx.tile(results[0])
    (body,) = blocks
    numbers = {param: arg for param, arg in zip(body.params, args, strict=True) if isinstance(arg, str)}
    cx.scalars.update(numbers)

    def loop(stores: bool) -> None:
        with cx.each_element(target) as index:
            for param, arg in zip(body.params, args, strict=True):
                if param not in numbers:
                    cx.define(param, arg.at(index))
            if stores:
                cx.block(body, [target.at(index)])
            else:
                for op in body.ops:
                    cx.emit(op)

    cx.over_elements(body, target, numbers, loop)


@map_elements.adjoint
def _adjoint(cx: Any, grad: Any, value: Any) -> dict[str, Any]:
    args, (body,) = cx.op.operands["args"], cx.op.blocks

    def record(block: Block, needed: tuple[Value, ...]) -> Any:
        data = (*(datum(value("args", body.params.index(param))) for param in needed), grad.read())
        return map_elements.record({"args": data}, {"branches": steps(block)}, (block,))

    found = cx.reverse_elements(record)

    def answer(param: Value, arg: Any) -> Any:
        tile = found.get(param, 0)
        return tile if isinstance(arg.type, TileType) or param not in found else cx.sum(tile)

    return {"args": tuple(map(answer, body.params, args))}


def datum(value: Any) -> Any:
    """A handle as an operand."""
    return value.read() if isinstance(value, Tile) else value.datum if isinstance(value, Scalar) else constant(value)


def _of_one_shape(op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with the tiles repeated to one shape.

    Raises:
        KernelTypeError: there is nothing to call.
        KernelValueError: an axis is missing, or extents other than 1 differ.
    """
    if not callable(op) or isinstance(op, Tile):
        raise KernelTypeError(f"tile_map(): the first argument must be a function, got {describe(op)}")
    names = list(map(operand, op.operand_names)) if isinstance(op, Builtin) else []
    tiles = [(i, arg) for i, arg in enumerate(args) if isinstance(arg, Tile)]
    shapes = {tile.shape for _, tile in tiles}
    if len(shapes) < 2:
        return args
    common = common_shape(shapes)
    if common is None:
        shown = [f"{names[i]} is {tile.type}" if i < len(names) else str(tile.type) for i, tile in tiles]
        name = op.called if isinstance(op, Builtin) else "tile_map()"
        called = {names[i]: tile for i, tile in tiles if i < len(names)}
        raise KernelValueError(f"{name}: the shapes differ: {' and '.join(shown)}; {how_to_repeat(called)}")
    views = {id(tile): repeat_to(tile, common) for _, tile in tiles}
    return tuple(views.get(id(arg), arg) for arg in args)


def map_function(op: Callable[..., Any], *args: Any) -> Any:
    """Trace ``op`` on one element of each tile, then map it."""
    args = _of_one_shape(op, args)
    held = {id(arg): arg for arg in args if isinstance(arg, Scalar | Tile)}
    key = _key_of(op, args, held) if isinstance(op, Builtin) else None
    block = _blocks.get(key) if key is not None else None
    if block is None:
        try:
            block = _trace_element(op, args, held)
        except KernelTypeError as error:
            if not error.undecided or not runs_at_once():
                raise
            return map_stepwise(OPERATORS["resolve"](op) if "resolve" in OPERATORS else op, args, "tile_map")
        if key is not None and not any(inner.blocks for inner in block.ops):
            _blocks[key] = block
    else:
        block = renew(block)
    operands = tuple(arg.read() if isinstance(arg, Tile) else arg.datum for arg in held.values())
    return map_elements.record({"args": operands}, {"branches": steps(block)}, (block,))


def _trace_element(op: Callable[..., Any], args: tuple[Any, ...], held: dict[int, Any]) -> Block:
    function = OPERATORS["resolve"](op) if "resolve" in OPERATORS else op
    params = {key: Value(arg.type if isinstance(arg, Scalar) else ScalarType(arg.dtype)) for key, arg in held.items()}
    if (literals := tracked()) is not None:
        for key, arg in held.items():
            literals.pass_on(arg, params[key])
    with building("tile_map") as builder:
        element = function(*(Scalar(params[id(arg)]) if id(arg) in params else arg for arg in args))
        yielded = element.datum if isinstance(element, Scalar) else constant(element)
        if yielded is None:
            raise KernelTypeError(f"tile_map(): the function must return one number, got {describe(element)}")
        wanted = usual(yielded.type)  # a tile has a dtype of its own
        yielded = adapted(yielded, wanted, "tile_map") if isinstance(yielded, Const) else adopt(yielded, wanted)
    return builder.block(tuple(params.values()), (yielded,))


_blocks: dict[Any, Block] = {}
"""What builtins do with one element, by the dtypes and constants that they are applied to."""


def _key_of(op: Builtin, args: tuple[Any, ...], held: dict[int, Any]) -> Any:
    """What the block of a builtin on these arguments depends on; None where that is not known."""
    position = {key: index for index, key in enumerate(held)}
    parts: list[Any] = []
    for arg in args:
        if id(arg) in position:
            if isinstance(arg, Scalar) and arg.type.weak:
                return None
            parts.append((position[id(arg)], arg.dtype.name))
        elif isinstance(arg, bool | int | float | DType):
            parts.append((type(arg), repr(arg)))
        else:
            return None
    return op, tuple(parts)


def renew(block: Block) -> Block:
    """The same ops on values of their own, at the place of the running call."""
    context = active()
    place = context.location() if context is not None else None

    def placed(op: Op, rewriter: Rewriter) -> tuple[Op, ...]:
        return (rewriter.rebuilt(op, location=place),)

    return Rewriter(change=placed, fresh=True).block(block)


OPERATORS["map"] = map_function


def tile_map(op: Callable[..., Any], *args: Any, **named: Any) -> Tile:
    """Apply a scalar function to every element of one or several tiles.

    Args:
        op: A builtin, a ``@tk.func``, a plain function or a lambda of as many scalars as there are ``args``.
        args: Tiles of one shape, to which axes of extent 1 are repeated, and scalars that are the same for every
            element. The first two have the keywords ``a`` and ``b``.

    Returns:
        A new tile of that shape; its dtype is what ``op`` returns.

    Raises:
        KernelTypeError: no argument is a tile, or ``op`` does not return a number.
        KernelValueError: the shapes differ.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_map(lambda x, y: x * y + 1.0, tk.tile_full(2, 3.0), tk.tile_full(2, 4.0))
        tile<2xf32>
        [13. 13.]
    """
    expected = ("a", "b")[len(args) :][: len(named)]
    if set(named) != set(expected):
        shown = f"{len(args) + 1} positional arguments and {', '.join(named)}"
        raise fail(KernelTypeError(f"tile_map() takes (op, a, b, ...), got {shown}"))
    args = (*args, *(named[key] for key in expected))
    if not any(isinstance(arg, Tile) for arg in args):
        shown = " and ".join(map(describe_for_tile, args))
        raise KernelTypeError(f"tile_map(): none of the arguments is a tile: got {shown or 'none'}")
    return map_function(op, *args)  # type: ignore[no-any-return]
