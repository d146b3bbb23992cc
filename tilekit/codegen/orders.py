"""How a matrix lies in memory: whose elements are neighbours, and how far its rows or columns are apart."""

from __future__ import annotations

from dataclasses import dataclass

from tilekit.ir.views import ViewMap

PACK_BYTES = 16
"""The most that a thread moves at once."""


@dataclass(frozen=True)
class Order:
    """A matrix of which one axis has neighbouring elements, and the other a fixed step that passes all of them."""

    unit: int
    """The axis along which elements are neighbours: 1 in row-major order, 0 in column-major order."""
    leading: int
    """Elements from one row (column) to the next, at least as many as it has."""

    @property
    def transposed(self) -> Order:
        """The order of the transposed matrix; nothing moves."""
        return Order(1 - self.unit, self.leading)


def order_of(map: ViewMap) -> Order | None:
    """The order of a view with two axes, or None where it has none: :func:`why_unordered` says why.

    The stride of an axis of one element does not matter; where both orders would do, it is the tile's own, row-major.

    Example:
        >>> order_of(ViewMap((4, 8), (8, 1)))
        Order(unit=1, leading=8)
        >>> order_of(ViewMap((8, 4), (1, 8)))
        Order(unit=0, leading=8)
        >>> order_of(ViewMap((4, 8), (0, 1))) is None
        True
    """
    for unit in (1, 0):
        other = 1 - unit
        if map.strides[unit] != 1 and map.shape[unit] > 1:
            continue
        if map.shape[other] == 1:
            return Order(unit, map.shape[unit])
        if map.strides[other] >= map.shape[unit]:
            return Order(unit, map.strides[other])
    return None


def why_unordered(map: ViewMap) -> str:
    """What keeps a view from having an order.

    Example:
        >>> why_unordered(ViewMap((4, 8), (16, 2)))
        'its strides (16, 2) have no 1 among them'
    """
    steps = [stride for stride, extent in zip(map.strides, map.shape, strict=True) if extent > 1]
    strides = f"its strides {map.strides}"
    if 0 in steps:
        return f"{strides} repeat elements (a broadcast)"
    if min(steps, default=1) < 0:
        return f"{strides} run backwards"
    if 1 not in steps:
        return f"{strides} have no 1 among them"
    return f"{strides} let its rows overlap"


def is_packed(order: Order, itemsize: int, offset: int, extent: int) -> bool:
    """Whether rows (columns) are whole multiples of 16 bytes from each other, from their start, and in length.

    Args:
        order: Of the matrix.
        itemsize: Bytes of an element.
        offset: Elements from a multiple of 16 bytes to the first element.
        extent: Elements of a row (column).

    Example:
        >>> is_packed(Order(1, 40), 2, 8, 32), is_packed(Order(1, 33), 2, 0, 32)
        (True, False)
    """
    return not any(number * itemsize % PACK_BYTES for number in (order.leading, offset, extent))
