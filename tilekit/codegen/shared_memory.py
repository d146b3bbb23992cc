"""Refuse kernels whose tiles do not fit the memory that the threads of a block share, and tell what would fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilekit.codegen.placed import Placed, placed_tiles
from tilekit.codegen.storage import Storage, round_up
from tilekit.errors import KernelValueError
from tilekit.ir.core import Function

_SHOWN = 12
"""Tiles that a message lists."""


def check_shared_memory(fn: Function, storage: Storage, used: int, limit: int | None, device: str) -> None:
    """Refuse a function whose blocks need more shared memory than there is.

    Args:
        fn: After all passes.
        storage: Where its tiles lie.
        used: All bytes that a block needs: tiles, copies of tiles for a moment, what the code declares itself.
        limit: What there is, where that is known.
        device: What has it, for the message.

    Raises:
        KernelValueError: it does not fit; the message lists the tiles by size and line and suggests a shape that fits.
    """
    if limit is None or used <= limit:
        return
    places = [place for place in placed_tiles(fn, storage) if place.layout is None]
    head = (
        f"kernel {fn.name!r} needs {used} bytes of shared memory a block, but {device} has {limit} "
        f"({limit >> 10} KiB) at most. Its tiles there:"
    )
    rest = used - storage.size
    lines = [_row(place) for place in places[:_SHOWN]]
    if len(places) > _SHOWN:
        left = places[_SHOWN:]
        lines.append(f"  {sum(place.size for place in left):>9} bytes  {len(left)} smaller tiles")
    if rest:
        lines.append(f"  {rest:>9} bytes  copies of tiles for a moment, and what reductions exchange")
    error = KernelValueError("\n".join([head, *lines, suggestion(places, limit - rest)]))
    largest = places[0].locations if places else ()
    raise error.at(largest[0] if largest else fn.location)


def _row(place: Placed) -> str:
    source = place.locations[0].source_line().strip() if place.locations else ""
    return f"  {place.size:>9} bytes  {place.type} of {place.lines}{': ' if source else ''}{source}"


def suggestion(places: Sequence[Placed], room: int) -> str:
    """What to change so that the tiles need no more than ``room`` bytes: extents, wherever they occur."""
    smaller = _one_extent(places, room) or _several_extents(places, room)
    if not smaller:
        return "  Use fewer or smaller tiles; those that are not used at the same time share their memory."
    instead = " and ".join(f"{new} in place of {old}" for old, new in smaller.items())
    changed = [place for place in places if not smaller.keys().isdisjoint(place.type.shape)]
    shapes = [f"{tuple(smaller.get(e, e) for e in place.type.shape)} on {place.lines}" for place in changed[:_SHOWN]]
    return f"  With {instead} they fit, in {_packed(places, smaller)} bytes: {'; '.join(dict.fromkeys(shapes))}."


def _extents(places: Sequence[Placed]) -> list[int]:
    return sorted({extent for place in places for extent in place.type.shape if extent > 1})


def _one_extent(places: Sequence[Placed], room: int) -> dict[int, int]:
    """The change of one extent that keeps the most of it, and of two such the one that keeps the most bytes."""
    fitting: list[tuple[float, int, int, int]] = []
    for extent in _extents(places):
        sizes = ((smaller, _packed(places, {extent: smaller})) for smaller in _smaller(extent))
        fitting += [(smaller / extent, size, extent, smaller) for smaller, size in sizes if size <= room][:1]
    return {extent: smaller for _, _, extent, smaller in [max(fitting)]} if fitting else {}


def _several_extents(places: Sequence[Placed], room: int) -> dict[int, int]:
    """The largest extents made smaller until all fits."""
    now = {extent: extent for extent in _extents(places)}
    while _packed(places, now) > room:
        extent = max(now, key=lambda extent: now[extent], default=0)
        smaller = next(_smaller(now.get(extent, 1)), None)
        if smaller is None:
            return {}
        now[extent] = smaller
    return {old: new for old, new in now.items() if old != new}


def _smaller(extent: int) -> Iterator[int]:
    """Extents to try in place of one, the largest first: halves, then powers of two."""
    while extent % 2 == 0:
        extent //= 2
        yield extent
    for power in reversed(range((extent - 1).bit_length())):
        yield 1 << power


def _packed(places: Sequence[Placed], changed: dict[int, int]) -> int:
    """Bytes of the arena with other extents: each tile moves down as far as those that lie below it allow."""
    ends: list[tuple[Placed, int]] = []
    for place in sorted(places, key=lambda place: place.buffer.offset):
        buffer = place.buffer
        below = [end for other, end in ends if other.buffer.offset + other.size <= buffer.offset]
        size = place.type.dtype.itemsize
        for extent in place.type.shape:
            size *= changed.get(extent, extent)
        ends.append((place, max(below, default=0) + round_up(size)))
    return max((end for _, end in ends), default=0)
