"""Copies of a launch's arrays, to launch a kernel again with other contents, shapes and strides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilekit.ir.interpret import from_memory, to_memory
from tilekit.ir.types import DType, bfloat16, convert_elements
from tilekit.runtime.array_view import ArrayView, array_at
from tilekit.runtime.arrays import view_of

Elements = np.ndarray[Any, Any]
GAP = 3
"""Elements between the rows of strided copies."""


@dataclass(frozen=True)
class Sample:
    """An array: its elements, in the host's memory, and how copies of it lie in memory."""

    dtype: DType
    values: Elements
    """In the dtype that tilekit computes in."""
    strided: int = 0
    """0: row by row; else one of the ways to leave gaps."""

    def rounded(self, values: Elements) -> Elements:
        """Values as the array holds them, in float64."""
        return convert_elements(np.asarray(values), self.dtype).astype(np.float64)

    def place(self, values: Elements, device: str) -> Placed:
        """An array of the same dtype, shape and layout that holds other values, on a device."""
        stored = np.dtype(np.uint16) if self.dtype is bfloat16 else self.dtype.numpy
        memory, view = _memory(self.values.shape, stored, self.strided)
        view[...] = to_memory(convert_elements(np.asarray(values), self.dtype), self.dtype, stored)
        return Placed(self.dtype, memory, view, device)


def _memory(shape: tuple[int, ...], stored: np.dtype[Any], way: int) -> tuple[Elements, Elements]:
    """Dense memory, and an array of that shape in it."""
    if way == 0:
        memory = np.zeros(shape, stored)
        return memory, memory
    if way % 2 or len(shape) == 1:  # every second element of longer rows
        memory = np.zeros((*shape[:-1], 2 * shape[-1] + GAP), stored)
        return memory, memory[..., 1 : 1 + 2 * shape[-1] : 2]
    memory = np.zeros((*shape[:0:-1], shape[0] + GAP), stored)  # column by column
    return memory, memory[..., 1 : 1 + shape[0]].T


class Placed:
    """An array on a device, to launch with."""

    def __init__(self, dtype: DType, memory: Elements, view: Elements, device: str) -> None:
        self.dtype = dtype
        self._memory = memory
        self.data = view
        """The elements in the host's memory; where the device has its own, as they were placed or last read."""
        self._buffer: Any = None
        start = memory.ctypes.data
        if device.startswith("cuda"):
            from tilekit.runtime.cuda.buffers import Buffer

            self._buffer = Buffer(memory, int(device.partition(":")[2] or 0))
            start = self._buffer.pointer
        place = start + view.ctypes.data - memory.ctypes.data if view.size else 0
        where = device if self._buffer is not None else "cpu"
        owner = self._buffer if self._buffer is not None else memory
        self.array = ArrayView(place, view.shape, view.strides, dtype, where, owner=owner)

    def read(self) -> Elements:
        """The elements, once the device has done what it was told before; in the dtype that tilekit computes in."""
        if self._buffer is not None:
            self._memory[...] = self._buffer.numpy()
        return np.array(from_memory(self.data, self.dtype))


def sample_of(array: Any) -> Sample:
    """A copy of an array of any library, wherever it is."""
    view = view_of(array)
    if view.device.startswith("cuda") and view.size:
        from tilekit.runtime.cuda.devices import device as device_of
        from tilekit.runtime.cuda.host_copies import copies_for

        where = device_of(int(view.device.partition(":")[2]))
        where.synchronize()
        (copy,) = copies_for([view])
        with where.current():
            copy.fetch(where)
        start = copy.data.ctypes.data + view.pointer - copy.low
        found = array_at(start, view.shape, view.strides, view.dtype)
        return Sample(view.dtype, np.array(from_memory(found, view.dtype)))
    found = array_at(view.pointer, view.shape, view.strides, view.dtype)
    return Sample(view.dtype, np.array(from_memory(found, view.dtype)))


def strided(samples: Mapping[str, Sample]) -> dict[str, Sample]:
    """The same arrays, whose elements lie apart in memory: each in another way than the one before it."""
    return {name: replace(sample, strided=number) for number, (name, sample) in enumerate(samples.items(), 1)}


def ragged(samples: Mapping[str, Sample]) -> dict[str, Sample]:
    """The same arrays without their last element on each axis that has several, so that tiles reach past their ends."""

    def cut(values: Elements) -> Elements:
        return np.ascontiguousarray(values[tuple(slice(max(extent - 1, 1)) for extent in values.shape)])

    return {name: replace(sample, values=cut(sample.values)) for name, sample in samples.items()}


def in_dtype(samples: Mapping[str, Sample], change: Callable[[DType], DType]) -> dict[str, Sample]:
    """The same values in other dtypes."""
    return {
        name: replace(sample, dtype=change(sample.dtype), values=convert_elements(sample.values, change(sample.dtype)))
        for name, sample in samples.items()
    }


def first(count: int, values: Elements) -> Elements:
    """Values with zeros in place of all but the first ``count``; all of them where ``count`` is not positive."""
    if count <= 0:
        return values
    found = np.zeros_like(values)
    found.reshape(-1)[:count] = values.reshape(-1)[:count]
    return found
