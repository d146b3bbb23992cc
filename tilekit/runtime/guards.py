"""Arrays whose contents backward needs as a launch left them, and how it is noticed that they were written since."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilekit.errors import KernelValueError, Location
from tilekit.ir.notices import calling_place
from tilekit.ir.views import dense_strides
from tilekit.runtime.array_view import ArrayView, array_at, byte_range, overlaps
from tilekit.runtime.arrays import library_of

if TYPE_CHECKING:
    from tilekit.runtime.records import LaunchRecord


PIECE = 16384
"""Bytes that have a checksum of their own."""


@dataclass(frozen=True)
class Write:
    """An array that was written after a launch was recorded."""

    what: str
    """By what, in words."""
    place: Location | None


class Guard:
    """One array of a recorded launch."""

    __slots__ = ("_high", "_low", "_version", "_written", "prints", "view")

    def __init__(self, view: ArrayView, verify: bool | None) -> None:
        self.view = view
        self._low, self._high = byte_range(view)
        self._written: Write | None = None
        self._version = version_of(view.owner)
        by_content = (view.device == "cpu") if verify is None else verify
        self.prints = Prints(view) if by_content else None

    def meets(self, view: ArrayView, low: int, high: int) -> bool:
        """Whether a write of an array, the bytes from ``low`` to before ``high``, is the first one of this array."""
        if self.shares(view, low, high):
            return self._written is None
        if self._version is not None and _share_version(self.view.owner, view.owner):
            self._version += 1  # PyTorch counts the writes of all parts of a tensor together
        return False

    def shares(self, view: ArrayView, low: int, high: int) -> bool:
        """Whether it shares memory with another array, which has the bytes from ``low`` to before ``high``."""
        near = low < self._high and self._low < high and self.view.device == view.device
        return near and overlaps(self.view, view)

    def note(self, write: Write) -> None:
        """Take note of the first write of the array."""
        self._written = write

    def check(self, record: LaunchRecord, name: str) -> None:
        """Refuse to go backward where the array is not what it was.

        Raises:
            KernelValueError: it was written since.
        """
        if (why := self._changed()) is not None:
            raise KernelValueError(
                f"backward through kernel {record.kernel.key!r} reads its argument {name!r} again, but {why}; write to "
                "another array, pass a copy to the launch, or go backward before",
                record.place,
            )

    def _changed(self) -> str | None:
        """What has happened to the array; None where it is as it was."""
        if self._written is not None:
            place = self._written.place
            line = "" if place is None else f", at {place.file}:{place.line}"
            return f"{self._written.what} has written that array since{line}"
        if self._version is not None and self._version != version_of(self.view.owner):
            return "an operation of PyTorch has written that tensor since"
        if self.prints is not None and self.prints.changed(self.view):
            return "its contents have changed since, by nothing that the tape has seen"
        return None


def version_of(owner: Any) -> int | None:
    """How often a tensor of PyTorch's was written; None for what does not count."""
    if library_of.get(type(owner)) != "torch":
        return None
    try:
        return int(owner._version)
    except (AttributeError, RuntimeError):  # made in inference mode
        return None


def _share_version(one: Any, other: Any) -> bool:
    if version_of(other) is None:
        return False
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


class Prints:
    """Checksums of an array's elements: of pieces of its memory where that is dense and on the CPU, else one."""

    __slots__ = ("_of",)

    def __init__(self, view: ArrayView) -> None:
        self._of = _prints(view)

    def copy(self) -> Prints:
        made = Prints.__new__(Prints)
        made._of = self._of.copy()
        return made

    def changed(self, view: ArrayView) -> bool:
        """Whether the array has other elements than it had."""
        return self._of != _prints(view)

    def renew(self, view: ArrayView, low: int, high: int) -> None:
        """Look again at what lies between two addresses."""
        if len(self._of) == 1:
            self._of = _prints(view)
            return
        first = max(low - view.pointer, 0) // PIECE
        last = min(-(-(high - view.pointer) // PIECE), len(self._of))
        self._of[first:last] = _prints(view, first, last)


def _prints(view: ArrayView, first: int = 0, last: int | None = None) -> list[int]:
    """Of the pieces from ``first`` to before ``last``."""
    data = _bits(view).view(np.uint8).reshape(-1).data
    if view.device != "cpu" or view.strides != tuple(step * view.dtype.itemsize for step in dense_strides(view.shape)):
        return [zlib.crc32(data)]
    pieces = max(-(-len(data) // PIECE), 1)
    return [zlib.crc32(data[i * PIECE : (i + 1) * PIECE]) for i in range(first, pieces if last is None else last)]


def is_zero(view: ArrayView) -> bool:
    """Whether all floats of an array are zero."""
    bits = _bits(view).view(f"u{view.dtype.itemsize}")
    return not np.any(bits << bits.dtype.type(1))  # without the sign


def _bits(view: ArrayView) -> Any:
    """An array's elements, dense and on the CPU."""
    if view.device == "cpu":
        return np.ascontiguousarray(array_at(view.pointer, view.shape, view.strides, view.dtype))
    from tilekit.runtime.cuda.devices import device
    from tilekit.runtime.cuda.host_copies import HostCopy

    low, high = byte_range(view)
    if low == high:
        return np.zeros(0, np.uint64)
    where, copy = device(int(view.device.partition(":")[2])), HostCopy(low, high)
    where.synchronize()
    with where.current():
        copy.fetch(where)
    return _bits(ArrayView(copy.data.ctypes.data + view.pointer - low, view.shape, view.strides, view.dtype)).copy()


def note_writes(
    records: Sequence[LaunchRecord], writes: Mapping[str, ArrayView], what: str, through: str = "tilekit"
) -> None:
    """Tell recorded launches which arrays were written after them, right now.

    Args:
        writes: The arrays by what they are called.
        what: What has written them.
        through: The package that tells of it.
    """
    place = None
    for name, view in writes.items():
        low, high = byte_range(view)
        for record in records:
            for guard in record.guards.values():
                if guard.meets(view, low, high):
                    place = place or calling_place(through=through)
                    guard.note(Write(f"{what} as {name!r}" if name else what, place))
