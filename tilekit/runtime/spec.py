"""``tk.spec``, and what ``tk.compile`` is told of a kernel's arguments: types, and what may be assumed of arrays."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilekit.codegen.target import ArrayClass
from tilekit.errors import KernelTypeError, KernelValueError, TilekitError, shown
from tilekit.frontend.kernel import Kernel
from tilekit.ir.annotations import MAX_NDIM, ArrayAnnotation
from tilekit.ir.attributes import suggestion
from tilekit.ir.operands import describe
from tilekit.ir.types import ArrayType, DType, ScalarType, as_dtype, find_dtype, int64, outside
from tilekit.runtime.arguments import misfit, scalar_value, with_defaults
from tilekit.runtime.array_view import ArrayView, alignment_class, array_class
from tilekit.runtime.arrays import view_of

__all__ = ["spec"]

Type = ArrayType | ScalarType | None
VECTOR = 16
"""Bytes; what arrays are aligned to so that vectors of elements can be loaded."""


@dataclass(frozen=True)
class Spec:
    """An array that is not there: what a kernel is compiled for. :func:`spec` makes one."""

    dtype: DType
    ndim: int
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    """In bytes."""
    align: int = VECTOR

    def view(self) -> ArrayView:
        """An array like it. Where no shape is given, extents are of 16 bytes; where no strides are, rows begin at the
        alignment."""
        shape = self.shape or (max(VECTOR // self.dtype.itemsize, 2),) * self.ndim
        strides = self.strides
        if strides is None:
            widths = [self.dtype.itemsize]
            for extent in shape[:0:-1]:
                widths.append(widths[-1] * extent if self.shape else self.align)
            strides = tuple(reversed(widths))
        return ArrayView(self.align, shape, strides, self.dtype)


def spec(dtype: Any, ndim: int | None = None, shape: Any = None, strides: Any = None, align: int = VECTOR) -> Spec:
    """Describe an array to ``tk.compile`` without having one.

    Args:
        dtype: Of its elements: tilekit's, Warp's, NumPy's or PyTorch's.
        ndim: Dimensions, 1 to 4; may be left out where ``shape`` or ``strides`` is given.
        shape: Extents. Only what follows from them is used: where rows begin, whether these are whole multiples of 16
            bytes, as without it, and whether the elements span more than 2**31 bytes.
        strides: In bytes, as in Warp and NumPy; without them the array is row-major, without gaps if ``shape`` is
            given.
        align: The base address is a multiple of as many bytes, a power of two; without ``shape`` and ``strides`` the
            rows begin at such multiples as well.

    Returns:
        What ``tk.compile`` and ``tk.explain`` take in place of an array.

    Raises:
        KernelTypeError: ``dtype`` is no dtype.
        KernelValueError: ``ndim``, ``shape``, ``strides`` and ``align`` do not fit each other, or the dtype.

    Example:
        >>> import tilekit as tk
        >>> tk.spec(tk.float16, 2)
        Spec(dtype=float16, ndim=2, shape=None, strides=None, align=16)
        >>> tk.spec(float, shape=(3, 5)).ndim
        2
    """
    found = as_dtype(dtype)
    extents, steps = _numbers("shape", shape), _numbers("strides", strides)
    ranks = {len(given) for given in (extents, steps) if given is not None} | ({ndim} if ndim is not None else set())
    if len(ranks) != 1:
        what = "needs ndim, shape or strides" if not ranks else "has an ndim, shape and strides of different length"
        raise KernelValueError(f"spec() {what}: ndim={ndim}, shape={shape}, strides={strides}")
    (rank,) = ranks
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= MAX_NDIM:
        raise KernelValueError(f"an array has 1 to {MAX_NDIM} dimensions, not {shown(rank)}")
    if isinstance(align, bool) or not isinstance(align, int) or align < found.itemsize or align & (align - 1):
        raise KernelValueError(f"align must be a power of two, at least the {found.itemsize} bytes of {found.name}")
    if extents is not None and min(extents) < 0:
        raise KernelValueError(f"extents must not be negative, got shape={extents}")
    if steps is not None and any(step % found.itemsize for step in steps):
        raise KernelValueError(
            f"strides are in bytes, multiples of the {found.itemsize} of {found.name}, got strides={steps}"
        )
    return Spec(found, rank, extents, steps, align)


def _numbers(name: str, given: Any) -> tuple[int, ...] | None:
    if given is None:
        return None
    try:
        found = tuple(map(operator.index, given if isinstance(given, Sequence) else (given,)))
    except TypeError:
        raise KernelTypeError(f"spec() takes {name} as integers, got {given!r}") from None
    if beyond := [number for number in found if not int64.holds(number)]:
        raise KernelValueError(f"spec(): {name}: {outside(beyond[0], int64)}")
    return found


@dataclass
class Stated:
    """What is known of a kernel's arguments."""

    types: dict[str, Type] = field(default_factory=dict)
    views: dict[str, ArrayView] = field(default_factory=dict)
    """The arrays that were given or described, by parameter."""


