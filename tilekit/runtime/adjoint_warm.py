"""Recorded backward launches, told again: where what the last one has found out still holds, nothing is looked up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tilekit.errors import TilekitError
from tilekit.ir.float_state import is_ieee
from tilekit.ir.types import ArrayType, DType
from tilekit.runtime.adjoint import AdjointLaunch
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import library_of, view_of
from tilekit.runtime.warm import Again, Like


class WarmBackward:
    """A backward launch of the same arguments and gradient arrays as the last."""

    def __init__(
        self, launch: AdjointLaunch, again: Again, like: Like, arrays: Sequence[tuple[Any, ArrayView]]
    ) -> None:
        self._holds = launch.holds
        self._again = again
        self._arrays = arrays
        self._pointers = [like.values[place] for place in like.places]
        self._numbers = [like.values[place] for place, _ in like.numbers]

    def run(self, stream: Any) -> bool:
        """Launch; False where the kernel, an option or an array is not what it was, and nothing has been done."""
        if not self._holds() or (self._numbers and not is_ieee()):
            return False
        try:
            for array, view in self._arrays:
                found = view_of(array)
                if found.pointer != view.pointer or found.shape != view.shape or found.strides != view.strides:
                    return False
                if found.dtype is not view.dtype or found.device != view.device or found.readonly != view.readonly:
                    return False
        except TilekitError:  # the long way fails too, with words
            return False
        return self._again(self._pointers, self._numbers, stream)


def warm_backward(
    launch: AdjointLaunch, arguments: Mapping[str, Any], gradients: Mapping[str, Any]
) -> WarmBackward | None:
    """The quick way of a launch that went well, or None: gradients that are computed in another dtype, apart from
    others or as one have none, and the interpreter has none.

    Args:
        launch: The launch.
        arguments, gradients: The arrays by parameter, as they were given.
    """
    compiled = launch.form.compiled
    if not hasattr(compiled, "again") or any(launch.apart(*item) for item in launch.gradients.items()):
        return None
    if len(launch.gradients) < len(gradients):
        return None
    if not math.prod(launch.grid):
        return None
    like = _like(launch, compiled.types)
    again = compiled.again(like)
    if again is None:
        return None
    arrays = [(arguments[name], view) for name, view in launch.views.items()]
    arrays += [(gradients[name], view) for name, view in launch.gradients.items()]
    return WarmBackward(launch, again, like, arrays)


def _like(launch: AdjointLaunch, types: Mapping[str, Any]) -> Like:
    """What the launch has packed, and where addresses and numbers are in it."""
    views = [*launch.views.values(), *launch.gradients.values()]
    values = list(launch.values)
    for view in launch.gradients.values():
        values += (view.pointer, *view.shape, *view.strides)
    places: list[int] = []
    numbers: list[tuple[int, DType]] = []
    place = 0
    for each in types.values():
        if isinstance(each, ArrayType):
            places.append(place)
            place += 1 + 2 * each.ndim
        else:
            numbers.append((place, each.dtype))
            place += 1
    libraries = tuple({library_of.get(type(view.owner)) for view in views})
    return Like(values, places, numbers, launch.grid, math.prod(launch.grid), libraries)
