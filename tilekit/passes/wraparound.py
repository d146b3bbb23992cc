"""Whether an index that a counter moves may wrap around, and come back to elements that it has left.

A counter moves an index of ``bits`` bits by ``step``: at count ``c``, what is touched lies from ``base + step * c`` to
``reach - 1`` further on, modulo ``2**bits``, where ``0 < reach <= |step|``. So counts ``p`` and ``q`` touch one element
only where ``step * (p - q) + r`` is a multiple of ``2**bits`` for an ``r`` with ``|r| < reach``. That sum is not zero
where ``p != q``; and of ``n`` counts in a row, it is at most ``|step| * (n - 1) + reach - 1`` either way. So they touch
different elements where ``|step| * (n - 1) + reach <= 2**bits``.

How many counts there are is often known at each launch only: then the program has a limit. Steps of 1 and 2 need none,
as a grid has no more than ``2**31`` points along an axis.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tilekit.errors import Location
from tilekit.ir.program import Limit
from tilekit.ir.sizes import MAX_EXTENT, Size


@dataclass(frozen=True)
class Move:
    """How a counter moves an index: to other elements with every step, unless the index wraps around.

    Example:
        >>> Move("i", 256, 256, 32).most, Move("i", -256, 1, 32).most, Move("i", 2**32, 1, 32).most
        (16777216, 16777216, 1)
    """

    counter: Any
    """What it is called in messages."""
    step: int
    """How far one count moves the index."""
    reach: int
    """How many elements are touched from there: at least one, at most as many as a step has."""
    bits: int
    """Of the integers that the index is computed in."""

    @property
    def most(self) -> int:
        """How many counts in a row surely touch different elements."""
        return max(((1 << self.bits) - self.reach) // abs(self.step) + 1, 1)

    def may_hold(self, size: Size) -> bool:
        """Whether the counter may take no more than those, if it takes ``size``: several where a launch decides it."""
        return size <= self.most if isinstance(size, int) else self.most > 1

    def limits(self, size: Size, array: str, location: Location | None) -> tuple[Limit, ...]:
        """What a launch must keep to, so that the counter takes no more counts: one limit or none.

        Args:
            size: How many it takes.
            array: The parameter that is added to.
            location: Of what adds to it.
        """
        if isinstance(size, int) or self.most >= MAX_EXTENT:
            return ()
        wide = "compute it in int64, or " if self.bits < 64 else ""
        return (Limit(size, self.most, array, f"{self.wraps}; {wide}split the launch", location),)

    @property
    def wraps(self) -> str:
        """Why some counts may touch the same elements."""
        return f"the index, of {self.bits} bits, wraps around, as {self.counter} moves it by {abs(self.step)}"


def tightest(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    """One limit for each size: the others follow."""
    found: dict[Size, Limit] = {}
    for limit in limits:
        found[limit.size] = min(found.get(limit.size, limit), limit, key=lambda each: each.most)
    return tuple(found.values())
