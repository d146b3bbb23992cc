"""What the launches on a tape have left in arrays, and what has changed there, unseen, before the next one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilekit.errors import TilekitError
from tilekit.runtime.array_view import ArrayView, byte_range
from tilekit.runtime.arrays import view_of

if TYPE_CHECKING:
    from tilekit.runtime.guards import Guard
    from tilekit.runtime.records import LaunchRecord


@dataclass(frozen=True, eq=False)
class Left:
    """What a launch left in one of its arrays."""

    record: LaunchRecord
    name: str
    """Of the parameter."""
    low: int
    """The first byte of the array."""

    @property
    def guard(self) -> Guard:
        return self.record.guards[self.name]


class LastWrites:
    """What each array on a tape holds since the last launch that wrote it."""

    def __init__(self) -> None:
        self._latest: dict[Any, Left] = {}
        """By the place of an array."""
        self._sorted: list[Left] = []
        """By the first byte, so that long tapes find quickly what shares memory with an array."""
        self._longest = 0
        """The bytes of the longest of them."""
        self._torn: dict[Any, list[tuple[Left, str]]] = {}
        """By the place of an array of the launch that is about to run, what was written there, unseen, and by what."""

    def look(self, inputs: Any, outputs: Any) -> None:
        """Note which arrays of a launch that is about to run are not what earlier launches left in them."""
        self._torn = {}
        if not self._latest or not isinstance(inputs, Sequence) or not isinstance(outputs, Sequence):
            return
        checked: dict[Left, str | None] = {}
        for value in (*inputs, *outputs):
            if not hasattr(value, "shape") or (view := seen_as_array(value)) is None:
                continue
            for left in self._within(view):
                if left not in checked:
                    checked[left] = left.guard.written_unseen()
                if (what := checked[left]) is not None:
                    self._torn.setdefault(view.place, []).append((left, what))

    def add(self, record: LaunchRecord) -> None:
        """Tell a launch that has run what it found in its arrays, and note what it has left there."""
        for name, view in record.floats().items():
            record.before[name] = self._within(view)
            if view.place in self._torn:
                record.torn[name] = self._torn[view.place]
        self._torn = {}
        for name in record.written:
            self._drop(record.views[name].place)
            low, high = byte_range(record.views[name])
            left = self._latest[record.views[name].place] = Left(record, name, low)
            insort(self._sorted, left, key=lambda each: each.low)
            self._longest = max(self._longest, high - low)

    def forget(self, views: Iterable[ArrayView]) -> None:
        """Leave arrays, and those that share memory with them, to something else that is on the tape."""
        for left in [left for view in views for left in self._within(view)]:
            self._drop(left.record.views[left.name].place)

    def clear(self) -> None:
        self._latest.clear()
        self._sorted.clear()
        self._torn = {}
        self._longest = 0

    def _drop(self, place: Any) -> None:
        if (left := self._latest.pop(place, None)) is not None:
            self._sorted.remove(left)

    def _within(self, view: ArrayView) -> list[Left]:
        """What launches left in arrays that share memory with one."""
        low, high = byte_range(view)
        start = bisect_left(self._sorted, low - self._longest, key=lambda each: each.low)
        stop = bisect_left(self._sorted, high, key=lambda each: each.low)
        return [left for left in self._sorted[start:stop] if left.guard.shares(view, low, high)]


def seen_as_array(value: Any) -> ArrayView | None:
    """The view of what may be an array; None where it is none."""
    try:
        return view_of(value)
    except TilekitError:
        return None
