"""Views of GPU memory that is known by DLPack alone, read from the capsule without any other library."""

from __future__ import annotations

import ctypes
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.ir.types import DType, dtype_named
from tilekit.runtime.array_protocols import CUDA, LEGACY, dense_strides, is_immutable
from tilekit.runtime.array_view import StreamView
from tilekit.runtime.arrays import _checked

_NAME, _USED = b"dltensor", b"used_dltensor"
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.restype, _set_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Tensor(ctypes.Structure):
    """``DLManagedTensor`` of DLPack's dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


class _Owner:
    """Keeps what a capsule lent, and gives it back."""

    def __init__(self, array: Any, address: int) -> None:
        self.array = array
        self.address = address
        self.tensor = _Tensor.from_address(address)

    def __del__(self) -> None:
        if self.tensor.deleter:
            _Deleter(self.tensor.deleter)(self.address)


def cuda_view(array: Any) -> StreamView:
    """The view of an array on a GPU, in the order of the default stream.

    Raises:
        KernelTypeError: it has no capsule, or elements that kernels cannot read.
    """
    try:
        capsule = array.__dlpack__(stream=LEGACY)
        address = _get_pointer(capsule, _NAME)
    except Exception as error:  # each library has its own
        raise KernelTypeError(f"__dlpack__ fails with {type(error).__name__}: {error}") from error
    _set_name(capsule, _USED)
    owner = _Owner(array, address or 0)
    found = owner.tensor
    if found.device_type != CUDA:
        raise KernelTypeError(f"__dlpack__ gives memory of DLPack's device type {found.device_type}, not of a GPU")
    dtype = _dtype_of(found)
    shape = tuple(found.shape[axis] for axis in range(found.ndim))
    if found.strides:
        strides = tuple(found.strides[axis] * dtype.itemsize for axis in range(found.ndim))
    else:
        strides = dense_strides(shape, dtype.itemsize)
    pointer = (found.data or 0) + found.byte_offset
    device = f"cuda:{found.device_id}"
    return StreamView(_checked(pointer, shape, strides, dtype, device, is_immutable(array), owner), 0)


def _dtype_of(tensor: Any) -> DType:
    kind = _KINDS.get(tensor.code, "")
    name = kind if kind == "bool" else f"{kind}{tensor.bits}"
    try:
        if kind and tensor.lanes == 1 and (kind != "bool" or tensor.bits == 8):
            return dtype_named(name)
    except KeyError:
        pass
    raise KernelTypeError(
        f"DLPack's dtype (code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes) is not supported"
    )
