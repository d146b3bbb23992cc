"""Which elements of a tile have been written, element by element, while calls run at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilekit.errors import Location, UninitializedError
from tilekit.ir.builtin import Builtin
from tilekit.ir.context import Concrete
from tilekit.ir.core import map_operand
from tilekit.ir.handles import OPERATORS, unwritten
from tilekit.ir.interpret import Machine, data_of
from tilekit.ir.types import TileType, Type, bool_
from tilekit.ir.views import ViewMap


@dataclass(frozen=True, eq=False, slots=True)
class Partial(Concrete):
    """A tile some elements of which were never written."""

    written: Any
    """True where an element was."""
    made_at: Location | None


def find_partial(operands: Mapping[str, Any]) -> dict[str, Partial]:
    """The operands that are, or hold, a tile that is not wholly written."""
    found: dict[str, Partial] = {}
    for name, operand in operands.items():
        if isinstance(operand, Partial):
            found[name] = operand
        elif isinstance(operand, tuple):
            found.update((name, item) for item in operand if isinstance(item, Partial))
    return found


def check_read(builtin: Builtin, operands: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
    """Refuse an op that reads elements never written.

    Raises:
        UninitializedError: it does.
    """
    ignored = builtin.ignored(operands, attrs)
    for name, operand in find_partial(operands).items():
        missing = ~operand.written
        if is_part(attrs):
            missing &= _part(operand.written.shape, operands, attrs)
        if name not in ignored and missing.any():
            index = tuple(map(int, np.argwhere(missing)[0]))
            raise UninitializedError(unwritten(operand.type, operand.made_at, index))


def is_part(attrs: Mapping[str, Any]) -> bool:
    """Whether an op looks only at the elements of its tile that a map names."""
    return isinstance(attrs.get("map"), ViewMap)


def _part(shape: tuple[int, ...], operands: Mapping[str, Any], attrs: Mapping[str, Any]) -> Any:
    """True for the elements that the map names."""
    given = {"base": np.zeros(shape, np.bool_), "value": np.True_, "offset": map_operand(operands["offset"], data_of)}
    return OPERATORS["view=number"].apply("reference", given, {"map": attrs["map"]})  # type: ignore[attr-defined]


def fresh(type: Type, data: Any, made_at: Location | None) -> Concrete:
    """What an op makes whose result holds nothing yet."""
    assert isinstance(type, TileType)
    return Partial(type, data, np.zeros(type.shape, np.bool_), made_at)


def moved(
    builtin: Builtin, operands: Mapping[str, Any], attrs: Mapping[str, Any], result: Concrete, machine: Machine
) -> Concrete:
    """The result of an op that moves elements, or changes written ones in place: they are as written as before."""
    partial = find_partial(operands)
    first = next(iter(partial.values()))
    if not builtin.moves:
        return Partial(result.type, result.data, first.written, first.made_at, missing=result.missing)
    masks = {
        name: _mask(operand) if name in builtin.moves else map_operand(operand, data_of)
        for name, operand in operands.items()
    }
    assert isinstance(result.type, TileType)
    types = (TileType(bool_, result.type.shape),)
    written = np.asarray(builtin.apply("reference", masks, attrs, machine=machine, blocks=(), types=types))
    if written.all():
        return result
    return Partial(result.type, result.data, written, first.made_at, missing=result.missing)


def _mask(operand: Any) -> Any:
    if isinstance(operand, Partial):
        return operand.written
    return np.ones(operand.type.shape, np.bool_) if isinstance(operand.type, TileType) else np.True_
