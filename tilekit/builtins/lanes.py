"""Lanes: from a number in each lane to a tile and back, and the loops over lanes that a later pass forms."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.builtins.grid import launch_form
from tilekit.errors import KernelTypeError, KernelValueError
from tilekit.ir.annotations import TileAnnotation, tile_annotation
from tilekit.ir.builtin import builtin
from tilekit.ir.context import active
from tilekit.ir.core import Block, Const
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.interpret import HOST, Machine
from tilekit.ir.operands import DTypeLike, Tiles, describe_for_number, describe_for_tile, operand_of, usual
from tilekit.ir.regions import Region
from tilekit.ir.types import DType, ScalarType, TileType, Type, int32

__all__ = ["tile", "untile"]
GROUP = "Lanes"
DEFAULT_LANES = 256


def lanes_of_launch() -> int:
    """Lanes of a block, as a compile-time number; 1 outside kernels."""
    return HOST.block_dim if active() is None else launch_form().block_dim or DEFAULT_LANES


# What users call.


@builtin(cooperative=True, observes_lanes=True, per_lane=("x",))
def gather_lanes(x: Scalar, lanes: int) -> Tile:
    """A tile with one element a lane."""


@gather_lanes.coerce
def _gather_coerce(x: ScalarType) -> dict[str, ScalarType]:
    return {"x": usual(x)}


@gather_lanes.result
def _gather_result(x: ScalarType, lanes: int) -> TileType:
    return TileType(x.dtype, (lanes,))


@gather_lanes.reference
def _gather_reference(x: Any, lanes: int) -> Any:
    return np.full(lanes, x)


@gather_lanes.lower
def _gather_lower(x: Tile) -> Tile:
    return x  # a per-lane operand arrives as the tile of its values


@gather_lanes.adjoint
def _gather_adjoint(grad: Any, lanes: int) -> dict[str, Any]:
    return {"x": lambda: spread_lanes(grad, lanes)}


@builtin(lane=True, observes_lanes=True)
def spread_lanes(t: Tile, lanes: int) -> Scalar:
    """The lane's own element of a tile with one element a lane."""


@spread_lanes.result
def _spread_result(t: TileType, lanes: int) -> ScalarType:
    if len(t.shape) != 1 or t.shape[0] != lanes:
        raise KernelValueError(f"untile(): a is a {t}; it needs one axis of block_dim={lanes} elements, one a lane")
    return ScalarType(t.dtype)


@spread_lanes.reference
def _spread_reference(machine: Machine, t: Any) -> Any:
    return t[machine.lane]


@spread_lanes.lower
def _spread_lower(t: Tile, lane: Scalar) -> Any:
    return lane_get(t, lane)


@spread_lanes.adjoint
def _spread_adjoint(grad: Any, lanes: int) -> dict[str, Any]:
    return {"t": lambda: gather_lanes(grad, lanes)}


