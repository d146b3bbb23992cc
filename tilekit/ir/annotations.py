"""What the annotations of a kernel's or function's parameters mean.

Annotations are tilekit's own, Warp's, Python's number types, or dtypes of NumPy and PyTorch. Nothing here imports Warp
or PyTorch: their objects are recognised by the module of their type.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tilekit.errors import KernelNotImplementedError, KernelTypeError, KernelValueError, counted
from tilekit.ir.types import DType, as_dtype, find_dtype

MAX_NDIM = 4
LATER = "comes in a later release; arrays hold scalars for now: pass the components along an axis of their own"

T = TypeVar("T")


@dataclass(frozen=True)
class ArrayAnnotation:
    """A parameter that takes an array; ``dtype`` is a DType or ``Any``, ``ndim`` is None where any rank will do.

    Example:
        >>> array2d(dtype=float) == array(dtype=float, ndim=2) == array2d[float]
        True
        >>> array2d[float], array[Any]
        (array2d[float32], array[Any])
    """

    dtype: Any
    ndim: int | None = 1

    @property
    def is_generic(self) -> bool:
        """Whether the argument decides the dtype or the rank."""
        return self.dtype is Any or self.ndim is None

    def accepts(self, dtype: DType, ndim: int) -> bool:
        """Whether an array of this dtype and rank fits."""
        return (self.dtype is Any or self.dtype is dtype) and (self.ndim is None or self.ndim == ndim)

    def __repr__(self) -> str:
        dtype = "Any" if self.dtype is Any else repr(self.dtype)
        if self.ndim is None:
            return f"array[{dtype}, Any]"
        return f"array[{dtype}]" if self.ndim == 1 else f"array{self.ndim}d[{dtype}]"

    def __or__(self, other: object) -> ArrayAnnotation:
        """``annotation | None``: every array may be None at launch, so this says nothing new."""
        return self if other is None or other is type(None) else NotImplemented

    __ror__ = __or__


@dataclass(frozen=True)
class TileAnnotation:
    """A parameter of a function that takes a tile; ``Any`` and None leave its dtype and shape open."""

    dtype: Any = Any
    shape: tuple[int, ...] | None = None

    def accepts(self, dtype: DType, shape: tuple[int, ...]) -> bool:
        """Whether a tile of this dtype and shape fits."""
        return (self.dtype is Any or self.dtype is dtype) and self.shape in (None, shape)

    def __repr__(self) -> str:
        parts = ["Any" if self.dtype is Any else repr(self.dtype), *map(str, self.shape or ())]
        return f"tile[{', '.join(parts)}]"


Annotation = Any
"""ArrayAnnotation, TileAnnotation, DType or ``typing.Any``."""


def array_annotation(dtype: Any = Any, ndim: int | None = 1) -> ArrayAnnotation:
    """The annotation of an array of ``dtype`` with ``ndim`` dimensions.

    Raises:
        KernelTypeError: ``dtype`` is no dtype.
        KernelValueError: ``ndim`` is not 1 to 4.
        KernelNotImplementedError: ``dtype`` is a vector, matrix or struct.
    """
    if ndim is not None and (isinstance(ndim, bool) or not isinstance(ndim, int) or not 1 <= ndim <= MAX_NDIM):
        raise KernelValueError(f"an array has 1 to {MAX_NDIM} dimensions, not {ndim!r}")
    return ArrayAnnotation(element_dtype(dtype), ndim)


def tile_annotation(parameters: Any) -> TileAnnotation:
    """What ``tile[dtype]``, ``tile[dtype, M, N]`` and ``tile[dtype, (M, N)]`` mean.

    Example:
        >>> tile_annotation((float, 4, 8))
        tile[float32, 4, 8]

    Raises:
        KernelTypeError: no dtype, or an extent that is no positive integer.
    """
    dtype, *extents = parameters if isinstance(parameters, tuple) and parameters else (parameters,)
    if len(extents) == 1 and isinstance(extents[0], tuple):
        extents = list(extents[0])
    extents = [_unwrap_literal(extent) for extent in extents]
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, int) or extent <= 0:
            raise KernelTypeError(f"the extents of a tile annotation are positive integers, not {extent!r}")
    return TileAnnotation(element_dtype(dtype), tuple(extents) or None)


def element_dtype(given: Any) -> Any:
    """``Any``, or the DType that ``given`` means; refuses what is no scalar dtype with the reason."""
    if given is Any:
        return Any
    found = find_dtype(given)
    if found is not None:
        return found
    if isinstance(given, TypeVar):
        raise KernelNotImplementedError(f"the type variable {given} is not supported; write Any")
    if compound_name(given):
        raise KernelNotImplementedError(f"{compound_name(given)} elements: this type {LATER}")
    return as_dtype(given)


def compound_name(given: Any) -> str | None:
    """The name of Warp's vector, matrix, quaternion, transform or struct type, or None for anything else."""
    if isinstance(given, type) and hasattr(given, "_wp_scalar_type_"):
        return given.__name__
    if root_package(given) == "warp" and type(given).__name__ == "Struct":
        return f"struct {getattr(getattr(given, 'cls', None), '__name__', '')}".rstrip()
    return None


