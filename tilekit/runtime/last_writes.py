"""What the launches on a tape have left in arrays, and what has changed there, unseen, before the next one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tilekit.errors import TilekitError
from tilekit.runtime.array_view import ArrayView, byte_range
from tilekit.runtime.arrays import view_of
from tilekit.runtime.guards import version_of

if TYPE_CHECKING:
    from tilekit.runtime.guards import Guard
    from tilekit.runtime.records import LaunchRecord


class Left:
    """What a launch left in one of its arrays, up to what was seen to be written there since."""

    def __init__(self, record: LaunchRecord, name: str, low: int, writes: int) -> None:
        """``low``: the first byte of the array; ``writes``: those of its tensor that were seen up to now."""
        self.record = record
        self.name = name
        """Of the parameter."""
        self.low = low
        found, version = self.guard.prints, version_of(self.guard.view.owner)
        self.prints = None if found is None else found.copy()
        self._unseen = None if version is None else version - writes
        self.torn = ""
        """What has written it unseen, once that is known: a write that is seen does not undo it."""

    @property
    def guard(self) -> Guard:
        return self.record.guards[self.name]

    def look(self, writes: int) -> str:
        """What has written the array unseen, if anything has; ``writes`` as before, of now."""
        view = self.guard.view
        if not self.torn and self.prints is not None and self.prints.changed(view):
            self.torn = "something that the tape has not seen"
        elif not self.torn and self._unseen is not None and version_of(view.owner) != self._unseen + writes:
            self.torn = "an operation of PyTorch"
        return self.torn


class LastWrites:
    """What each array on a tape holds since the last launch that wrote it."""

    def __init__(self) -> None:
        self._latest: dict[Any, Left] = {}
        """By the place of an array."""
        self._sorted: list[Left] = []
        """By the first byte, so that long tapes find quickly what shares memory with an array."""
        self._longest = 0
        """The bytes of the longest of them."""
        self._writes = Counter[int | None]()
        """By the memory of PyTorch's tensors, how often the tape saw them written: PyTorch counts all writes."""
        self._torn: dict[Any, list[tuple[Left, str]]] = {}
        """By the place of an array of the launch that is about to run, what was written there, unseen, and by what."""

    def look(self, inputs: Any, outputs: Any) -> None:
        """Note which arrays of a launch that is about to run are not what earlier launches left in them."""
        self._torn = {}
        if not self._latest or not isinstance(inputs, Sequence) or not isinstance(outputs, Sequence):
            return
        checked: dict[Left, str] = {}
        for value in (*inputs, *outputs):
            if not hasattr(value, "shape") or (view := seen_as_array(value)) is None:
                continue
            for left in self._within(view):
                if left not in checked:
                    checked[left] = left.look(self._writes[_storage(left.guard.view)])
                if what := checked[left]:
                    self._torn.setdefault(view.place, []).append((left, what))

    def add(self, record: LaunchRecord) -> None:
        """Tell a launch that has run what it found in its arrays, and note what it has left there."""
        for name, view in record.floats().items():
            record.before[name] = self._within(view)
            if view.place in self._torn:
                record.torn[name] = self._torn[view.place]
        self._torn = {}
        for name in record.written:
            view = record.views[name]
            self._drop(view.place)
            low, high = byte_range(view)
            left = self._latest[view.place] = Left(record, name, low, self._writes[_storage(view)])
            insort(self._sorted, left, key=lambda each: each.low)
            self._longest = max(self._longest, high - low)

    def see(self, views: Iterable[ArrayView], recorded: bool = False) -> None:
        """Take note that arrays were just written: by a launch, which :meth:`add` will tell of if it is to be recorded,
        or by what the tape sees otherwise."""
        for view in views:
            if (storage := _storage(view)) is not None:
                self._writes[storage] += 1
            low, high = byte_range(view)
            for left in self._within(view):
                replaced = recorded and left.guard.view.place == view.place
                if left.prints is not None and not replaced:
                    left.prints.renew(left.guard.view, low, high)

    def tear(self, view: ArrayView, what: str) -> None:
        """Note that something that goes backward nowhere has written an array."""
        for left in self._within(view):
            left.torn = left.torn or what

    def forget(self, views: Iterable[ArrayView]) -> None:
        """Leave arrays, and those that share memory with them, to something else that is on the tape."""
        for left in [left for view in views for left in self._within(view)]:
            self._drop(left.record.views[left.name].place)

    def clear(self) -> None:
        self._latest.clear()
        self._sorted.clear()
        self._torn = {}
        self._longest = 0
        self._writes.clear()

    def _drop(self, place: Any) -> None:
        if (left := self._latest.pop(place, None)) is not None:
            self._sorted.remove(left)

    def _within(self, view: ArrayView) -> list[Left]:
        """What launches left in arrays that share memory with one."""
        low, high = byte_range(view)
        start = bisect_left(self._sorted, low - self._longest, key=lambda each: each.low)
        stop = bisect_left(self._sorted, high, key=lambda each: each.low)
        return [left for left in self._sorted[start:stop] if left.guard.shares(view, low, high)]


def _storage(view: ArrayView) -> int | None:
    """The memory of which PyTorch counts the writes, for an array that is in such; else None."""
    tensor: Any = view.owner
    return None if version_of(tensor) is None else int(tensor.untyped_storage().data_ptr())


def seen_as_array(value: Any) -> ArrayView | None:
    """The view of what may be an array; None where it is none."""
    try:
        return view_of(value)
    except TilekitError:
        return None
