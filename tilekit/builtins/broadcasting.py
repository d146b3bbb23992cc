"""Tiles of as many axes meet element by element: an axis of extent 1 is repeated, as in NumPy; no axis is added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

from tilekit.ir.handles import Tile
from tilekit.ir.views import ViewMap, dense_strides

Shape = tuple[int, ...]


def common_shape(shapes: Iterable[Shape]) -> Shape | None:
    """The shape to which axes of extent 1 are repeated; None where axes are missing or extents differ.

    Example:
        >>> common_shape([(4, 1), (1, 8)]), common_shape([(4,), (1, 4)]), common_shape([(4, 2), (4, 8)])
        ((4, 8), None, None)
    """
    found = list(shapes)
    if any(len(shape) != len(found[0]) for shape in found):
        return None
    common = tuple(map(max, zip(*found, strict=True))) if found[0] else ()
    fits = all(extent in (1, wanted) for shape in found for extent, wanted in zip(shape, common, strict=True))
    return common if fits else None


def repeat_to(t: Tile, shape: Shape) -> Tile:
    """The view of a tile whose axes of extent 1 are repeated to a shape of as many axes; the tile where it has that."""
    if t.shape == shape:
        return t
    steps = zip(t.shape, dense_strides(t.shape), strict=True)
    return Tile.view(t, ViewMap(shape, tuple(0 if extent == 1 else step for extent, step in steps)))


def how_to_repeat(tiles: Mapping[str, Tile]) -> str:
    """What to write where tiles have no common shape; ``tiles`` holds them by the names that the message has."""
    for (first, a), (second, b) in combinations(tiles.items(), 2):
        if common_shape([a.shape, b.shape]) is not None or a.ndim == b.ndim:
            continue
        name, small, large = (first, a, b) if a.ndim < b.ndim else (second, b, a)
        if small.size == 1:
            return f"{name}[{', '.join('0' * small.ndim)}] reads its number"
        if ways := [f"{text} repeats it along {axes}" for axes, text in repeated(name, small.shape, large.shape)]:
            return ", ".join(ways)
    return "only an axis of extent 1 is repeated, and t[None, :] adds one"


def repeated(name: str, shape: Shape, wanted: Shape) -> list[tuple[str, str]]:
    """The axes that a tile of a shape may lack of another one, with the index that adds them to the tile.

    Example:
        >>> repeated("t", (4,), (4, 8)), repeated("t", (4,), (4, 4))
        ([('axis 1', 't[:, None]')], [('axis 0', 't[None, :]'), ('axis 1', 't[:, None]')])
    """
    found = []
    for axes in combinations(range(len(wanted)), len(wanted) - len(shape)):
        rest = iter(shape)
        full = tuple(1 if axis in axes else next(rest) for axis in range(len(wanted)))
        if common_shape([full, wanted]) == wanted:
            index = ", ".join("None" if axis in axes else ":" for axis in range(len(wanted)))
            spelled = f"axis {axes[0]}" if len(axes) == 1 else f"axes {' and '.join(map(str, axes))}"
            found.append((spelled, f"{name}[{index}]"))
    return found
