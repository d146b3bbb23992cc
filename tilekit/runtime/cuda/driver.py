"""The CUDA driver's functions, called through its C interface. Every result is checked: no call can fail unseen."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from tilekit.errors import DeviceError
from tilekit.runtime import nvidia

_TYPES = {"P": ctypes.c_void_p, "Q": ctypes.c_uint64, "N": ctypes.c_size_t, "i": ctypes.c_int, "I": ctypes.c_uint,
          "s": ctypes.c_char_p}  # fmt: skip

FUNCTIONS = {
    "cuInit": "I",
    "cuDriverGetVersion": "P",
    "cuGetErrorName": "iP",
    "cuGetErrorString": "iP",
    "cuDeviceGetCount": "P",
    "cuDeviceGet": "Pi",
    "cuDeviceGetName": "Pii",
    "cuDeviceGetAttribute": "Pii",
    "cuDevicePrimaryCtxRetain": "Pi",
    "cuCtxGetCurrent": "P",
    "cuCtxPushCurrent_v2": "P",
    "cuCtxPopCurrent_v2": "P",
    "cuCtxGetDevice": "P",
    "cuCtxSynchronize": "",
    "cuModuleLoadData": "PP",
    "cuModuleGetFunction": "PPs",
    "cuFuncGetAttribute": "PiP",
    "cuFuncSetAttribute": "Pii",
    "cuLaunchKernelEx": "PPPP",
    "cuMemHostAlloc": "PNI",
    "cuMemHostGetDevicePointer_v2": "PPI",
    "cuMemAlloc_v2": "PN",
    "cuMemFree_v2": "Q",
    "cuMemPoolCreate": "PP",
    "cuMemPoolSetAttribute": "PiP",
    "cuMemAllocFromPoolAsync": "PNPP",
    "cuMemFreeAsync": "QP",
    "cuMemsetD8Async": "QINP",
    "cuMemcpyHtoD_v2": "QPN",
    "cuMemcpyDtoH_v2": "PQN",
    "cuStreamSynchronize": "P",
    "cuStreamIsCapturing": "PP",
    "cuStreamWaitEvent": "PPI",
    "cuEventCreate": "PI",
    "cuEventRecord": "PP",
    "cuThreadExchangeStreamCaptureMode": "P",
}
"""Each function that is used, with the kinds of its arguments."""

MADE_BEFOREHAND = ("cuLaunchKernelEx", "cuCtxGetCurrent")
"""Those of every launch. They take what ``ctypes.byref`` and ``c_void_p.from_param`` give, made once for many calls: to
make it of numbers is a third of what a call costs. A number would lose its upper half."""
ILLEGAL_ADDRESS = 700
_LOST = (ILLEGAL_ADDRESS, 702, 709, 710, 714, 715, 716, 717, 718, 719)
"""Errors after which every call for the same context fails: what running kernels did."""
_HINTS = {
    3: "CUDA cannot be used in a process forked from one that uses it; start processes with "
    "multiprocessing.get_context('spawn')",
    209: "the GPU cannot run this code",
    900: "the stream is being captured by another library; launch on the stream that is captured (stream=...)",
    901: "the launch would have broken the capture of a graph",
    906: "the default stream cannot be used while another stream is captured; launch on that one (stream=...)",
}


class Driver:
    """The driver's functions by name. ``call`` checks what they return."""

    def __init__(self, library: Any) -> None:
        self.functions: dict[str, Callable[..., int]] = {}
        for name, letters in FUNCTIONS.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise DeviceError(f"the NVIDIA driver is too old: it has no {name}; update it") from None
            if name not in MADE_BEFOREHAND:
                function.argtypes = [_TYPES[letter] for letter in letters]
            function.restype = ctypes.c_int
            self.functions[name] = function

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            DeviceError: it did not succeed.
        """
        code = self.functions[name](*arguments)
        if code:
            raise self.failure(code, name)

    def number(self, name: str, *arguments: Any, kind: Any = ctypes.c_int) -> int:
        """What a function writes through its first argument; raises as :meth:`call`."""
        found = kind()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value or 0

    def pointer(self, name: str, *arguments: Any) -> int:
        """A handle or address that a function writes through its first argument; raises as :meth:`call`."""
        return self.number(name, *arguments, kind=ctypes.c_void_p)

    def failure(self, code: int, what: str) -> DeviceError:
        """The exception for a result, naming what gave it."""
        hint = f"; {_HINTS[code]}" if code in _HINTS else ""
        return DeviceError(f"{what}: {self.describe(code)}{hint}")

    def describe(self, code: int) -> str:
        """The driver's own name and words for a result."""
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            if self.functions[name](code, ctypes.addressof(text)) == 0 and text.value:
                texts.append(text.value.decode("utf-8", "replace"))
        return f"{texts[0]} ({texts[1]})" if len(texts) == 2 else f"error {code}"

    @contextmanager
    def relaxed(self) -> Iterator[None]:
        """Inside, this thread may load and allocate while a graph is being captured, without breaking the capture."""
        mode = ctypes.c_int(2)  # CU_STREAM_CAPTURE_MODE_RELAXED
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))


def is_lost(code: int) -> bool:
    """Whether the context can do nothing any more after this error."""
    return code in _LOST


@cache
def driver() -> Driver:
    """The driver of this machine, initialised.

    Raises:
        DeviceError: there is none, or it offers no device.
    """
    try:
        library = ctypes.CDLL(nvidia.LIBRARY)
    except OSError:
        raise DeviceError("no NVIDIA driver is installed, so kernels run on 'cpu' and 'interpret' only") from None
    found = Driver(library)
    found.call("cuInit", 0)
    return found


def forget() -> None:
    """Ask for the driver anew, in a forked child, where the parent's cannot be used."""
    driver.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
