"""Zero-copy views of the arrays that kernels take: Warp's, NumPy's, PyTorch's, CuPy's and those of the protocols.

:func:`view_of` runs for every array of every launch, so it finds a converter by the argument's type and looks dtypes up
in dicts. No array library but NumPy is imported here; a converter is made when the first array of its kind arrives.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.errors import KernelNotImplementedError, KernelTypeError, shown
from tilekit.ir.annotations import LATER, compound_name
from tilekit.ir.types import DType, find_dtype
from tilekit.runtime.array_view import (
    AlignmentClass,
    ArrayView,
    alignment_class,
    byte_range,
    overlaps,
    self_overlapping,
)

__all__ = ["AlignmentClass", "ArrayView", "alignment_class", "byte_range", "overlaps", "self_overlapping", "view_of"]

Converter = Callable[[Any], ArrayView]

Reader = tuple[str, str]
"""For launches like an earlier one: Python code that gives the address of the array ``{0}``, and code that gives
whatever else a converter asks of it."""
Family = tuple[Converter, Reader]
_converters: dict[type, Converter] = {}
readers: dict[type, Reader | None] = dict.fromkeys((int, float, bool, type(None), *np.sctypeDict.values()))
"""By the types of arguments; None for numbers, and for what is left out."""
library_of: dict[type, str] = {}
"""The library of each type of array seen so far: ``"torch"``, ``"cupy"`` or ``"warp"``."""
_warp_dtypes: dict[Any, DType] = {}
_numpy_dtypes: dict[Any, DType] = {}
_torch_dtypes: dict[Any, DType] = {}
_torch_devices: dict[Any, str] = {}


def view_of(array: Any) -> ArrayView:
    """The view of an array of any library, without copying.

    Takes Warp, NumPy, PyTorch and CuPy arrays and what has ``__cuda_array_interface__``, ``__array_interface__`` or
    ``__dlpack__``; 1 dimension or more, any strides, every dtype of tilekit.

    Example:
        >>> view_of(np.zeros((2, 3), np.float32)).strides
        (12, 4)

    Raises:
        KernelTypeError: no array, no dimensions, or elements of a dtype, byte order or alignment that kernels cannot
            read. The message has no subject: the caller knows the argument's name.
        KernelNotImplementedError: vectors, matrices, structs, sparse and indexed arrays.
    """
    convert = _converters.get(type(array))
    if convert is None:
        convert = _find_converter(array)
    return convert(array)


def _find_converter(array: Any) -> Converter:
    kind = type(array)
    if isinstance(array, ArrayView):
        return _unchanged
    if isinstance(array, np.ma.MaskedArray):
        raise KernelTypeError("a masked array has elements without a value; pass array.filled(value)")
    convert: Converter | None = None
    if isinstance(array, np.ndarray):
        convert, readers[kind] = _from_numpy, _NUMPY
    for base in kind.__mro__:
        make = _FAMILIES.get((base.__module__.partition(".")[0], base.__name__))
        if make is not None and convert is None:
            convert, readers[kind] = make()
            library_of[kind] = base.__module__.partition(".")[0]
    if convert is None:
        _refuse(array)
        return _from_protocol
    _converters[kind] = convert
    return convert


def _unchanged(view: ArrayView) -> ArrayView:
    return view


def _refuse(array: Any) -> None:
    """Raise for what is often passed by mistake and has an answer of its own."""
    kind = type(array)
    if array is None:
        raise KernelTypeError("None is not an array")
    if isinstance(array, (list, tuple)):
        raise KernelTypeError(f"a {kind.__name__} is not an array; convert it with np.asarray(...) or tk.array(...)")
    if isinstance(array, (bool, int, float, complex, np.generic)):
        number = shown(array) if isinstance(array, int) else array
        raise KernelTypeError(
            f"the number {number} is not an array; pass an array of one element, such as np.array([x])"
        )
    if isinstance(array, dict):
        raise KernelTypeError("a dict is not an array; pass the object that owns the memory")
    if kind.__module__.partition(".")[0] == "warp":
        raise KernelNotImplementedError(f"Warp's {kind.__name__} is not supported; pass a plain array")


def _dtype(given: Any, cache: dict[Any, DType]) -> DType:
    found = find_dtype(given)
    if found is None:
        raise _bad_dtype(given)
    cache[given] = found
    return found


def _bad_dtype(given: Any) -> Exception:
    compound = compound_name(given)
    if compound is not None:
        return KernelNotImplementedError(f"elements are of type {compound}: this {LATER}")
    text = str(given.__name__ if isinstance(given, type) else given)
    if isinstance(given, np.dtype):
        if not given.isnative:
            return KernelTypeError(
                f"dtype {text} is not in this machine's byte order; convert with .astype({given.name!r})"
            )
        if given.kind == "O":
            return KernelTypeError("dtype object holds Python objects; convert with .astype(...) to a dtype of numbers")
        if given.names is not None:
            return KernelTypeError(
                f"structured dtype {text} is not supported; pass one field, such as x[{given.names[0]!r}]"
            )
    if "complex" in text:
        return KernelTypeError(f"dtype {text} is not supported; pass .real and .imag as two arrays")
    return KernelTypeError(f"dtype {text} is not supported")


def _checked(
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: DType,
    device: str,
    readonly: bool,
    owner: Any,
) -> ArrayView:
    if len(strides) == 2:
        bits = pointer | strides[0] | strides[1]
    else:
        bits = pointer
        for stride in strides:
            bits |= stride
    if bits & ((dtype.bits >> 3) - 1) or not shape or not pointer:
        _check_layout(pointer, shape, strides, dtype)
    return ArrayView(pointer, shape, strides, dtype, device, readonly, owner)


def _check_layout(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> None:
    if not shape:
        raise KernelTypeError("an array without dimensions is not supported; use array.reshape(1)")
    if 0 in shape:
        return
    if pointer == 0:
        raise KernelTypeError("the array has no memory")
    used = [stride for extent, stride in zip(shape, strides, strict=True) if extent > 1]
    if any(value % dtype.itemsize for value in (pointer, *used)):
        raise KernelTypeError(f"elements do not lie at multiples of their size ({dtype.itemsize} bytes); pass a copy")


def _pointer_by_interface(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _pointer_by_layout(array: np.ndarray[Any, Any]) -> int:
    return _read_pointer(id(array) + _HEADER).value or 0


_read_pointer = ctypes.c_void_p.from_address
_HEADER = object.__basicsize__


def _fast_pointer() -> Callable[[np.ndarray[Any, Any]], int]:
    """How to get an array's address. NumPy's own way takes 1.4 us, most of what a view costs, so read the first field
    of its struct, which its binary interface fixes, where a trial shows that it is there."""
    if sys.implementation.name != "cpython":
        return _pointer_by_interface
    base = np.zeros((4, 6), np.float32)
    trials: list[np.ndarray[Any, Any]] = [base, base[1:, 2:], base.T, base[::-1], np.zeros(3, np.uint8)]
    same = all(_pointer_by_layout(trial) == _pointer_by_interface(trial) for trial in trials)
    return _pointer_by_layout if same else _pointer_by_interface


address_of = _fast_pointer()


def _from_numpy(array: np.ndarray[Any, Any]) -> ArrayView:
    dtype = _numpy_dtypes.get(array.dtype) or _dtype(array.dtype, _numpy_dtypes)
    return _checked(address_of(array), array.shape, array.strides, dtype, "cpu", not array.flags.writeable, array)


_NUMPY = ("address_of({0})", "{0}.shape, {0}.strides, {0}.dtype, {0}.flags.writeable")


def _warp_family() -> Family:
    return _from_warp, ("{0}.ptr", "{0}.shape, {0}.strides, {0}.dtype, {0}.device.alias")


def _from_warp(array: Any) -> ArrayView:
    dtype = _warp_dtypes.get(array.dtype)
    device = array.device
    if device is None:
        raise KernelTypeError(
            "this is an annotation without memory; make an array with tk.zeros(...) or tk.array(data)"
        )
    if dtype is None:
        dtype = _dtype(array.dtype, _warp_dtypes)
    name: str = device.alias
    if name.count("."):  # an additional context of a device, such as cuda:0.1
        name = name.partition(".")[0]
    return _checked(array.ptr or 0, array.shape, array.strides, dtype, name, False, array)


def _torch_family() -> Family:
    import torch

    strided = torch.strided

    def from_torch(tensor: Any) -> ArrayView:
        dtype = _torch_dtypes.get(tensor.dtype) or _dtype(tensor.dtype, _torch_dtypes)
        if tensor.layout is not strided or tensor.is_neg():
            _refuse_tensor(tensor)
        device = "cpu" if tensor.is_cpu else _torch_devices.get(tensor.device) or _torch_device(tensor.device)
        try:
            pointer = tensor.data_ptr()
        except RuntimeError as error:
            raise KernelTypeError(f"the tensor has no memory of its own: {error}") from None
        size = dtype.bits >> 3
        steps = tensor.stride()
        if len(steps) == 2:  # inlined for speed
            row, column = strides = (steps[0] * size, steps[1] * size)
            if pointer and not (pointer | row | column) & (size - 1):
                return ArrayView(pointer, tuple(tensor.shape), strides, dtype, device, False, tensor)
            return _checked(pointer, tuple(tensor.shape), strides, dtype, device, False, tensor)
        scaled = tuple([step * size for step in steps])
        return _checked(pointer, tuple(tensor.shape), scaled, dtype, device, False, tensor)

    # Where the layout is not strided, one of these raises.
    layout = "{0}.shape, {0}.stride(), {0}.dtype, {0}.device, {0}.is_neg()"
    return from_torch, ("{0}.data_ptr()", layout)


def _refuse_tensor(tensor: Any) -> None:
    if tensor.is_neg():
        raise KernelTypeError("the tensor is negated lazily (its neg bit is set); pass .resolve_neg()")
    raise KernelNotImplementedError(f"a tensor of layout {tensor.layout} is not supported; pass .to_dense()")


def _torch_device(device: Any) -> str:
    if device.type not in ("cpu", "cuda"):
        raise KernelTypeError(f"a tensor on device {device.type!r} cannot be read; kernels run on 'cpu' and 'cuda'")
    name = _torch_devices[device] = "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"
    return name


def _cupy_family() -> Family:
    return _from_cupy, ("{0}.data.ptr", "{0}.shape, {0}.strides, {0}.dtype, {0}.device.id")


def _from_cupy(array: Any) -> ArrayView:
    dtype = _numpy_dtypes.get(array.dtype) or _dtype(array.dtype, _numpy_dtypes)
    return _checked(array.data.ptr, array.shape, array.strides, dtype, f"cuda:{array.device.id}", False, array)


_FAMILIES: dict[tuple[str, str], Callable[[], Family]] = {
    ("warp", "array"): _warp_family,
    ("torch", "Tensor"): _torch_family,
    ("cupy", "ndarray"): _cupy_family,
}


def _from_protocol(array: Any) -> ArrayView:
    from tilekit.runtime.array_protocols import protocol_view

    return protocol_view(array)
