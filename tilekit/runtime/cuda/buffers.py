"""Arrays on a GPU that need no library: copies of NumPy arrays, for checks of an installation."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from tilekit.errors import DeviceError
from tilekit.runtime.cuda.devices import device as device_of


class Buffer:
    """A dense copy of a NumPy array in a GPU's memory, which kernels take as an array; freed when nobody holds it."""

    def __init__(self, array: np.ndarray[Any, Any], ordinal: int) -> None:
        self.device = device_of(ordinal)
        self.shape, self.dtype = array.shape, array.dtype
        self.pointer = 0
        if array.size:
            with self.device.driver.relaxed(), self.device.current():
                self.pointer = self.device.driver.pointer("cuMemAlloc_v2", array.nbytes)
            self.fill(array)

    def fill(self, array: np.ndarray[Any, Any]) -> None:
        """Copy from an array of the same shape and dtype."""
        dense = np.ascontiguousarray(array, self.dtype)
        with self.device.current():
            self.device.driver.call("cuMemcpyHtoD_v2", self.pointer, dense.ctypes.data, dense.nbytes)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements, once the device has done what it was told before."""
        found = np.empty(self.shape, self.dtype)
        self.device.synchronize()
        if found.size:
            with self.device.current():
                self.device.driver.call("cuMemcpyDtoH_v2", found.ctypes.data, self.pointer, found.nbytes)
        return found

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        place = {"data": (self.pointer, False), "shape": self.shape, "strides": None}
        return {**place, "typestr": self.dtype.str, "version": 3}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device.ordinal

    def __del__(self) -> None:
        if getattr(self, "pointer", 0):
            with contextlib.suppress(DeviceError), self.device.current():  # the context may be lost
                self.device.driver.call("cuMemFree_v2", self.pointer)
