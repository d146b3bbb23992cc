"""What a loop carries, kept in scratch memory at some iterations, so that others can be computed again from there.

States are kept at those iterations that binomial checkpointing (Griewank and Walther's *revolve*) names: for ``n``
iterations and ``s`` slots the body is run again ``r`` times for each, where ``r`` is the least number with
``binomial(s + r, s) >= n``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from tilekit.builtins.control import while_loop
from tilekit.builtins.grid import block_number
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.context import building
from tilekit.ir.core import Const, Value
from tilekit.ir.handles import OPERATORS, Array, wrap
from tilekit.ir.program import Scratch
from tilekit.ir.sizes import Size
from tilekit.ir.types import ArrayType, ScalarType, TileType, Type, int32, int64
from tilekit.ir.views import ViewMap
from tilekit.passes.scope import constant, datum_of

INT = ScalarType(int64)
SLOT = ScalarType(int32)
NEVER = -1
How = Literal["tile", "block", "shared", "lane"]
"""A tile; a number of a block without lanes; one that the lanes share and keep together; one of each lane."""


@dataclass(frozen=True)
class Place:
    """The scratch array for one carried value: for each block of the launch and each slot."""

    array: Value
    type: Type
    how: How

    def save(self, slot: Any, value: Any) -> None:
        """Keep the value in a slot."""
        if self.how in ("block", "lane"):
            REGISTRY["element_store"](Array(self.array), self._index(slot), value, self.array.hint)
            return
        part = self._part(slot)
        if isinstance(self.type, ScalarType):
            value = OPERATORS["full"]((1,), value, self.type.dtype)
        elif part.ndim != len(value.shape):
            value = OPERATORS["view"](value, None, ViewMap.identity((value.size,)))
        REGISTRY["tile_store"](part, value, (0,) * part.ndim)

    def load(self, slot: Any) -> Any:
        """The value in a slot."""
        if self.how in ("block", "lane"):
            return REGISTRY["element_load"](Array(self.array), self._index(slot), self.array.hint)
        part = self._part(slot)
        if isinstance(self.type, ScalarType):
            return REGISTRY["tile_load"](part, (1,), (0,))[0]
        assert isinstance(self.type, TileType)
        flat = part.ndim != len(self.type.shape)
        tile = REGISTRY["tile_load"](part, (self.type.size,) if flat else self.type.shape, (0,) * part.ndim)
        return OPERATORS["view"](tile, None, ViewMap.identity(self.type.shape)) if flat else tile

    def _index(self, slot: Any) -> tuple[Any, ...]:
        return (block_number(), slot, *((REGISTRY["lane_index"](),) if self.how == "lane" else ()))

    def _part(self, slot: Any) -> Any:
        return REGISTRY["subarray"](Array(self.array), (block_number(), slot), self.array.hint)


class Kept:
    """What is kept of one loop: an iteration, and what is carried into it."""

    def __init__(self, places: list[Place], slots: Size) -> None:
        self.places = places
        self.slots = slots

    def save(self, slot: Any, data: tuple[Any, ...]) -> None:
        """Keep a state in a slot."""
        for place, datum in zip(self.places, data, strict=True):
            place.save(slot, wrap(datum))

    def load(self, slot: Any) -> tuple[Any, ...]:
        """The state in a slot."""
        return tuple(datum_of(place.load(slot)) for place in self.places)

    def after(self, at: Any, goal: Any, slot: Any, fits: bool) -> Any:
        """The iteration to keep next on the way from ``at``, kept in ``slot``, to ``goal``."""
        if fits:
            return at + 1
        length = goal - at + 1
        slots = self.slots if isinstance(self.slots, int) else OPERATORS["shape"](Array(self.places[0].array), 1)
        left = OPERATORS["cast"](slots - slot, int64)
        again, reach = wrap(Value(INT)), wrap(Value(INT))

        def go(reach: Any) -> Any:
            return OPERATORS["&"](left > 1, reach < length)

        with building() as builder:
            more = again + 1
            further = reach * (left + more) // more
            yields = (go(further).datum, more.datum, further.datum)
        block = builder.block((again.datum, reach.datum), yields)
        start = left + 1
        init = (Const(INT, 1), start.datum)
        times, _ = while_loop.record({"test": go(start).datum, "init": init}, {}, (block,))
        step = OPERATORS["call.max"](length * times // (left + times), constant(1, INT))
        return REGISTRY["where"](left > 1, at + step, constant(NEVER, INT))


def scratch_for(name: str, type: Type, how: How, blocks: Size, slots: Size, lanes: int) -> Scratch:
    """The scratch array for one carried value; arrays have at most four dimensions."""
    shape: tuple[Size, ...] = {"block": (), "lane": (lanes,), "shared": (1,), "tile": ()}[how]
    if isinstance(type, TileType):
        shape = type.shape if len(type.shape) in (1, 2) else (type.size,)
    shape = (blocks, slots, *shape)
    return Scratch(Value(ArrayType(type.dtype, len(shape)), name), shape)


def kept_bytes(scratch: Scratch, checkpoints: int) -> int:
    """The bytes of a scratch array that are for one block, at most."""
    _, *shape = scratch.shape
    return prod(size if isinstance(size, int) else checkpoints for size in shape) * scratch.value.type.dtype.bits // 8
