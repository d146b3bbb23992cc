"""The GPUs of this machine: each with its own context, limits, and list of what was launched on it."""

from __future__ import annotations

import ctypes
import os
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from tilekit.errors import DeviceError
from tilekit.forks import Lock
from tilekit.runtime.cuda.driver import Driver, driver

if TYPE_CHECKING:
    from tilekit.runtime.cuda.kernel import CudaKernel
    from tilekit.runtime.cuda.mailbox import Mailbox

_MAJOR, _MINOR = 75, 76
_MAX_SHARED, _MULTIPROCESSORS = 97, 16
_REMEMBERED = 8
_POOL = struct.Struct("4iPNH54x")
"""``CUmemPoolProps``: kind of memory, of handle, of place, the place; security, most bytes, usage."""
_PINNED, _ON_DEVICE, _RELEASE_THRESHOLD = 1, 1, 4
KEPT_BYTES = 1 << 30
"""Of freed scratch memory, so much is kept when the host waits for the device: to get it anew takes a millisecond."""


class Device:
    """One GPU. Its primary context, which PyTorch, Warp and CuPy use too, is retained for the life of the process."""

    def __init__(self, found: Driver, ordinal: int) -> None:
        self.driver = found
        self.ordinal = ordinal
        self.name = f"cuda:{ordinal}"
        handle = found.number("cuDeviceGet", ordinal)

        def attribute(number: int) -> int:
            return found.number("cuDeviceGetAttribute", number, handle)

        self.capability = (attribute(_MAJOR), attribute(_MINOR))
        self.max_shared = attribute(_MAX_SHARED)
        """Bytes of shared memory that one block can have."""
        self.multiprocessors = attribute(_MULTIPROCESSORS)
        with found.relaxed():
            self.context = found.pointer("cuDevicePrimaryCtxRetain", handle)
        self.recent: deque[CudaKernel] = deque(maxlen=_REMEMBERED)
        """What was launched last, the newest at the end."""
        self.reporting: set[Mailbox] = set()
        """Where kernels that were launched, and may still run, leave what they report."""
        self.events: list[int] = []
        """Events that nobody uses at the moment."""

    @cached_property
    def pool(self) -> int:
        """What memory in stream order is from. It is tilekit's own: how much others keep is left to them."""
        properties, pool = _POOL.pack(_PINNED, 0, _ON_DEVICE, self.ordinal, 0, 0, 0), ctypes.c_void_p()
        kept = ctypes.c_uint64(KEPT_BYTES)
        with self.driver.relaxed(), self.current():
            self.driver.call("cuMemPoolCreate", ctypes.addressof(pool), properties)
            self.driver.call("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, ctypes.addressof(kept))
        return pool.value or 0

    def __repr__(self) -> str:
        return f"<Device {self.name}, compute capability {self.capability[0]}.{self.capability[1]}>"

    @contextmanager
    def current(self) -> Iterator[None]:
        """Inside, the driver's calls of this thread are for this device."""
        self.driver.call("cuCtxPushCurrent_v2", self.context)
        try:
            yield
        finally:
            popped = ctypes.c_void_p()
            self.driver.call("cuCtxPopCurrent_v2", ctypes.byref(popped))

    def synchronize(self) -> None:
        """Wait for everything that was launched on the device.

        Raises:
            DeviceError: something failed there; the message names the kernels that may have.
        """
        with self.current():
            code = self.driver.functions["cuCtxSynchronize"]()
        if code:
            raise self.failure(code)

    def failure(self, code: int) -> DeviceError:
        """The exception for an error that some kernel launched before has caused."""
        from tilekit.runtime.cuda.failures import of_device  # only errors need it

        return of_device(self, code)


_devices: dict[int, Device] = {}
_lock = Lock()


def device(ordinal: int) -> Device:
    """The device of that number.

    Raises:
        DeviceError: there is no driver, or no such device.
    """
    found = _devices.get(ordinal)
    if found is None:
        with _lock:
            found = _devices.get(ordinal)
            if found is None:
                found = _devices[ordinal] = _open(ordinal)
    return found


def _open(ordinal: int) -> Device:
    found = driver()
    count = found.number("cuDeviceGetCount")
    if not 0 <= ordinal < count:
        names = ", ".join(f"'cuda:{index}'" for index in range(count)) or "none"
        raise DeviceError(f"there is no device 'cuda:{ordinal}'; the driver offers {names}")
    return Device(found, ordinal)


def opened() -> list[Device]:
    """The devices that this process has used."""
    return list(_devices.values())


def current_ordinal() -> int:
    """The device that this thread's CUDA context is for; the first where it has none.

    Raises:
        DeviceError: there is no driver.
    """
    found = driver()
    if not found.pointer("cuCtxGetCurrent"):
        return 0
    return found.number("cuCtxGetDevice")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_devices.clear)
