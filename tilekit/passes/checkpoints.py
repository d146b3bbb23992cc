"""What a loop carries, kept in scratch memory at some iterations, so that others can be computed again from there.

States are kept at those iterations that binomial checkpointing (Griewank and Walther's *revolve*) names: for ``n``
iterations and ``s`` slots the body is run again ``r`` times for each, where ``r`` is the least number with
``binomial(s + r, s) >= n``.
"""

from __future__ import annotations

from typing import Any

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


class Kept:
    """The scratch arrays of one loop: for each block of the launch and each slot, an iteration and what is carried."""

    def __init__(self, arrays: list[Value], types: list[Type], slots: int) -> None:
        self.arrays = arrays
        self.types = types
        self.slots = slots

    def save(self, slot: Any, data: tuple[Any, ...]) -> None:
        """Keep a state in a slot."""
        for array, type, datum in zip(self.arrays, self.types, data, strict=True):
            if isinstance(type, TileType):
                part = REGISTRY["subarray"](Array(array), (block_number(), slot), array.hint)
                tile = wrap(datum)
                if part.ndim != len(type.shape):
                    tile = OPERATORS["view"](tile, None, ViewMap.identity((type.size,)))
                REGISTRY["tile_store"](part, tile, (0,) * part.ndim)
            else:
                value = wrap(datum)
                REGISTRY["element_store"](Array(array), (block_number(), slot), value, array.hint)

    def load(self, slot: Any) -> tuple[Any, ...]:
        """The state in a slot."""
        found = []
        for array, type in zip(self.arrays, self.types, strict=True):
            if isinstance(type, TileType):
                part = REGISTRY["subarray"](Array(array), (block_number(), slot), array.hint)
                flat = part.ndim != len(type.shape)
                tile = REGISTRY["tile_load"](part, (type.size,) if flat else type.shape, (0,) * part.ndim)
                found.append(OPERATORS["view"](tile, None, ViewMap.identity(type.shape)) if flat else tile)
            else:
                found.append(REGISTRY["element_load"](Array(array), (block_number(), slot), array.hint))
        return tuple(map(datum_of, found))

    def after(self, at: Any, goal: Any, slot: Any, fits: bool) -> Any:
        """The iteration to keep next on the way from ``at``, kept in ``slot``, to ``goal``."""
        if fits:
            return at + 1
        length = goal - at + 1
        left = OPERATORS["cast"](self.slots - slot, int64)
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


def shape_of(type: Type, blocks: Size, slots: Size) -> tuple[Size, ...]:
    """The shape of the scratch array for one carried value: arrays have at most four dimensions."""
    if not isinstance(type, TileType):
        return (blocks, slots)
    return (blocks, slots, *(type.shape if len(type.shape) in (1, 2) else (type.size,)))


def scratch_for(name: str, type: Type, blocks: Size, slots: Size) -> Scratch:
    """The scratch array for one carried value."""
    shape = shape_of(type, blocks, slots)
    return Scratch(Value(ArrayType(type.dtype, len(shape)), name), shape)
