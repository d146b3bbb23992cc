"""Host functions that make Warp arrays, with Warp's arguments and every library's dtypes.

``device``, in any spelling that a launch takes, says where an array is; else the option ``device`` does, else Warp's
current device: the first GPU where Warp sees one. Arrays for ``"interpret"`` are on the host.
All of them raise MissingPackageError where Warp is not installed, and DeviceError for a GPU where there is no driver.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilekit.config import config
from tilekit.errors import KernelTypeError, KernelValueError, TilekitError, counted
from tilekit.ir.annotations import set_construct_hook
from tilekit.ir.types import bfloat16, find_dtype
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import view_of
from tilekit.runtime.placement import INTERPRET, name_of
from tilekit.runtime.warp_names import import_warp, to_warp_dtype

Shape = int | Sequence[int] | None


def zeros(
    shape: Shape = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    **options: Any,
) -> Any:
    """A new Warp array of ``shape`` with every element zero.

    Example:
        >>> zeros((2, 3), dtype=float).numpy()
        array([[0., 0., 0.],
               [0., 0., 0.]], dtype=float32)

    Raises:
        KernelValueError: ``shape`` has no dimensions.
        KernelTypeError: ``shape`` has something other than integers.
    """
    options.update(requires_grad=requires_grad, pinned=pinned, retain_grad=retain_grad)
    return import_warp().zeros(_shape(shape), to_warp_dtype(dtype), _device(device), **options)


def ones(
    shape: Shape = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    **options: Any,
) -> Any:
    """A new Warp array of ``shape`` with every element one; raises as :func:`zeros`.

    Example:
        >>> ones(3, dtype=int).numpy()
        array([1, 1, 1], dtype=int32)
    """
    options.update(requires_grad=requires_grad, pinned=pinned, retain_grad=retain_grad)
    return import_warp().ones(_shape(shape), to_warp_dtype(dtype), _device(device), **options)


def empty(
    shape: Shape = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    **options: Any,
) -> Any:
    """A new Warp array of ``shape`` whose elements have no value yet; raises as :func:`zeros`.

    Example:
        >>> empty((2, 3), dtype=np.float16).shape
        (2, 3)
    """
    options.update(requires_grad=requires_grad, pinned=pinned, retain_grad=retain_grad)
    return import_warp().empty(_shape(shape), to_warp_dtype(dtype), _device(device), **options)


def full(
    shape: Shape = None,
    value: Any = 0,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    **options: Any,
) -> Any:
    """A new Warp array of ``shape`` with every element ``value``, of its dtype unless given; raises as :func:`zeros`.

    Example:
        >>> full(2, 1.5).numpy()
        array([1.5, 1.5], dtype=float32)
    """
    if dtype is None and isinstance(value, np.generic):
        dtype = value.dtype
    options.update(requires_grad=requires_grad, pinned=pinned, retain_grad=retain_grad)
    return import_warp().full(_shape(shape), _number(value), to_warp_dtype(dtype), _device(device), **options)


def zeros_like(
    src: Any,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> Any:
    """A new Warp array with the shape, dtype and device of ``src``, every element zero.

    ``src`` is a Warp array or, as for all functions here, what :func:`view_of` takes.

    Example:
        >>> zeros_like(np.ones(2)).numpy()
        array([0., 0.])

    Raises:
        KernelTypeError: ``src`` is no array of a dtype that kernels take.
    """
    return import_warp().zeros_like(_warp_alias(src), _device_of(device), requires_grad, pinned, retain_grad)


def ones_like(
    src: Any,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> Any:
    """As :func:`zeros_like`, every element one.

    Example:
        >>> ones_like(np.zeros(2)).numpy()
        array([1., 1.])
    """
    return import_warp().ones_like(_warp_alias(src), _device_of(device), requires_grad, pinned, retain_grad)


def empty_like(
    src: Any,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> Any:
    """As :func:`zeros_like`, elements without a value yet.

    Example:
        >>> empty_like(np.zeros((2, 3))).shape
        (2, 3)
    """
    return import_warp().empty_like(_warp_alias(src), _device_of(device), requires_grad, pinned, retain_grad)


def full_like(
    src: Any,
    value: Any,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> Any:
    """As :func:`zeros_like`, every element ``value``.

    Example:
        >>> full_like(np.zeros(2), 7).numpy()
        array([7., 7.])
    """
    return import_warp().full_like(
        _warp_alias(src), _number(value), _device_of(device), requires_grad, pinned, retain_grad
    )


def clone(
    src: Any,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> Any:
    """A new dense Warp array with the elements of ``src``; raises as :func:`zeros_like`.

    Example:
        >>> clone(np.arange(6.0)[::2]).numpy()
        array([0., 2., 4.])
    """
    return import_warp().clone(_warp_alias(src), _device_of(device), requires_grad, pinned, retain_grad)


def from_numpy(
    arr: Any,
    dtype: Any = None,
    shape: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    retain_grad: bool = False,
) -> Any:
    """A new Warp array with the elements of a NumPy array.

    As in Warp, an array of two or three dimensions becomes one of vectors or matrices unless ``dtype`` is given;
    ``tk.array(arr)`` keeps its shape.

    Example:
        >>> from_numpy(np.eye(2), dtype=float).numpy()
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    if dtype is None and np.ndim(arr) not in (2, 3):
        dtype = find_dtype(arr.dtype)  # Warp's own inference does not know ml_dtypes' bfloat16
    return import_warp().from_numpy(arr, to_warp_dtype(dtype), shape, _device(device), requires_grad, retain_grad)


