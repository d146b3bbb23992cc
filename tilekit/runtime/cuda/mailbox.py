"""Where running kernels leave failed checks and prints: host memory that the GPU writes to (``native/mailbox.h``)."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilekit.forks import Lock
from tilekit.runtime.cuda.devices import Device
from tilekit.runtime.faults import Fault, Record, raise_error

if TYPE_CHECKING:
    from tilekit.runtime.cpu import Generated

PORTABLE_AND_MAPPED = 3
RING_BYTES = 1 << 20
"""Bytes for the prints of one launch."""
_COUNTS = struct.Struct("4I")
"""``written``, ``capacity``, ``lost`` and four bytes more."""
HEAD = ctypes.sizeof(Record) + _COUNTS.size
"""Bytes before the records."""
_ENTRY = struct.Struct("iiq")
_END = -1


@dataclass(frozen=True)
class Printed:
    """One print, or the values of one failed assertion."""

    site: int
    block: int
    values: int
    """Their address."""


class Mailbox:
    """The mailbox of one kernel on one device. It lives as long as the process: a graph may write to it at any time."""

    def __init__(self, device: Device, generated: Generated) -> None:
        self.device = device
        self.generated = generated
        self.prints = any(site.render is not None for site in generated.sites)
        self.capacity = RING_BYTES if self.prints else 0
        size = HEAD + self.capacity
        with device.driver.relaxed(), device.current():
            self.host = device.driver.pointer("cuMemHostAlloc", size, PORTABLE_AND_MAPPED)
            self.address = device.driver.pointer("cuMemHostGetDevicePointer_v2", self.host, 0)
        ctypes.memset(self.host, 0, size)
        self.fault = Fault(generated.sites)
        self.fault.record = Record.from_address(self.host)
        self.fault.address = self.host
        self._counts: Any = (ctypes.c_char * _COUNTS.size).from_address(self.host + HEAD - _COUNTS.size)
        _COUNTS.pack_into(self._counts, 0, 0, self.capacity, 0, 0)
        self.grid: tuple[int, ...] | None = None
        """The grid of the launches that may have written; empty where they differ."""
        self.lock = Lock()
        """Held by a launch that is waited for, until what it printed is out."""
        self.captured = False
        """Whether a graph was told to launch the kernel, which may then run at any time."""

    @property
    def failed(self) -> bool:
        """Whether a check has failed."""
        return bool(self.fault.record.kind)

    def expect(self, grid: tuple[int, ...]) -> None:
        """A kernel is launched over this grid, and may write here from now on."""
        if self.grid is None:
            self.device.reporting.add(self)
            self.grid = grid
        elif self.grid != grid:
            self.grid = ()

    def deliver(self, finished: bool) -> None:
        """Print what was printed, and raise what failed. ``finished`` says that no launch is running any more.

        Raises:
            TilekitError: a check failed.
        """
        grid = self.grid or ()
        if finished and not self.captured:
            self.grid = None
            self.device.reporting.discard(self)
        if self.prints:
            self._deliver_prints()
        if self.failed:
            raise_error(self.fault, self.generated, grid)

    def _deliver_prints(self) -> None:
        """In the order of the blocks: that of the GPU is another every time."""
        record = self.fault.record
        try:
            for entry in sorted(self._entries(), key=lambda entry: entry.block):
                site = self.generated.sites[entry.site]
                if not site.text:
                    print(site.text_of(entry.values), end="")
                elif self.failed and (entry.site, entry.block) == (record.site, record.block):
                    self.fault.message = site.text_of(entry.values)
            _, capacity, lost, _ = _COUNTS.unpack(self._counts)
            if lost:
                name = self.generated.function.name
                print(f"... {lost} prints of kernel {name!r} are lost: {capacity} bytes of values fit a launch")
        finally:
            _COUNTS.pack_into(self._counts, 0, 0, self.capacity, 0, 0)

    def _entries(self) -> Iterator[Printed]:
        written, capacity, *_ = _COUNTS.unpack(self._counts)
        place, end = self.host + HEAD, self.host + HEAD + min(written, capacity)
        while place + _ENTRY.size <= end:
            site, size, block = _ENTRY.unpack((ctypes.c_char * _ENTRY.size).from_address(place))
            if site == _END:
                return
            yield Printed(site, block, place + _ENTRY.size)
            place += _ENTRY.size + size


def report_earlier(device: Device) -> None:
    """Raise what a check has found in a kernel that was launched before, without waiting for any.

    Raises:
        TilekitError: a check failed.
    """
    for mailbox in list(device.reporting):
        if mailbox.failed:
            mailbox.deliver(finished=False)
