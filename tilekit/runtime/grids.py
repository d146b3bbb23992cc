"""What a launch runs over, as its arguments say it: the points of ``dim`` and the lanes of a block."""

from __future__ import annotations

import math
import operator
from typing import Any

from tilekit.errors import KernelTypeError, KernelValueError, shown
from tilekit.ir.context import LaunchForm
from tilekit.ir.sizes import MAX_BLOCK_DIM, MAX_EXTENT

MAX_NDIM = 4
MAX_POINTS = 2**63 - 1
DEFAULT_BLOCK_DIM = 256


def dims_of(dim: Any) -> tuple[int, ...]:
    """A launch's ``dim`` as a tuple.

    Raises:
        KernelTypeError: not an int or a sequence of ints.
        KernelValueError: negative, not 1 to 4 dimensions, or with coordinates that are no int32.
    """
    if type(dim) is int and 0 <= dim <= MAX_EXTENT:  # the common case, for speed
        return (dim,)
    try:
        found = tuple(map(operator.index, dim if isinstance(dim, tuple | list) else (dim,)))
    except TypeError:
        raise KernelTypeError(f"dim must be an int or a tuple of ints, got {shown(dim)}") from None
    if not 1 <= len(found) <= MAX_NDIM:
        raise KernelValueError(f"dim must have 1 to {MAX_NDIM} entries, got {shown(dim)}")
    if min(found) < 0:
        raise KernelValueError(f"dim must not be negative, got {shown(dim)}")
    if max(found) > MAX_EXTENT:
        raise KernelValueError(f"dim={shown(dim)} has an extent above 2**31, so coordinates would not fit int32")
    if math.prod(found) > MAX_POINTS:
        raise KernelValueError(f"dim={shown(dim)} has more than 2**63 - 1 points")
    return found


def form_of(tiled: bool, grid: tuple[int, ...], block_dim: int) -> LaunchForm:
    """What a kernel's code may depend on about a launch.

    Example:
        >>> form_of(False, (3, 64), 32)
        LaunchForm(tiled=False, ndim=2, block_dim=32, ragged=False, whole=1)
    """
    if tiled:
        return LaunchForm(True, len(grid), block_dim)
    whole, inside = len(grid), 1
    while whole and inside % block_dim:
        whole -= 1
        inside *= grid[whole]
    return LaunchForm(False, len(grid), block_dim, math.prod(grid) % block_dim != 0, whole)


def block_dim_of(block_dim: Any) -> int:
    """Lanes of a block: 256 for None and, as in Warp, for what is not positive.

    Raises:
        KernelTypeError: not an int.
        KernelValueError: more than 1024.
    """
    if type(block_dim) is int and 0 < block_dim <= MAX_BLOCK_DIM:  # the common case, for speed
        return block_dim
    try:
        found = DEFAULT_BLOCK_DIM if block_dim is None else operator.index(block_dim)
    except TypeError:
        found = None
    if found is None or isinstance(block_dim, bool):
        raise KernelTypeError(f"block_dim must be an int, got {shown(block_dim)}")
    if found > MAX_BLOCK_DIM:
        raise KernelValueError(f"block_dim must be at most {MAX_BLOCK_DIM}, got {shown(found)}")
    return found if found > 0 else DEFAULT_BLOCK_DIM
