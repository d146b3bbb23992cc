"""DLPack's capsules of GPU memory; NumPy makes them here, and the test says that they are a GPU's."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

from tilekit.errors import KernelTypeError
from tilekit.ir.types import float32
from tilekit.runtime.array_view import StreamView
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cuda import dlpack


class OnGpu:
    """An array that shows itself by DLPack only."""

    def __init__(self, array: np.ndarray[Any, Any], **fields: int) -> None:
        self.array = array
        self.fields = {"device_type": 2, "device_id": 1, **fields}
        self.streams: list[Any] = []

    def __dlpack__(self, stream: Any = None) -> Any:
        self.streams.append(stream)
        capsule = self.array.__dlpack__()
        tensor = dlpack._Tensor.from_address(dlpack._get_pointer(capsule, b"dltensor"))
        for name, value in self.fields.items():
            setattr(tensor, name, value)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1


def test_a_view() -> None:
    data = np.arange(24, dtype=np.float32).reshape(4, 6)[::-1, ::2]
    source = OnGpu(data)
    view = view_of(source)
    assert isinstance(view, StreamView) and view.stream == 0 and source.streams == [1]
    assert (view.pointer, view.shape, view.strides) == (data.ctypes.data, (4, 3), (-24, 8))
    assert (view.dtype, view.device, view.readonly) == (float32, "cuda:1", False)


def test_the_memory_is_given_back() -> None:
    data = np.zeros(100)
    before = sys.getrefcount(data)
    view = view_of(OnGpu(data))
    gc.collect()
    assert sys.getrefcount(data) > before
    del view
    gc.collect()
    assert sys.getrefcount(data) == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"device_type": 1}, "gives memory of DLPack's device type 1, not of a GPU"),
        ({"lanes": 4}, r"dtype \(code 2, 32 bits, 4 lanes\) is not supported"),
        ({"code": 5}, r"dtype \(code 5, 32 bits, 1 lanes\) is not supported"),
        ({"bits": 128}, r"dtype \(code 2, 128 bits, 1 lanes\) is not supported"),
    ],
)
def test_what_kernels_cannot_read(fields: dict[str, int], message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        view_of(OnGpu(np.zeros(3, np.float32), **fields))


def test_a_capsule_that_is_refused() -> None:
    class Refuses(OnGpu):
        def __dlpack__(self, stream: Any = None) -> Any:
            raise BufferError("in use")

    with pytest.raises(KernelTypeError, match="__dlpack__ fails with BufferError: in use"):
        view_of(Refuses(np.zeros(3)))


def test_the_stream_of_an_interface() -> None:
    class Interface:
        def __init__(self, stream: Any) -> None:
            self.__cuda_array_interface__ = {
                "shape": (2,), "typestr": "<f4", "data": (4096, False), "strides": None, "version": 3, "stream": stream
            }  # fmt: skip

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

    found = [getattr(view_of(Interface(stream)), "stream", "none") for stream in (None, 1, 2, 77)]
    assert found == ["none", 0, 2, 77]