def state(kernel: Kernel, args: Sequence[Any] | None, arrays: Mapping[str, Any] | None) -> Stated:
    """What ``args``, one for each parameter, and ``arrays``, for some by name, say of a kernel's parameters.

    Raises:
        KernelTypeError: their number, a name, or what stands for a parameter does not fit.
    """
    names = list(kernel.parameters)
    if isinstance(args, Sequence) and not isinstance(args, str):
        args = with_defaults(kernel, args)
    if args is not None and (isinstance(args, str) or not isinstance(args, Sequence) or len(args) != len(names)):
        count = f"{len(args)}" if isinstance(args, Sequence) else describe(args)
        raise KernelTypeError(
            f"args must have one entry for each of the {len(names)} parameters of kernel {kernel.key!r} "
            f"({', '.join(names)}), got {count}"
        )
    if arrays is not None and not isinstance(arrays, Mapping):
        raise KernelTypeError(
            f"arrays must be a dict of what stands for parameters of kernel {kernel.key!r} ({', '.join(names)}) by "
            f"their names, got {describe(arrays)}; a list with an entry for each of them is args"
        )
    given = {**dict(zip(names, args or (), strict=False)), **(arrays or {})}
    for name in given:
        if name not in names:
            raise KernelTypeError(
                f"kernel {kernel.key!r} has no parameter {name!r}{suggestion(name, names)}; its parameters are "
                f"{', '.join(names)}"
            )
    stated = Stated()
    for name, value in given.items():
        try:
            stated.types[name] = _type(name, kernel.parameters[name], value, stated)
        except TilekitError as error:
            raise type(error)(f"argument {name!r} of kernel {kernel.key!r}: {error.message}") from None
    return stated


def _type(name: str, annotation: Any, value: Any, stated: Stated) -> Type:
    """The type that an argument stands for."""
    expects_array = isinstance(annotation, ArrayAnnotation)
    if value is None and not isinstance(annotation, DType):
        return None
    if isinstance(value, ArrayAnnotation):
        if value.is_generic:
            raise KernelTypeError(f"{value} leaves dtype or rank open")
        if not expects_array and annotation is not Any:
            raise KernelTypeError(f"expects {annotation.name}, got {value}")
        if expects_array and not annotation.accepts(value.dtype, value.ndim or 1):
            raise KernelTypeError(f"expects {annotation}, got {value}")
        return ArrayType(value.dtype, value.ndim or 1)
    if not isinstance(value, Spec) and (found := _number(annotation, value)) is not None:
        if expects_array:
            raise KernelTypeError(f"expects {annotation}, got {shown(value)}; give an array, or tk.spec(dtype, ndim)")
        return ScalarType(found)
    if isinstance(annotation, DType):
        raise KernelTypeError(f"expects {annotation.name}, got {'None' if value is None else 'an array'}")
    view = value.view() if isinstance(value, Spec) else view_of(value)
    if expects_array and not annotation.accepts(view.dtype, view.ndim):
        raise misfit(annotation, view)
    stated.views[name] = view
    return ArrayType(view.dtype, view.ndim)


def _number(annotation: Any, value: Any) -> DType | None:
    """The dtype of a parameter for which a number or a dtype is given; None where it is neither."""
    stated = annotation if isinstance(annotation, DType) else None
    number = find_dtype(type(value))
    if number is not None:
        if stated is not None:
            scalar_value(value, stated)
        return stated or number
    if not isinstance(value, type | np.dtype | DType) and type(value).__name__ != "dtype":
        return None
    found = as_dtype(value)
    if stated is not None and found is not stated:
        raise KernelTypeError(f"expects {stated.name}, got the dtype {found.name}")
    return found


def class_of(view: ArrayView) -> ArrayClass:
    """What a kernel that is compiled for an array assumes of it."""
    return array_class(alignment_class(view), view.ndim)


def dense_class(ndim: int) -> ArrayClass:
    """The class of a row-major array that begins at a multiple of 16 bytes, with rows of as many bytes."""
    return ArrayClass(ndim - 1, True, (False,) * ndim, False, True)


def assumption(name: str, type: ArrayType, known: ArrayClass, given: bool) -> str:
    """What code assumes of an array, in words."""
    order = f"elements side by side along axis {known.unit_axis}"
    if known.unit_axis == type.ndim - 1:
        order = "row-major"
    elif known.unit_axis < 0:
        order = "elements apart on every axis"
    zero = [str(axis) for axis, is_zero in enumerate(known.zero) if is_zero]
    facts = [
        order,
        "base and other strides multiples of 16 bytes" if known.aligned else "any alignment",
        *([f"whole multiples along axis {known.unit_axis}"] if known.whole else []),
        *([f"stride 0 on axis {', '.join(zero)}"] if zero else []),
        "more than 2 GiB" if known.wide else "at most 2 GiB",
    ]
    return f"{name}: {type}, {', '.join(facts)} ({'given' if given else 'assumed'})"
