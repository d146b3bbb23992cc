"""What binding a name means: each name has a value of its own, so that updating one never changes another.

A tile that an expression has just made is bound as it is; one that a name, a list or a tuple holds already is copied by
handle: no op is recorded, and memory is only needed where both are used after one has changed. A view that an
expression has just made stays a view. The parameters of a helper are the caller's own tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.ir.context import fail
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile
from tilekit.ir.operands import describe

Target = Any
"""The form of an assignment's target: None for a name, "item" for an element, "*" for a starred one, or a tuple."""


def own(value: Any, target: Target = None) -> Any:
    """What is assigned to a target of this form."""
    if target == "item":
        return value_of(value)
    if isinstance(target, tuple):
        return unpacked(value, target)
    if isinstance(value, Tile):
        return value.bound()
    if isinstance(value, tuple):
        return rebuilt(value, own)
    return OPERATORS["own items"](value) if isinstance(value, list | dict) else value


def assigned(value: Any, targets: tuple[Target, ...]) -> Any:
    """What ``a = b = value`` assigns to each target, from left to right."""
    return tuple([own(value, target) for target in targets])


def unpacked(value: Any, targets: tuple[Target, ...]) -> Any:
    """What ``a, b, *c = value`` assigns; where the numbers differ, Python's own assignment says so."""
    if isinstance(value, Tile | Array):
        elements = ", ".join(f"t[{i}]" for i in range(min(len(targets), 3)))
        raise fail(KernelTypeError(f"{describe(value)} cannot be unpacked; read its elements, as in {elements}"))
    starred = targets.index("*") if "*" in targets else None
    if starred is None:
        value = OPERATORS["unpack"](value, len(targets))
    if isinstance(value, Scalar):
        raise fail(KernelTypeError("a number cannot be unpacked into several names"))
    if not isinstance(value, Iterable):
        return value
    items = list(islice(value, len(targets) + 1)) if starred is None else list(value)
    if starred is not None and len(items) >= len(targets) - 1:
        spread = len(items) - len(targets) + 1
        targets = (*targets[:starred], *[None] * spread, *targets[starred + 1 :])
    return tuple(map(own, items, targets)) if len(items) == len(targets) else tuple(items)


def each(items: Any, target: Target = None) -> Iterator[Any]:
    """What the target of a loop is bound to, one after the other."""
    return (own(item, target) for item in iter(items))


def name_arguments(*arguments: Any) -> None:
    """The parameters of a helper begin as names of what they are given."""
    for value in arguments:
        if isinstance(value, Tile):
            value.named = True
        elif isinstance(value, tuple | list):
            name_arguments(*value)
        elif isinstance(value, dict):
            name_arguments(*value.values())
        if hasattr(value, "owned"):
            value.owned = True


def value_of(value: Any) -> Any:
    """Tiles with values of their own, which no name shares: what control flow leaves in a name, or chooses."""
    if isinstance(value, Tile):
        return value.value()
    return rebuilt(value, value_of) if isinstance(value, tuple) else value


def returned(value: Any) -> Any:
    """What a helper returns: the value of what has a name in it, and views that it has just made."""
    if isinstance(value, Tile):
        return value.value(unnamed=True)
    return rebuilt(value, returned) if isinstance(value, tuple) else value


def rebuilt(value: tuple[Any, ...], convert: Callable[[Any], Any]) -> tuple[Any, ...]:
    """A tuple, or named tuple, of converted items; itself where they stay the same."""
    items = tuple(map(convert, value))
    if all(map(lambda a, b: a is b, items, value)):
        return value
    make = getattr(value, "_make", None)
    return make(items) if make is not None else items


def holds_tile(value: Any) -> bool:
    """Whether a value is a tile, or a tuple, list or dict that holds one."""
    if isinstance(value, dict):
        return any(map(holds_tile, value.values()))
    return any(map(holds_tile, value)) if isinstance(value, tuple | list) else isinstance(value, Tile)