def root_package(annotation: Any) -> str:
    """The top-level package that the type of ``annotation`` is from."""
    return (getattr(type(annotation), "__module__", "") or "").partition(".")[0]


def _unwrap_literal(value: Any) -> Any:
    return typing.get_args(value)[0] if typing.get_origin(value) is typing.Literal else value


construct_hook: Callable[..., Any] | None = None
"""Builds an array from data, a shape or a pointer; the runtime sets it, because only it touches Warp."""


def set_construct_hook(hook: Callable[..., Any]) -> None:
    global construct_hook
    construct_hook = hook


class ArrayMeta(type):
    """Makes ``isinstance(x, array)`` true for Warp's arrays, which is what ``array(data)`` returns."""

    fixed_ndim: int | None

    def __instancecheck__(cls, instance: object) -> bool:
        names = [(base.__module__.partition(".")[0], base.__name__) for base in type(instance).__mro__]
        if ("warp", "array") not in names or getattr(instance, "device", None) is None:
            return False
        return cls.fixed_ndim is None or cls.fixed_ndim == getattr(instance, "ndim", None)


class _Array(metaclass=ArrayMeta):
    fixed_ndim: int | None = None

    if TYPE_CHECKING:  # what a parameter with this annotation offers inside a kernel
        shape: tuple[Any, ...]
        dtype: Any
        ndim: int

        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def numpy(self) -> Any: ...

    def __new__(
        cls,
        data: Any = None,
        dtype: Any = Any,
        shape: Any = None,
        strides: Any = None,
        ptr: int | None = None,
        capacity: int | None = None,
        device: Any = None,
        pinned: bool = False,
        copy: bool = True,
        deleter: Callable[[int, int], None] | None = None,
        ndim: int | None = None,
        grad: Any = None,
        requires_grad: bool = False,
        retain_grad: bool = False,
    ) -> Any:
        if ndim is not None and cls.fixed_ndim is not None and ndim != cls.fixed_ndim:
            raise KernelValueError(f"ndim={ndim} contradicts {cls.__name__}")
        ndim = cls.fixed_ndim if ndim is None else ndim
        options = {"strides": strides, "capacity": capacity, "device": device, "pinned": pinned, "deleter": deleter}
        options |= {"grad": grad, "requires_grad": requires_grad, "retain_grad": retain_grad}
        if data is None and shape is None and ptr is None:
            given = [name for name, value in options.items() if value is not None and value is not False]
            if given:
                raise KernelTypeError(f"{cls.__name__}({given[0]}=...) needs data, shape or ptr to make an array from")
            return array_annotation(dtype, 1 if ndim is None else ndim)
        if construct_hook is None:  # only where tilekit.ir is used without the runtime
            raise KernelTypeError("arrays with data are made by tilekit.array")
        return construct_hook(data, dtype=dtype, shape=shape, ptr=ptr, ndim=ndim, copy=copy, **options)

    @classmethod
    def __class_getitem__(cls, parameters: Any) -> Any:
        if not isinstance(parameters, tuple):
            return array_annotation(parameters, cls.fixed_ndim or 1)
        if cls.fixed_ndim is not None or len(parameters) != 2:
            raise KernelTypeError(f"{cls.__name__}[...] takes one dtype, got {counted(len(parameters), 'parameter')}")
        ndim = _unwrap_literal(parameters[1])
        return array_annotation(parameters[0], None if ndim is Any else ndim)


class array(_Array, Generic[T]):  # Generic only for type checkers
    """An annotation of a kernel's array parameter, or, called with data, a shape or a pointer, a new Warp array.

    ``array(dtype=float, ndim=2)`` and ``array[float]`` are annotations and need no Warp. ``array(data)`` copies a list
    or an array into a ``warp.array``, with Warp's arguments and defaults; dtypes may be tilekit's, Warp's, NumPy's or
    PyTorch's.

    Example:
        >>> array(dtype=float, ndim=2), array[float]
        (array2d[float32], array[float32])

    Raises:
        KernelTypeError: arguments of a constructor without data, shape or pointer; a wrong dtype.
        KernelValueError: a rank that the data does not have, or that is not 1 to 4.
    """


class array1d(_Array, Generic[T]):
    """:class:`array` of one dimension."""

    fixed_ndim = 1


class array2d(_Array, Generic[T]):
    """:class:`array` of two dimensions."""

    fixed_ndim = 2


class array3d(_Array, Generic[T]):
    """:class:`array` of three dimensions."""

    fixed_ndim = 3


class array4d(_Array, Generic[T]):
    """:class:`array` of four dimensions."""

    fixed_ndim = 4
