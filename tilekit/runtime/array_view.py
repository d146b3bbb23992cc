"""Arrays as a launch sees them, and questions about their memory that compilation and checks ask."""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from typing import Any

import numpy as np

from tilekit.codegen.target import ArrayClass
from tilekit.ir.types import DType, bfloat16

_ALIGNMENT = 16
_LARGE = 2**31
_MAX_OVERLAP_WORK = 100_000
_shares_memory: Any = np.shares_memory  # its stub allows only 0 and -1 for max_work

AlignmentClass = tuple[int, tuple[int, ...], bool, bool, bool]


class ArrayView:
    """An array of any library: where its elements lie. It keeps ``owner`` alive and copies nothing.

    Example:
        >>> from tilekit.ir.types import float32
        >>> view = ArrayView(4096, (2, 3), (12, 4), float32)
        >>> view, view.size
        (ArrayView(float32, shape=(2, 3), strides=(12, 4), device='cpu'), 6)
    """

    __slots__ = ("device", "dtype", "owner", "pointer", "readonly", "shape", "strides")

    def __init__(
        self,
        pointer: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: DType,
        device: str = "cpu",
        readonly: bool = False,
        owner: object = None,
    ) -> None:
        self.pointer = pointer
        """The address of the element with index zero; 0 only where there is no element."""
        self.shape = shape
        self.strides = strides
        """In bytes."""
        self.dtype = dtype
        self.device = device
        """``"cpu"`` or ``"cuda:N"``."""
        self.readonly = readonly
        self.owner = owner

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def place(self) -> tuple[Any, ...]:
        """What arrays with the same elements in the same order have in common."""
        return self.pointer, self.shape, self.strides, self.dtype, self.device

    def same_place(self, other: ArrayView) -> bool:
        """Whether the elements of another array are these, in the same order."""
        return self.place == other.place

    def __repr__(self) -> str:
        suffix = ", readonly" if self.readonly else ""
        place = f"shape={self.shape}, strides={self.strides}, device={self.device!r}"
        return f"ArrayView({self.dtype}, {place}{suffix})"


class StreamView(ArrayView):
    """The view of an array whose library said on which stream it was written last."""

    __slots__ = ("stream",)

    def __init__(self, view: ArrayView, stream: int) -> None:
        super().__init__(view.pointer, view.shape, view.strides, view.dtype, view.device, view.readonly, view.owner)
        self.stream = stream
        """The driver's handle of the stream."""


def byte_range(view: ArrayView) -> tuple[int, int]:
    """The first byte of the view and the one after its last; equal where it has no element."""
    low, high = _reach(view.shape, view.strides, view.dtype.bits >> 3)
    return view.pointer + low, view.pointer + high


@lru_cache(maxsize=4096)
def _reach(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The first byte and the one after the last, from the element with index zero."""
    if 0 in shape:
        return 0, 0
    steps = [stride * (extent - 1) for extent, stride in zip(shape, strides, strict=True)]
    return sum(step for step in steps if step < 0), itemsize + sum(step for step in steps if step > 0)


def overlaps(a: ArrayView, b: ArrayView) -> bool:
    """Whether the two views share a byte. Exact, except that True is the answer where deciding would take too long.

    Example:
        >>> from tilekit.ir.types import float32
        >>> left = ArrayView(4096, (4, 4), (32, 4), float32)
        >>> right = ArrayView(4112, (4, 4), (32, 4), float32)
        >>> overlaps(left, right), overlaps(left, left)
        (False, True)
    """
    a_low, a_high = byte_range(a)
    b_low, b_high = byte_range(b)
    if a_low == a_high or b_low == b_high or a_high <= b_low or b_high <= a_low:
        return False
    if a.pointer == b.pointer:
        return True
    try:
        return bool(_shares_memory(_addresses(a), _addresses(b), max_work=_MAX_OVERLAP_WORK))
    except Exception:  # numpy.exceptions.TooHardError, which older versions keep elsewhere
        return True


class _Addresses:
    """Lets NumPy reason about addresses; its elements are never read, so memory of a GPU will do."""

    def __init__(self, view: ArrayView) -> None:
        self.__array_interface__ = {
            "data": (view.pointer, True),
            "shape": view.shape,
            "strides": view.strides,
            "typestr": f"|V{view.dtype.bits // 8}",
            "version": 3,
        }


def _addresses(view: ArrayView) -> np.ndarray[Any, Any]:
    return np.asarray(_Addresses(view))


def self_overlapping(view: ArrayView) -> bool:
    """Whether two elements of the view share memory.

    Exact, except that True is the answer for some strides of three or more axes that interleave without nesting.

    Example:
        >>> from tilekit.ir.types import float32
        >>> self_overlapping(ArrayView(4096, (4, 4), (0, 4), float32))
        True
    """
    return _self_overlapping(view.shape, view.strides, view.dtype.bits // 8)


@lru_cache(maxsize=1024)
def _self_overlapping(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    if 0 in shape:
        return False
    axes = sorted((abs(stride), extent) for stride, extent in zip(strides, shape, strict=True) if extent > 1)
    if axes and axes[0][0] < itemsize:
        return True
    axes = _outer_axes_removed(_merged(axes), itemsize)
    if not axes:
        return False
    if len(axes) == 2 and all(stride % itemsize == 0 for stride, _ in axes):
        (inner, inner_extent), (outer, outer_extent) = axes
        common = math.gcd(inner, outer)
        return outer // common < inner_extent and inner // common < outer_extent
    return True


def _merged(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbouring axes that step through memory as one axis would, made one."""
    merged: list[tuple[int, int]] = []
    for stride, extent in axes:
        if merged and stride == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0], merged[-1][1] * extent)
        else:
            merged.append((stride, extent))
    return merged


