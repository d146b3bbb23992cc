"""Views of objects that are known only by a protocol: the array interfaces of host and CUDA memory, and DLPack."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from tilekit.errors import KernelNotImplementedError, KernelTypeError
from tilekit.runtime import nvidia
from tilekit.runtime.array_view import ArrayView, StreamView
from tilekit.runtime.arrays import _checked, _dtype, _numpy_dtypes, view_of

_HOST_DEVICES = (1, 3, 11)  # DLPack's kDLCPU, kDLCUDAHost and kDLROCMHost
CUDA = 2  # its kDLCUDA
_POINTER_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


def protocol_view(array: Any) -> ArrayView:
    """The view of an object with an array protocol; CUDA's is tried first, then the host's, then DLPack.

    Raises:
        KernelTypeError: none of the protocols, or one that does not hold to its specification.
        KernelNotImplementedError: memory of a device that is neither the host nor a GPU of NVIDIA's.
    """
    for name, convert in (("__cuda_array_interface__", _cuda_view), ("__array_interface__", _host_view)):
        interface = getattr(array, name, None)
        if interface is not None and not isinstance(array, type):
            if not isinstance(interface, dict):
                raise KernelTypeError(f"{name} is a {type(interface).__name__}, not a dict")
            return convert(array, interface)
    if hasattr(array, "__dlpack__") and not isinstance(array, type):
        return _dlpack_view(array)
    raise KernelTypeError(
        f"{_type_name(array)} is not an array; pass a Warp, NumPy, PyTorch or CuPy array, or convert with "
        "np.asarray(...)"
    )


def _type_name(array: Any) -> str:
    return f"the class {array.__name__}" if isinstance(array, type) else f"an object of type {type(array).__name__}"


def _cuda_view(array: Any, interface: dict[str, Any]) -> ArrayView:
    if interface.get("mask") is not None:
        raise KernelTypeError("a masked array is not supported")
    try:
        pointer, readonly = interface["data"]
        pointer = int(pointer or 0)
        shape = tuple(int(extent) for extent in interface["shape"])
        given = np.dtype(interface["typestr"])
        strides = interface.get("strides")
        strides = dense_strides(shape, given.itemsize) if strides is None else tuple(int(s) for s in strides)
    except (KeyError, TypeError, ValueError) as error:
        raise KernelTypeError(f"__cuda_array_interface__ is malformed: {error!r}") from error
    if len(strides) != len(shape) or min(shape, default=0) < 0:
        raise KernelTypeError(f"__cuda_array_interface__ is malformed: shape {shape}, strides {strides}")
    dtype = _numpy_dtypes.get(given) or _dtype(given, _numpy_dtypes)
    device = f"cuda:{_cuda_ordinal(array, pointer)}"
    view = _checked(pointer, shape, strides, dtype, device, bool(readonly), array)
    stream = interface.get("stream")
    return view if stream is None else StreamView(view, 0 if stream == LEGACY else int(stream))


LEGACY = 1
"""The default stream, as the protocols number it; the driver calls it 0 as well."""


def dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = [itemsize]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * max(extent, 1))
    return tuple(reversed(strides))[: len(shape)] if shape else ()


def _cuda_ordinal(array: Any, pointer: int) -> int:
    """The interface does not say which device the memory is on, so ask DLPack, or the driver, or take the first."""
    try:
        return int(array.__dlpack_device__()[1])
    except Exception:  # the method is absent or refuses, as PyTorch's does for some tensors
        driver = _cuda_driver()
    ordinal = ctypes.c_int(0)
    if driver is not None and pointer:
        asked = (ctypes.byref(ordinal), ctypes.c_int(_POINTER_DEVICE_ORDINAL), ctypes.c_uint64(pointer))
        if driver.cuPointerGetAttribute(*asked) != 0:
            raise KernelTypeError(f"__cuda_array_interface__ points to {pointer:#x}, which is not CUDA memory")
    return max(ordinal.value, 0)


@cache
def _cuda_driver() -> Any:
    try:
        driver = ctypes.CDLL(nvidia.LIBRARY)
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


class _Interface:
    """Shows NumPy nothing but the array interface, so that it can take no other way and no copy."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _host_view(array: Any, interface: dict[str, Any]) -> ArrayView:
    try:
        view = view_of(np.asarray(_Interface(interface)))
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        if isinstance(error, KernelTypeError):
            raise
        raise KernelTypeError(f"__array_interface__ is malformed: {error}") from error
    view.owner = array
    return view


def _dlpack_view(array: Any) -> ArrayView:
    """DLPack through NumPy, whose array owns the capsule and so keeps the memory alive."""
    try:
        device = int(array.__dlpack_device__()[0])
    except Exception as error:
        raise KernelTypeError(f"__dlpack_device__ fails with {type(error).__name__}: {error}") from error
    if device == CUDA:
        from tilekit.runtime.cuda.dlpack import cuda_view

        return cuda_view(array)
    if device not in _HOST_DEVICES:
        raise KernelNotImplementedError(
            f"memory of a device of DLPack's type {device} is not supported; kernels run on 'cpu' and 'cuda'"
        )
    try:
        view = view_of(np.from_dlpack(array))
    except (BufferError, RuntimeError, ValueError, AttributeError) as error:
        raise KernelTypeError(f"NumPy cannot read the DLPack capsule: {error}") from error
    view.readonly = view.readonly or is_immutable(array)
    return view


def is_immutable(array: Any) -> bool:
    """Whether the array is of a library whose arrays must not be written, which DLPack cannot say."""
    return type(array).__module__.partition(".")[0] in ("jax", "jaxlib")
