"""What to write where two tiles of different shapes meet: nothing is repeated unasked."""

from __future__ import annotations

from collections.abc import Mapping

from tilekit.ir.handles import Tile


def how_to_repeat(tiles: Mapping[str, Tile]) -> str:
    """What gives two tiles one shape; ``tiles`` holds them by the names that the message has for them."""
    if len(tiles) == 2:
        (name, small), (_, large) = sorted(tiles.items(), key=lambda entry: (entry[1].ndim, entry[1].size))
        if small.size == 1:
            return f"read the number of {name}, as in t[{', '.join('0' * small.ndim)}]"
        ways = [f"{text} repeats it along axis {axis}" for axis, text in repeated(name, small.shape, large.shape)]
        if ways:
            return ", ".join(ways)
    return "tk.tile_broadcast repeats a tile"


def repeated(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> list[tuple[int, str]]:
    """Each axis of ``wanted`` that a tile of ``shape`` may lack or have once, and what repeats the tile along it."""
    found = []
    for axis in range(len(wanted)):
        once = (*wanted[:axis], 1, *wanted[axis + 1 :])
        if once == shape or (axis == 0 and once[1:] == shape):
            found.append((axis, f"tk.tile_broadcast({name}, {wanted})"))
        elif once[:axis] + once[axis + 1 :] == shape:
            found.append((axis, f"tk.tile_broadcast(tk.tile_reshape({name}, {once}), {wanted})"))
    return found
