"""The saving variant of a kernel: it keeps tiles that its gradient would have to compute again by products or loops.

Such is the accumulator of a loop over K that goes through a function that is not linear, or the maximum and the sum of
a log-sum-exp. What takes no more than reading arrays and functions of elements is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilekit.builtins.grid import dimensions
from tilekit.errors import TilekitError
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function, Value
from tilekit.ir.program import Launch, Program
from tilekit.ir.types import TileType
from tilekit.passes.differentiate import differentiate, made_ready
from tilekit.passes.heavy_tiles import heavy_tiles
from tilekit.passes.lane_gradients import LaneGradients
from tilekit.passes.lost import lost_values
from tilekit.passes.saved_tiles import SavedTile, with_saves


@dataclass(frozen=True, eq=False)
class Saving:
    """A kernel's saving variant."""

    program: Program
    """It takes what the kernel takes, and gives the tiles in scratch arrays that live until backward."""
    function: Function
    """Its one launch. Its parameters are the kernel's and the scratch arrays; so ``differentiate`` takes it."""
    names: tuple[str, ...]
    """The parameters that are scratch arrays."""


def save_values(fn: Function, form: LaunchForm) -> Saving | None:
    """The saving variant of a kernel; None where its gradient would use nothing that is kept.

    Its arrays have the same bits as the kernel's. Kernels whose lanes hold numbers of their own have none, nor has one
    whose gradient is refused.

    Args:
        fn: The kernel's function, as traced.
        form: Of the launch.
    """
    if not form.tiled:
        return None
    fn = made_ready(fn, form)
    if LaneGradients(fn, form).own:
        return None
    saved = _candidates(fn, form.ndim or dimensions(fn))
    if not saved:
        return None
    try:
        (launch,) = differentiate(with_saves(fn, saved), form, [tile.array.hint for tile in saved.values()]).launches
    except (TilekitError, RecursionError):  # which backward says
        return None
    used = launch.function.body.free.keys()
    read = {name for name, value in launch.function.params.items() if value in used}
    saved = {value: tile for value, tile in saved.items() if tile.array.hint in read}
    if not saved:
        return None
    made, arrays = with_saves(fn, saved), {tile.array.hint: tile.scratch for tile in saved.values()}
    return Saving(Program(fn.name, fn.params, (Launch(made),), arrays), made, tuple(arrays))


def _candidates(fn: Function, ndim: int) -> dict[Value, SavedTile]:
    """The tiles that may be kept, each in an array of its own."""
    lost, taken = lost_values(fn), set(fn.params)
    found: dict[Value, SavedTile] = {}
    for value, hint in heavy_tiles(fn):
        if isinstance(value.type, TileType) and value.type.shape and value not in lost:
            name = f"saved_{hint}" if hint else "saved"
            while name in taken:
                name += "_"
            taken.add(name)
            found[value] = SavedTile.new(name, value.type, ndim)
    return found
