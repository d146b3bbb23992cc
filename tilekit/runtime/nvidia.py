"""Which NVIDIA GPUs the driver offers, asked through the driver alone: no package, no CUDA toolkit."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR


@dataclass(frozen=True)
class Gpu:
    """One device of the driver."""

    index: int
    name: str
    capability: tuple[int, int]
    memory: int
    """Bytes."""

    @property
    def device(self) -> str:
        return f"cuda:{self.index}"


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver as found: where it is absent or does not work, ``reason`` says so."""

    cuda: tuple[int, int] | None
    """The newest CUDA version that it serves."""
    gpus: tuple[Gpu, ...]
    reason: str


def find_driver() -> Driver:
    """Load the driver's library and ask it.

    Example:
        >>> driver = find_driver()
        >>> bool(driver.gpus) or bool(driver.reason)
        True
    """
    if sys.platform == "darwin":
        return Driver(None, (), "macOS has none")
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return Driver(None, (), "no NVIDIA driver is installed")
    return _ask(library)


def _ask(library: ctypes.CDLL) -> Driver:
    number = ctypes.c_int()
    version = None
    if library.cuDriverGetVersion(ctypes.byref(number)) == 0:
        version = (number.value // 1000, number.value % 1000 // 10)
    code = library.cuInit(0)
    if code == 0:
        code = library.cuDeviceGetCount(ctypes.byref(number))
    if code != 0:
        return Driver(version, (), f"the NVIDIA driver offers no device ({_error_name(library, code)})")
    gpus = tuple(_gpu(library, index) for index in range(number.value))
    return Driver(version, gpus, "" if gpus else "the NVIDIA driver offers no device")


def _gpu(library: ctypes.CDLL, index: int) -> Gpu:
    device = ctypes.c_int()
    library.cuDeviceGet(ctypes.byref(device), index)
    name = ctypes.create_string_buffer(256)
    library.cuDeviceGetName(name, len(name), device)
    memory = ctypes.c_size_t()
    library.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
    library.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
    return Gpu(index, name.value.decode("utf-8", "replace"), (major.value, minor.value), memory.value)


def _error_name(library: ctypes.CDLL, code: int) -> str:
    text = ctypes.c_char_p()
    if library.cuGetErrorName(code, ctypes.byref(text)) == 0 and text.value:
        return text.value.decode("ascii", "replace")
    return f"error {code}"