def _outer_axes_removed(axes: list[tuple[int, int]], itemsize: int) -> list[tuple[int, int]]:
    """The axes without the outermost ones whose stride steps over everything inside them."""
    axes = list(axes)
    while axes:
        inside = itemsize + sum(stride * (extent - 1) for stride, extent in axes[:-1])
        if axes[-1][0] < inside:
            break
        axes.pop()
    return axes


def alignment_class(view: ArrayView) -> AlignmentClass:
    """What a kernel may assume of the view's layout: part of the key that a kernel is specialised on.

    Returns the axis whose stride is one element (the last such; -1 for none), the axes of stride zero, whether the base
    and all other strides are multiples of 16 bytes, whether the elements span more than 2**31 bytes, and whether the
    extent of that axis is a multiple of 16 bytes as well. The stride of an axis with fewer than two elements, or of an
    empty array, is never used, so it counts as whatever fits.

    Example:
        >>> from tilekit.ir.types import float32
        >>> alignment_class(ArrayView(4096, (8, 8), (32, 4), float32))
        (1, (), True, False, True)
    """
    return _alignment_classes(view.shape, view.strides, view.dtype.bits >> 3)[view.pointer % _ALIGNMENT == 0]


def array_class(found: AlignmentClass, ndim: int) -> ArrayClass:
    """What a kernel may assume of an array, from what was found of it."""
    unit, zeros, aligned, wide, whole = found
    return ArrayClass(unit, aligned, tuple(axis in zeros for axis in range(ndim)), wide, whole)


@lru_cache(maxsize=4096)
def _alignment_classes(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[AlignmentClass, AlignmentClass]:
    """The class for an unaligned and for an aligned base."""
    empty = 0 in shape
    used = [extent > 1 and not empty for extent in shape]
    unit = _unit_axis(strides, used, itemsize)
    zeros = tuple(axis for axis, stride in enumerate(strides) if stride == 0 and used[axis])
    rest = [stride for axis, stride in enumerate(strides) if axis != unit and used[axis]]
    low, high = _reach(shape, strides, itemsize)
    aligned = all(stride % _ALIGNMENT == 0 for stride in rest)
    large = high - low > _LARGE
    whole = aligned and unit >= 0 and (empty or shape[unit] * itemsize % _ALIGNMENT == 0)
    return (unit, zeros, empty, large, empty and whole), (unit, zeros, aligned, large, whole)


def _unit_axis(strides: tuple[int, ...], used: list[bool], itemsize: int) -> int:
    last = len(strides) - 1
    if last >= 0 and not used[last] and strides[last] == itemsize:
        return last  # so that an (n, 1) array is row-major like the (n, m) arrays of the same program
    for axis in range(last, -1, -1):
        if strides[axis] == itemsize and used[axis]:
            return axis
    return max((axis for axis in range(last + 1) if not used[axis]), default=-1)


def array_at(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """An array over memory: ``pointer`` is the address of the element with index zero, strides are in bytes."""
    stored = np.dtype(np.uint16) if dtype is bfloat16 else dtype.numpy
    if 0 in shape:
        return np.zeros(shape, stored)
    steps = [stride * (extent - 1) for stride, extent in zip(strides, shape, strict=True)]
    low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
    memory: Any = (ctypes.c_char * (high - low + stored.itemsize)).from_address(pointer + low)
    return np.ndarray(shape, stored, memory, -low, strides)