class TileFunction:
    """``tile(x)`` in kernels; ``tile[dtype, M, N]`` and Warp's ``tile(dtype=..., shape=...)`` annotate parameters."""

    def __init__(self, function: Callable[..., Tile]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "dtype" in kwargs or "shape" in kwargs or isinstance(next(iter(args), None), type | DType):
            given = _ANNOTATED.bind(*args, **kwargs).arguments
            return tile_annotation((given["dtype"], given["shape"]))
        return self.function(*args, **kwargs)

    def __getitem__(self, parameters: Any) -> TileAnnotation:
        return tile_annotation(parameters)


_ANNOTATED = inspect.signature(lambda dtype, shape: None)


@TileFunction
def tile(x: Any, preserve_type: bool = False) -> Tile:
    """A tile of the numbers that the lanes of the block hold.

    Args:
        x: A number, run time or constant, that may differ between lanes.
        preserve_type: Accepted for Warp's sake; without meaning for numbers.

    Returns:
        A new tile of shape ``(block_dim,)`` and ``x``'s dtype.

    Raises:
        KernelTypeError: ``x`` is no number.

    With a dtype in brackets, and extents, it is the annotation of a helper's parameter.

    Example:
        >>> import tilekit as tk
        >>> tk.tile(2.5)
        tile<1xf32>
        [2.5]
        >>> @tk.func
        ... def doubled(t: tk.tile[float, 4, 8]):
        ...     return t * 2.0
    """
    operand = operand_of(x, "tile(): x")
    if not isinstance(operand, Const) and not (operand is not None and isinstance(operand.type, ScalarType)):
        raise KernelTypeError(f"tile(): x must be a number, got {describe_for_number(x)}")
    return gather_lanes(operand, lanes_of_launch())  # type: ignore[no-any-return]


def untile(a: Tile) -> Scalar:
    """The lane's own element of a tile with one element a lane; the inverse of ``tile``.

    Args:
        a: A tile of shape ``(block_dim,)``.

    Returns:
        A number that may differ between lanes.

    Raises:
        KernelValueError: the tile has another shape.

    Example:
        >>> import tilekit as tk
        >>> tk.untile(tk.tile(2.5))
        2.5
    """
    if not isinstance(a, Tile):
        raise KernelTypeError(f"untile(): a must be a tile, got {describe_for_tile(a)}")
    return spread_lanes(a, lanes_of_launch())  # type: ignore[no-any-return]


# What the pass that forms loops over lanes records.


EACH_LANE = Region("loop", init="init", leading=1)


@builtin(late=True, region=EACH_LANE)
def lane_loop(init: Tiles, lanes: int) -> Any:
    """Run a block for each lane, in order; its parameters are the lane and what it carries to the next."""


@lane_loop.result
def _loop_result(blocks: tuple[Block, ...]) -> tuple[Type, ...]:
    return tuple(param.type for param in EACH_LANE.params(blocks[0]))


@lane_loop.verify
def _loop_verify(blocks: tuple[Block, ...]) -> None:
    if blocks[0].params[0].type != ScalarType(int32):
        raise KernelTypeError(f"a lane is an int32, not a {blocks[0].params[0].type}")


@lane_loop.reference
def _loop_reference(machine: Machine, init: Any, lanes: int, blocks: Any) -> tuple[Any, ...]:
    state, outer = tuple(init), machine.lane
    for lane in range(machine.present or lanes):
        machine.lane = lane
        state = blocks[0](np.int32(lane), *state)
    machine.lane = outer
    return state


@lane_loop.emit
def _loop_emit(cx: Any, results: Any, init: Any, lanes: int, blocks: tuple[Block, ...]) -> None:
    (body,) = blocks
    params = EACH_LANE.params(body)
    cx.carry(results, params, init)
    name = cx.define(body.params[0])
    count = cx.hold("tk::i32", present(lanes)) if cx.target.ragged else str(lanes)
    with cx.in_lane(name), cx.braces(f"for (tk::i32 {name} = 0; {name} < {count}; ++{name})"):
        cx.block(body, params)


def present(lanes: int) -> str:
    """The code that tells how many lanes the block has."""
    return f"tk::present(launch, block, {lanes})"


@builtin(late=True)
def lane_slots(lanes: int, dtype: DTypeLike) -> Tile:
    """Storage for one number a lane; what it holds is written before it is read."""


@lane_slots.result
def _slots_result(lanes: int, dtype: DType) -> TileType:
    return TileType(dtype, (lanes,))


@lane_slots.reference
def _slots_reference(lanes: int, types: Any) -> Any:
    return np.zeros(lanes, types[0].dtype.numpy)


@lane_slots.emit
def _slots_emit(cx: Any, results: Any) -> None:
    cx.tile(results[0])


@builtin(late=True)
def lane_get(t: Tile, lane: Scalar, weak: bool = False) -> Scalar:
    """A lane's element; ``weak`` where it came from literals only."""


@lane_get.result
def _get_result(t: TileType, weak: bool) -> ScalarType:
    return ScalarType(t.dtype, weak)


@lane_get.reference
def _get_reference(t: Any, lane: Any) -> Any:
    return t[lane]


@lane_get.emit
def _get_emit(cx: Any, t: Any, lane: str) -> str:
    return t.at([lane])  # type: ignore[no-any-return]


@builtin(late=True, reuses=("t",), in_place="t")
def lane_set(t: Tile, lane: Scalar, x: Scalar) -> Tile:
    """The tile with a lane's element replaced."""


@lane_set.result
def _set_result(t: TileType) -> TileType:
    return t


@lane_set.reference
def _set_reference(t: Any, lane: Any, x: Any) -> Any:
    changed = t.copy()
    changed[lane] = x
    return changed


@lane_set.emit
def _set_emit(cx: Any, t: Any, lane: str, x: str) -> None:
    cx.line(f"{t.at([lane])} = {x};")


@builtin(late=True)
def lane_coordinate(lane: Scalar, axis: int, lanes: int) -> Scalar:
    """Coordinate ``axis`` of a lane's own point; blocks are consecutive points."""


@lane_coordinate.result
def _lane_coordinate_result() -> ScalarType:
    return ScalarType(int32)


@lane_coordinate.reference
def _lane_coordinate_reference(machine: Machine, lane: Any, axis: int, lanes: int) -> Any:
    return np.unravel_index(machine.block[0] * lanes + int(lane), machine.grid)[axis]


@lane_coordinate.emit
def _lane_coordinate_emit(cx: Any, lane: str, axis: int, lanes: int) -> str:
    return f"(tk::i32)tk::coordinate(launch, block * {lanes} + {lane}, {axis})"
