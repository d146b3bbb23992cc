"""Where a kernel runs: grid coordinates, lanes, block size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilekit.errors import KernelNotImplementedError, KernelValueError, counted
from tilekit.ir.builtin import REGISTRY, builtin
from tilekit.ir.context import Builder, LaunchForm, active
from tilekit.ir.core import Function, walk
from tilekit.ir.handles import OPERATORS, Scalar
from tilekit.ir.interpret import Eager, Machine
from tilekit.ir.types import ScalarType, int32, int64

__all__ = ["tid"]
GROUP = "Launch"


@builtin()
def coordinate(axis: int) -> Scalar:
    """Coordinate ``axis`` of the block, or of the point in a kernel without blocks."""


@coordinate.result
def _coordinate_result() -> ScalarType:
    return ScalarType(int32)


@coordinate.reference
def _coordinate_reference(machine: Machine, axis: int) -> Any:
    return machine.block[axis]


@coordinate.emit
def _coordinate_emit(cx: Any, results: Any, axis: int) -> None:
    cx.scalars[results[0]] = cx.coordinate(axis)


@builtin()
def block_number() -> Scalar:
    """The number of the block in the launch, or of the point in a kernel without blocks."""


@block_number.result
def _number_result() -> ScalarType:
    return ScalarType(int64)


@block_number.reference
def _number_reference(machine: Machine) -> Any:
    whole = len(machine.block) == len(machine.grid)
    return np.ravel_multi_index(machine.block, machine.grid) if whole else machine.block[0]


@block_number.emit
def _number_emit() -> str:
    return "block"


@builtin(lane=True)
def point(axis: int) -> Scalar:
    """Coordinate ``axis`` of the lane's point under ``launch``."""


point.result(_coordinate_result)
point.reference(_coordinate_reference)


@point.shared
def _point_shared(axis: int, whole: int) -> bool:
    return axis < whole


@point.lower
def _point_lower(lane: Any, lanes: int, axis: int) -> Any:
    return coordinate(axis) if lane is None else REGISTRY["lane_coordinate"](lane, axis, lanes)


@builtin(operator="lane", lane=True, observes_lanes=True)
def lane_index() -> Scalar:
    """The number of the lane within its block."""


@lane_index.result
def _lane_result() -> ScalarType:
    return ScalarType(int32)


@lane_index.reference
def _lane_reference(machine: Machine) -> Any:
    return machine.lane


@lane_index.lower
def _lane_lower(lane: Scalar) -> Scalar:
    return lane


@builtin(group=GROUP, observes_lanes=True)
def block_dim() -> Scalar:
    """The number of lanes of a block, as given to the launch.

    Example:
        >>> import tilekit as tk
        >>> tk.block_dim()
        1
    """


@block_dim.result
def _dim_result() -> ScalarType:
    return ScalarType(int32)


@block_dim.reference
def _dim_reference(machine: Machine) -> Any:
    return machine.block_dim


@block_dim.emit
def _dim_emit(cx: Any) -> str:
    return str(cx.target.block_dim)


class Tid(Scalar):
    """What ``tk.tid()`` gives: the first coordinate, or unpacked, as many as there are names."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unpack(launch_form().ndim or 1))

    def unpack(self, count: int) -> tuple[Any, ...]:
        """The first ``count`` coordinates; one more than the grid has adds the lane."""
        form = launch_form()
        ndim = count if form.ndim is None else form.ndim
        if count <= ndim:
            return tuple((coordinate if form.tiled else point)(axis) for axis in range(count))
        if form.tiled and count == ndim + 1:
            return (*(coordinate(axis) for axis in range(ndim)), lane_index())
        more = "; one more name is the lane" if form.tiled else ""
        raise KernelValueError(
            f"tid() is unpacked into {count} names, but this launch has {counted(ndim, 'dimension')}{more}"
        )


def launch_form() -> LaunchForm:
    context = active()
    if isinstance(context, Builder):
        return context.form or LaunchForm()
    if isinstance(context, Eager):
        machine = context.machine
        return LaunchForm(not machine.points, len(machine.grid), machine.block_dim)
    raise KernelNotImplementedError("tid() is only known inside a kernel")


def tid() -> Any:
    """The grid point that runs the kernel.

    Returns:
        ``i, j = tk.tid()``: the coordinates of the block (``launch_tiled``) or of the point (``launch``), int32;
        under ``launch_tiled`` one name more than the grid has dimensions is the lane. Fewer names are the first
        coordinates, one name alone, ``i = tk.tid()``, the first.

    Raises:
        KernelValueError: more names than that.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> @tk.kernel
        ... def number(out: tk.array2d[int]):
        ...     i, j = tk.tid()
        ...     out[i, j] = 10 * i + j
        >>> out = np.zeros((2, 3), np.int32)
        >>> tk.launch(number, dim=(2, 3), outputs=[out])
        >>> out
        array([[ 0,  1,  2],
               [10, 11, 12]], dtype=int32)
    """
    return Tid((coordinate if launch_form().tiled else point)(0).datum)


def dimensions(fn: Function) -> int:
    """Dimensions of the grid of a function traced without a launch: the names that ``tid()`` is unpacked into."""
    axes = (op.attrs["axis"] for op in walk(fn.body) if op.builtin in (coordinate, point))
    return max((axis + 1 for axis in axes), default=0) or 1


def unpack(value: Any, count: int) -> Any:
    """What ``a, b = value`` unpacks."""
    return value.unpack(count) if isinstance(value, Tid) else value


OPERATORS["unpack"] = unpack
