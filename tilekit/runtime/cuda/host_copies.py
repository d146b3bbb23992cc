"""Arrays of a GPU for the interpreter: their memory is copied to the host before a launch, and back after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilekit.errors import FallbackWarning
from tilekit.ir.notices import warn_once
from tilekit.ir.types import ArrayType
from tilekit.runtime.array_view import ArrayView, byte_range
from tilekit.runtime.cuda.devices import Device, device as device_of
from tilekit.runtime.cuda.streams import choose, handle_of


class HostCopy:
    """A copy of the bytes from ``low`` to before ``high`` of a GPU's memory."""

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self.data: np.ndarray[Any, Any] = np.empty(0, np.uint8)

    def fetch(self, device: Device) -> None:
        # As many bytes more as keep every address's remainder by 16, on which checks of alignment depend.
        lead = self.low % 16
        memory = np.empty(self.high - self.low + lead + 16, np.uint8)
        start = -memory.ctypes.data % 16 + lead
        self.data = memory[start : start + self.high - self.low]
        device.driver.call("cuMemcpyDtoH_v2", self.data.ctypes.data, self.low, self.data.size)

    def give_back(self, device: Device) -> None:
        device.driver.call("cuMemcpyHtoD_v2", self.low, self.data.ctypes.data, self.data.size)


def copies_for(views: Sequence[ArrayView]) -> list[HostCopy]:
    """One copy for each stretch of memory that views share, so that those that overlap there overlap here."""
    found: list[HostCopy] = []
    for low, high in sorted(byte_range(view) for view in views):
        if low == high:
            continue
        if found and low < found[-1].high:
            found[-1].high = max(found[-1].high, high)
        else:
            found.append(HostCopy(low, high))
    return found


def run_on_host(
    compiled: Any, values: Sequence[Any], grid: tuple[int, ...], points: int, views: Sequence[ArrayView], stream: Any
) -> None:
    """Run a kernel on the host with arrays that are on a GPU, and say once for each line that this copies them.

    What is in the gaps of a written array with strides is written back as it was found: nothing else may change it
    meanwhile.

    Raises:
        DeviceError: the GPU reports a failure.
        TilekitError: what the kernel raises.
    """
    where = device_of(int(views[0].device.partition(":")[2]))
    text = f"device='interpret' copies the arrays on {where.name} to the host and back at each launch"
    warn_once(FallbackWarning, text, None)
    handle = choose(views, where)[0] if stream is None else handle_of(stream)
    copies = copies_for(views)
    with where.current():
        where.driver.call("cuStreamSynchronize", handle)
        for copy in copies:
            copy.fetch(where)
        try:
            compiled.run(_moved(compiled, values, copies), grid, points)
        finally:
            written = copies_for([views[position] for position in compiled.written])
            for copy in copies:
                if any(copy.low <= other.low < copy.high for other in written):
                    copy.give_back(where)


def _moved(compiled: Any, values: Sequence[Any], copies: Sequence[HostCopy]) -> list[Any]:
    """The values of a launch with the addresses of the copies."""
    found = list(values)
    place = 0
    for type in compiled.types.values():
        if isinstance(type, ArrayType):
            address = found[place]
            copy = next((copy for copy in copies if copy.low <= address < copy.high), None)
            if copy is not None:  # an array without elements has none
                found[place] = copy.data.ctypes.data + address - copy.low
            place += 1 + 2 * type.ndim
        elif type is not None:
            place += 1
    return found
