"""Scratch memory of a program's run on a GPU: allocated and freed in the order of its stream, also in a graph."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilekit.errors import DeviceError
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.cuda.devices import Device
from tilekit.runtime.cuda.driver import is_lost
from tilekit.runtime.cuda.kernel import CudaKernel
from tilekit.runtime.cuda.mailbox import report_earlier
from tilekit.runtime.cuda.streams import choose, current_of, handle_of, is_capturing, order


class DeviceBytes:
    """Memory of a GPU that a stream's later work may use until it is freed there.

    Where the stream is being captured, the graph allocates and frees it at each replay. So it is freed in the capture
    that it is from or not at all: the graph sees to it. Memory from outside is not freed in a capture either: the graph
    may use it at each replay, for as long as the process lives.
    """

    def __init__(self, device: Device, size: int, zeroed: int, stream: int) -> None:
        self.device = device
        self.stream = stream
        self.address = 0
        found, pool = ctypes.c_void_p(), device.pool
        with device.current():
            self.captured = is_capturing(device, stream)
            code = device.driver.functions["cuMemAllocFromPoolAsync"](ctypes.addressof(found), size, pool, stream)
            if code:
                lost = is_lost(code)
                text = f"{size} bytes of scratch memory on {device.name}"
                raise device.failure(code) if lost else device.driver.failure(code, text)
            self.address = found.value or 0
            if zeroed:
                device.driver.call("cuMemsetD8Async", self.address, 0, zeroed, stream)

    def free(self, stream: int) -> None:
        """Free it once the stream has done what it was told before."""
        address, self.address = self.address, 0
        driver = self.device.driver
        with self.device.current():
            if not address or is_capturing(self.device, stream) != self.captured:
                return
            code = driver.functions["cuMemFreeAsync"](address, stream)
        if code and not is_lost(code):  # which the next launch says, with the kernels that it may have been
            raise driver.failure(code, "cuMemFreeAsync")

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            with contextlib.suppress(DeviceError):  # the context may be lost
                self.free(self.stream)


class DeviceMemory:
    """Memory of a GPU. Runs on two streams, or of two threads, never have the same."""

    def __init__(self, device: Device) -> None:
        self.device_handle = device
        self.device = device.name

    @contextmanager
    def turn(self, views: Sequence[ArrayView], stream: Any) -> Iterator[int]:
        """The stream of one run, ordered with others that its arrays are used on.

        Raises:
            TilekitError: a check of a kernel that was launched before has failed.
        """
        device = self.device_handle
        if device.reporting:
            report_earlier(device)
        chosen, others = choose(views, device) if stream is None else (handle_of(stream), ())
        if not others:
            yield chosen
            return
        with device.current():
            for other in others:
                order(device, other, chosen)
            try:
                yield chosen
            finally:
                for other in others:
                    order(device, chosen, other)

    def allocate(self, size: int, zeroed: int, stream: int) -> DeviceBytes:
        return DeviceBytes(self.device_handle, size, zeroed, stream)

    def launch(
        self, kernel: CudaKernel, values: Sequence[Any], grid: tuple[int, ...], points: int, stream: int
    ) -> None:
        kernel.run(values, grid, points, (), stream)

    def current_of(self, libraries: Sequence[str | None]) -> Any:
        named = [library for library in libraries if library is not None]
        if len(named) < len(libraries):
            return None
        current, ordinal = current_of(named), self.device_handle.ordinal
        return lambda stream: current(ordinal) if stream is None else handle_of(stream)
