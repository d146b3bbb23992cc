"""Whether what two paths leave in a variable is one thing to the kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilekit.ir.handles import Array, Scalar, Tile


class BoundTile:
    """A tile handle together with the value it held at the end of a branch or an iteration."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        self.datum = tile.read()
        self.type = tile.type


def bound(value: Any) -> Any:
    """A value as a branch leaves it: tiles with what they hold now."""
    if isinstance(value, tuple):
        return tuple(map(bound, value))
    return BoundTile(value) if isinstance(value, Tile) else value


def same(a: Any, b: Any) -> bool:
    """Whether two compile-time values are one to the kernel."""
    if a is b:
        return True
    if isinstance(a, BoundTile) and isinstance(b, BoundTile):
        return a.tile is b.tile
    if isinstance(a, Array) and isinstance(b, Array):
        return a.datum is b.datum
    if isinstance(a, Scalar | Tile | Array | BoundTile) or isinstance(b, Scalar | Tile | Array | BoundTile):
        return isinstance(a, Scalar) and isinstance(b, Scalar) and a.datum is b.datum
    if isinstance(a, tuple) and isinstance(b, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    try:
        return type(a) is type(b) and bool(a == b) and _sign(a) == _sign(b)
    except Exception:
        return False


def _sign(value: Any) -> float:
    """Tells zeros apart that compare equal."""
    return math.copysign(1.0, value) if isinstance(value, float | np.floating) else 0.0
