"""Any scalar function over the elements of tiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilekit.builtins.stepwise import map_stepwise, runs_at_once
from tilekit.errors import KernelTypeError, KernelValueError, operand
from tilekit.ir.builtin import Builtin, builtin
from tilekit.ir.context import building
from tilekit.ir.core import Block, Value
from tilekit.ir.handles import OPERATORS, Scalar, Tile
from tilekit.ir.operands import Tiles, constant, describe
from tilekit.ir.types import ScalarType, TileType

__all__ = ["tile_map"]
GROUP = "Tile math"


@builtin(cooperative=True, reuses=("args",))
def map_elements(args: Tiles, branches: bool = False) -> Tile:
    """Run a block for each element of the tiles among ``args``; scalars are the same for all."""


@map_elements.result
def _result(args: tuple[Any, ...], blocks: tuple[Block, ...]) -> TileType:
    tiles = [type for type in args if isinstance(type, TileType)]
    if not tiles:
        raise KernelTypeError("tile_map: none of the arguments is a tile")
    if any(tile.shape != tiles[0].shape for tile in tiles):
        raise KernelValueError(f"tile_map: the shapes differ: {', '.join(map(str, tiles))}")
    (body,) = blocks
    return TileType(body.results[0].type.dtype, tiles[0].shape)


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
    with cx.each_element(target) as index:
        for param, arg in zip(body.params, args, strict=True):
            if isinstance(arg, str):
                cx.scalars[param] = arg
            else:
                cx.define(param, arg.at(index))
        cx.block(body, [target.at(index)])


@map_elements.adjoint
def _adjoint(cx: Any, grad: Any, value: Any, branches: bool) -> dict[str, Any]:
    args = cx.op.operands["args"]

    def gradient(position: int) -> Any:
        block, needed = cx.reverse_element_block(position)
        data = (*(datum(value("args", i)) for i in needed), grad.read())
        found = map_elements.record({"args": data}, {"branches": any(op.blocks for op in block.ops)}, (block,))
        return found if isinstance(args[position].type, TileType) else cx.sum(found)

    return {"args": tuple(partial(gradient, position) for position in range(len(args)))}


def datum(value: Any) -> Any:
    """A handle as an operand."""
    return value.read() if isinstance(value, Tile) else value.datum if isinstance(value, Scalar) else constant(value)


def _check_shapes(op: Any, args: tuple[Any, ...]) -> None:
    """The tiles among the arguments have one shape, and there is something to call."""
    if not callable(op) or isinstance(op, Tile):
        raise KernelTypeError(f"tile_map: the first argument must be a function, got {describe(op)}")
    names = list(map(operand, op.operand_names)) if isinstance(op, Builtin) else []
    tiles = [(i, arg) for i, arg in enumerate(args) if isinstance(arg, Tile)]
    if any(tile.shape != tiles[0][1].shape for _, tile in tiles):
        shown = [f"{names[i]} is {tile.type}" if i < len(names) else str(tile.type) for i, tile in tiles]
        name = op.spelled if isinstance(op, Builtin) else "tile_map"
        raise KernelValueError(f"{name}: the shapes differ: {' and '.join(shown)}; tk.tile_broadcast repeats a tile")


def map_function(op: Callable[..., Any], *args: Any) -> Any:
    """Trace ``op`` on one element of each tile, then map it."""
    _check_shapes(op, args)
    function = OPERATORS["resolve"](op) if "resolve" in OPERATORS else op
    held = [arg for arg in args if isinstance(arg, Scalar | Tile)]
    params = {id(arg): Value(ScalarType(arg.dtype)) for arg in held}
    try:
        with building("tile_map") as builder:
            element = function(*(Scalar(params[id(arg)]) if id(arg) in params else arg for arg in args))
    except KernelTypeError as error:
        if not error.undecided or not runs_at_once():
            raise
        return map_stepwise(function, args, "tile_map")
    yielded = element.datum if isinstance(element, Scalar) else constant(element)
    if yielded is None:
        raise KernelTypeError(f"tile_map: the function must return one number, got {describe(element)}")
    unique = {id(arg): arg for arg in held}
    block = builder.block(tuple(params[key] for key in unique), (yielded,))  # type: ignore[arg-type]
    operands = tuple(arg.read() if isinstance(arg, Tile) else arg.datum for arg in unique.values())
    branches = any(op.blocks for op in block.ops)
    return map_elements.record({"args": operands}, {"branches": branches}, (block,))


OPERATORS["map"] = map_function


def tile_map(op: Callable[..., Any], *args: Any) -> Tile:
    """Apply a scalar function to every element of one or several tiles.

    Args:
        op: A builtin, a ``@tk.func``, a plain function or a lambda of as many scalars as there are ``args``.
        args: Tiles of one shape, and scalars that are the same for every element.

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
    if not any(isinstance(arg, Tile) for arg in args):
        raise KernelTypeError("tile_map: none of the arguments is a tile")
    return map_function(op, *args)  # type: ignore[no-any-return]
