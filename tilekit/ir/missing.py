"""Blocks that lack some of their lanes: what an op makes of a tile with one element a lane, told by its properties.

The elements of missing lanes are copies of lane 0's, so that arithmetic on them meets nothing that a lane did not have.
Reductions read them as what changes nothing, and stores leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np

from tilekit.ir.builtin import Builtin
from tilekit.ir.context import Concrete
from tilekit.ir.core import Const, map_operand
from tilekit.ir.types import ScalarType, TileType, Type, int32, to_numpy_scalar


class Role(Enum):
    """Of an op, for tiles with one element a lane."""

    GATHERS = "makes one"
    MAPS = "makes one of others, element by element"
    REDUCES = "combines the elements, and passes over a neutral one"
    COUNTS = "combines as many elements as it is told"
    STORES = "moves the elements to an array"
    OWN = "is what a lane does by itself"
    LOOKS = "looks at them as another tile"
    OTHER = "does anything else with them"


def role_of(builtin: Builtin) -> Role:
    if builtin.per_lane:
        return Role.GATHERS
    if builtin.has("neutral"):
        return Role.REDUCES
    if builtin.counted:
        return Role.COUNTS
    if builtin.by_element and (builtin.writes or builtin.atomics):
        return Role.STORES
    if builtin.by_element and not builtin.reads:
        return Role.MAPS
    if builtin.view:
        return Role.LOOKS
    return Role.OTHER if builtin.cooperative else Role.OWN


def neutral_of(builtin: Builtin, type: TileType, attrs: Mapping[str, Any]) -> Any:
    """The number that a reduction passes over, in the tile's dtype."""
    found = builtin.apply("neutral", {name: type for name in builtin.operand_names}, attrs)
    return to_numpy_scalar(found, type.dtype)


def has_missing(operand: Any) -> bool:
    """Whether it has elements of missing lanes."""
    if isinstance(operand, tuple):
        return any(map(has_missing, operand))
    return isinstance(operand, Concrete) and operand.missing


def on_present(
    builtin: Builtin, operands: Mapping[str, Any], attrs: Mapping[str, Any], types: tuple[Type, ...], present: int
) -> tuple[Mapping[str, Any], bool]:
    """The operands of a call in a block with so many lanes, and whether its tiles have elements of missing ones."""
    role = role_of(builtin)
    if role is Role.GATHERS:
        (type,) = types
        assert isinstance(type, TileType)
        return {name: map_operand(o, lambda item: _filled(item, type)) for name, o in operands.items()}, True
    if not any(map(has_missing, operands.values())):
        return operands, False
    if role is Role.REDUCES:
        return {name: _neutral(builtin, operand, attrs, present) for name, operand in operands.items()}, False
    if role is Role.COUNTS:
        return {**operands, builtin.counted: Const(ScalarType(int32), present)}, False
    if role is Role.STORES:
        (start,) = operands["offset"]
        end = max(int(getattr(start, "value", getattr(start, "data", 0))) + present, 0)
        arrays = {*builtin.writes, *builtin.atomics}
        clipped = {name: Concrete(operands[name].type, operands[name].data[:end]) for name in arrays}
        return {**operands, **clipped}, True
    return operands, role in (Role.MAPS, Role.OWN)


def _filled(item: Any, type: TileType) -> Any:
    """The numbers of the lanes, with lane 0's for those that are missing."""
    if not isinstance(item, Concrete) or not np.ndim(item.data):
        return item
    data = np.full(type.shape, item.data[0])
    data[: len(item.data)] = item.data
    return Concrete(item.type, data)


def _neutral(builtin: Builtin, operand: Any, attrs: Mapping[str, Any], present: int) -> Any:
    if not has_missing(operand):
        return operand
    data = operand.data.copy()
    data[present:] = neutral_of(builtin, operand.type, attrs)
    return Concrete(operand.type, data)