def from_torch(
    t: Any,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: Any = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> Any:
    """A Warp array on the memory of a PyTorch tensor, with Warp's arguments."""
    return import_warp().from_torch(t, to_warp_dtype(dtype), requires_grad, grad, return_ctype, retain_grad)


def _construct(data: Any = None, *, dtype: Any = Any, ndim: int | None = None, **options: Any) -> Any:
    """What ``tk.array(...)`` does when it is given data, a shape or a pointer.

    Raises:
        KernelTypeError: ``data`` is a number, or is on a GPU with another dtype than the one asked for.
        KernelValueError: the array has not ``ndim`` dimensions, or none.
    """
    if isinstance(data, (bool, int, float, complex, np.generic)):
        raise KernelTypeError(f"an array is made from a list or an array, not from a number; write tk.array([{data}])")
    options["device"] = _device(options.get("device"))
    options["shape"] = _shape(options.get("shape")) if options.get("shape") is not None else None
    if data is not None and not isinstance(data, (list, tuple, np.ndarray)):
        data, dtype = _foreign_data(data, dtype)
    result = import_warp().array(data, dtype=to_warp_dtype(dtype), **options)
    if ndim is not None and result.ndim != ndim:
        raise KernelValueError(
            f"the array has {counted(result.ndim, 'dimension')}, shape {tuple(result.shape)}, not {ndim}"
        )
    return result


set_construct_hook(_construct)


def _foreign_data(data: Any, dtype: Any) -> tuple[Any, Any]:
    """Data and dtype that Warp reads correctly: it takes another array's bfloat16 for uint16."""
    try:
        view = view_of(data)
    except TilekitError:
        return data, dtype  # vectors, structs, sequences: Warp's own affair
    wanted = find_dtype(dtype)
    if view.device != "cpu":
        if wanted is not None and wanted is not view.dtype:
            raise KernelTypeError(f"data on {view.device} has dtype {view.dtype}, not {wanted}; convert it there first")
        return _warp_alias(data), view.dtype
    host = _host_alias(view)
    if view.dtype is not bfloat16:
        return host, dtype
    if dtype is Any or wanted is bfloat16:
        return host, bfloat16
    return (host.astype(np.uint32) << 16).view(np.float32), dtype


def _device(given: Any) -> Any:
    """A device as Warp takes it."""
    if given is None:
        given = config.device
    if given is None or type(given).__module__.partition(".")[0] == "warp":
        return given
    name = name_of(given)
    if name.startswith("cuda") and not import_warp().is_cuda_available():
        from tilekit.runtime.cuda.driver import driver

        driver()  # says that there is none; else Warp says what it lacks
    return "cpu" if name == INTERPRET else name


def _device_of(given: Any) -> Any:
    """The same, where None stands for the device of another array."""
    return None if given is None else _device(given)


class _Memory:
    """What NumPy needs to see a view; it becomes the array's base and so keeps the owner alive."""

    def __init__(self, view: ArrayView) -> None:
        self.owner = view.owner
        place = {"data": (view.pointer, view.readonly), "shape": view.shape, "strides": view.strides}
        self.__array_interface__ = {**place, "typestr": _carrier(view).str, "version": 3}


def _host_alias(view: ArrayView) -> np.ndarray[Any, Any]:
    """A NumPy array on the view's memory; bfloat16 as the uint16 that Warp takes for it."""
    if not view.size:  # there may be no address
        return np.empty(view.shape, _carrier(view))
    return np.asarray(_Memory(view))


def _carrier(view: ArrayView) -> np.dtype[Any]:
    return np.dtype(np.uint16) if view.dtype is bfloat16 else view.dtype.numpy


def _warp_alias(src: Any) -> Any:
    """``src`` itself where it is Warp's, else a Warp array on its memory."""
    if type(src).__module__.partition(".")[0] == "warp":
        return src
    view = view_of(src)
    dtype = to_warp_dtype(view.dtype)
    if not view.size:
        return import_warp().empty(view.shape, dtype, view.device)
    owner = view.owner
    place = {"shape": view.shape, "strides": view.strides, "device": view.device}
    return import_warp().array(ptr=view.pointer, dtype=dtype, deleter=lambda *_: owner, **place)


def _shape(shape: Shape) -> Any:
    if shape is None:
        return None
    try:
        extents = [operator.index(extent) for extent in (shape if np.iterable(shape) else [shape])]
    except TypeError:
        raise KernelTypeError(f"a shape is an integer or a sequence of integers, not {shape!r}") from None
    if not extents:
        raise KernelValueError("an array without dimensions is not supported; use shape=1")
    if min(extents) < 0:
        raise KernelValueError(f"the shape {tuple(extents)} has a negative extent")
    return tuple(extents)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
