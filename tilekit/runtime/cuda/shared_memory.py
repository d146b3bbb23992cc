"""Whether a kernel's tiles fit the shared memory of a block, and what to say where they do not."""

from __future__ import annotations

import re

from tilekit.codegen.storage import Buffer, Storage
from tilekit.errors import KernelValueError, Location
from tilekit.ir.core import Function, Value, walk
from tilekit.ir.types import TileType

MOST_BYTES = {75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}
"""KiB of shared memory that a block can have, by architecture (CUDA C++ Programming Guide, compute capabilities)."""
_SHOWN = 8


def shared_limit(arch: str) -> int | None:
    """Bytes of shared memory that a block can have on an architecture such as ``"90a"``; None where not known."""
    number = re.match(r"\d+", arch)
    found = MOST_BYTES.get(int(number[0])) if number else None
    return None if found is None else found << 10


def check_shared(function: Function, storage: Storage, needed: int, arch: str) -> None:
    """Refuse a kernel whose tiles do not fit.

    Args:
        function: After all passes.
        storage: Where its tiles lie.
        needed: Bytes of a block.
        arch: The architecture.

    Raises:
        KernelValueError: more than the architecture has; the message lists the tiles and suggests a shape.
    """
    limit = shared_limit(arch)
    if limit is None or needed <= limit:
        return
    tiles = sorted(_tiles(function, storage).items(), key=lambda item: -item[0].size)
    lines = [f"    {buffer.size} bytes: {_shape(buffer.type)} of {buffer.type.dtype}, {at}" for buffer, at in tiles]
    if len(lines) > _SHOWN:
        lines[_SHOWN:] = [f"    and {len(lines) - _SHOWN} smaller ones"]
    text = (
        f"kernel {function.name!r} needs {needed} bytes of shared memory for its tiles, but a block on sm_{arch} can "
    )
    text += f"have {limit}. Tiles that are never alive together share memory. The tiles, the largest first:"
    advice = _advice(tiles[0][0].type, needed - limit) if tiles else ""
    raise KernelValueError("\n".join([text, *lines, *([advice] if advice else [])]), tiles[0][1] if tiles else None)


def _tiles(function: Function, storage: Storage) -> dict[Buffer, Location | None]:
    """The buffers in shared memory, each with the line of the first op whose result lies there."""
    made: dict[Value, Location | None] = {}
    for op in walk(function.body):
        for value in (*op.results, *(param for block in op.blocks for param in block.params)):
            made[value] = op.location
    found: dict[Buffer, Location | None] = {}
    for value, buffer in storage.buffers.items():
        if buffer.offset >= 0 and buffer.layout is None:
            found.setdefault(buffer, made.get(value))
    return found


def _shape(type: TileType) -> str:
    return "x".join(map(str, type.shape)) or "1"


def _advice(type: TileType, excess: int) -> str:
    """A smaller shape of the largest tile, halved where it is longest until the rest fits."""
    shape, size = list(type.shape), type.size * type.dtype.itemsize
    saved = 0
    while saved < excess and max(shape) > 1:
        axis = shape.index(max(shape))
        shape[axis] = -(-shape[axis] // 2)
        left = type.dtype.itemsize
        for extent in shape:
            left *= extent
        saved = size - left
    if saved < excess:
        return "Use smaller tiles, or fewer at once."
    smaller = "x".join(map(str, shape))
    return f"It fits with {smaller} instead of {_shape(type)}, if nothing else changes."
