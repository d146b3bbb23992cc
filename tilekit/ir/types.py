"""Element types and the types of IR values. Types are logical: nothing here says where or how a value is stored."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError, KernelValueError, shown


class DType:
    """An element type. Calling it converts: inside a kernel a traced value, outside a number to a NumPy scalar.

    Equal to the dtypes of NumPy, Warp, PyTorch and ml_dtypes that mean the same.

    Example:
        >>> import numpy as np
        >>> float32 == np.float32, float32 == float, int32(7)
        (True, True, np.int32(7))
    """

    __slots__ = ("bits", "kind", "name")

    def __init__(self, name: str, kind: str, bits: int) -> None:
        self.name = name
        self.kind = kind
        """``"b"`` bool, ``"i"`` signed, ``"u"`` unsigned, ``"f"`` floating."""
        self.bits = bits

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.bits // 8

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype that tilekit computes in; bfloat16 values are held in float32 arrays."""
        return np.dtype("float32" if self.name == "bfloat16" else self.name)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def limits(self) -> tuple[Any, Any]:
        """The least and the greatest number that it holds, infinities aside.

        Example:
            >>> int8.limits, bfloat16.limits
            ((-128, 127), (-3.3895313892515355e+38, 3.3895313892515355e+38))
        """
        if self.kind == "b":
            return 0, 1
        if self.is_integer:
            low = -(1 << self.bits - 1) if self.kind == "i" else 0
            return low, low + (1 << self.bits) - 1
        high = float(np.finfo(self.numpy).max) if self.name != "bfloat16" else (2 - 2**-7) * 2.0**127
        return -high, high

    def holds(self, number: int) -> bool:
        """Whether an integer is within the limits."""
        low, high = self.limits
        return bool(low <= number <= high)

    @property
    def short(self) -> str:
        """The short spelling used in printed types: ``f32``, ``i64``, ``bf16``, ``bool``."""
        if self.kind == "b":
            return "bool"
        return "bf16" if self.name == "bfloat16" else f"{self.kind}{self.bits}"

    @property
    def __name__(self) -> str:
        """As of Warp's dtypes, which are classes."""
        return self.name

    def __call__(self, value: Any = 0) -> Any:
        return convert_hook(value, self)

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(("tilekit.DType", self.name))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self.name == other.name
        found = find_dtype(other)
        return NotImplemented if found is None else found.name == self.name

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return dtype_named, (self.name,)


bool_ = DType("bool", "b", 8)
int8 = DType("int8", "i", 8)
int16 = DType("int16", "i", 16)
int32 = DType("int32", "i", 32)
int64 = DType("int64", "i", 64)
uint8 = DType("uint8", "u", 8)
uint16 = DType("uint16", "u", 16)
uint32 = DType("uint32", "u", 32)
uint64 = DType("uint64", "u", 64)
float16 = DType("float16", "f", 16)
bfloat16 = DType("bfloat16", "f", 16)
float32 = DType("float32", "f", 32)
float64 = DType("float64", "f", 64)

DTYPES = {
    d.name: d
    for d in (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64)
}
_PYTHON = {bool: bool_, int: int32, float: float32}
_found: dict[Any, DType | None] = {}


def dtype_named(name: str) -> DType:
    return DTYPES[name]


def find_dtype(given: Any) -> DType | None:
    """The dtype that Python's, NumPy's, Warp's, torch's or ml_dtypes' own type means, or None."""
    if isinstance(given, DType):
        return given
    try:
        return _found[given]
    except KeyError:
        found = _found[given] = _find(given)
        return found
    except TypeError:  # unhashable, so no dtype
        return None


def _find(given: Any) -> DType | None:
    if isinstance(given, type) and given in _PYTHON:
        return _PYTHON[given]
    module = getattr(given, "__module__", None) or type(given).__module__
    root = module.split(".")[0]
    if isinstance(given, np.dtype):
        return DTYPES.get(given.name) if given.isnative else None
    if isinstance(given, type) and issubclass(given, np.generic):
        return DTYPES.get(np.dtype(given).name)
    if root in ("warp", "ml_dtypes") and isinstance(given, type):
        return DTYPES.get({"bool_": "bool"}.get(given.__name__, given.__name__))
    if root == "torch" and type(given).__name__ == "dtype":
        return DTYPES.get(str(given).removeprefix("torch."))
    return None


def as_dtype(given: Any) -> DType:
    """The dtype that ``given`` means.

    Raises:
        KernelTypeError: ``given`` is no scalar dtype that tilekit knows.
    """
    found = find_dtype(given)
    if found is None:
        if isinstance(given, str) and given in DTYPES:
            raise KernelTypeError(f"the string {given!r} is not a dtype; write tk.{given}")
        shown = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
        raise KernelTypeError(f"{shown} is not a dtype; the dtypes are {', '.join(DTYPES)}")
    return found


def to_numpy_scalar(value: Any, dtype: DType) -> Any:
    """``value`` rounded, wrapped or truncated to ``dtype``, as a NumPy scalar.

    Raises:
        KernelValueError: an integer that no float holds.
    """
    if isinstance(value, int) and not isinstance(value, bool) and dtype.is_integer:
        low = value & ((1 << dtype.bits) - 1)
        return dtype.numpy.type(low - (1 << dtype.bits) if dtype.kind == "i" and low >> (dtype.bits - 1) else low)
    try:
        return convert_elements(np.asarray(value), dtype)[()]
    except OverflowError:  # beyond float64, which rounds what is beyond the dtype to infinity
        raise KernelValueError(outside(value, dtype)) from None


def outside(value: Any, dtype: DType) -> str:
    """What is wrong with a number that a dtype does not hold.

    Example:
        >>> outside(300, uint8), outside(-(10**400), float16)
        ('300 does not fit uint8, which holds 0 to 255', '~-1.000e+400 does not fit float16, which holds up to 65504.0')
    """
    low, high = dtype.limits
    held = f"up to {high}" if dtype.is_float else f"{low} to {high}"
    return f"{shown(value)} does not fit {dtype.name}, which holds {held}"


def convert_elements(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Elements in another dtype, by the same rules on every device: floats round to nearest once; float to integer
    truncates and saturates, NaN gives 0; integers wrap; anything to bool is ``!= 0``."""
    with np.errstate(all="ignore"):
        if dtype is bfloat16:
            return round_bfloat16(_float32_to_odd(values))
        if dtype.is_integer and values.dtype.kind == "f":
            return _saturated(values, dtype)
        return values.astype(dtype.numpy, copy=False)


def _saturated(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    limits = np.iinfo(dtype.numpy)
    wide = values.astype(np.float64)
    high, low = wide >= float(limits.max) + (dtype.bits < 64), wide <= float(limits.min)
    inside = np.where(high | low | np.isnan(wide), 0.0, wide).astype(dtype.numpy)
    return np.where(high, limits.max, np.where(low, limits.min, inside)).astype(dtype.numpy)


def _float32_to_odd(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Values in float32, inexact ones with an odd last bit, so that rounding again to fewer bits rounds only once."""
    if values.dtype == np.float32:
        return values
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        large = (values >= 2**53) | (values <= -(2**53)) if values.dtype.kind == "i" else values >= 2**53
        odd = ((values >> 11) | ((values & 0x7FF) != 0)) << 11
        values = np.where(large, odd, values)
    wide = values.astype(np.float64, copy=False)
    near = wide.astype(np.float32)
    other = np.nextafter(near, np.where(wide > near, np.float32(np.inf), np.float32(-np.inf)))
    even = (near.view(np.uint32) & 1) == 0
    return np.where((near != wide) & even & ~np.isnan(wide), other, near)


convert_hook: Callable[[Any, DType], Any] = to_numpy_scalar
"""What ``dtype(value)`` does; the builtins replace it by one that also records a conversion inside a kernel."""


def set_convert_hook(hook: Callable[[Any, DType], Any]) -> None:
    global convert_hook
    convert_hook = hook


def round_bfloat16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Float32 values rounded to the nearest bfloat16, ties to even, still as float32.

    A NaN that a bfloat16 can be stays the same one, any other becomes the usual one.
    """
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    kept = np.where(bits & np.uint32(0xFFFF) == 0, bits, np.uint32(0x7FC00000))
    return np.where(np.isnan(values), kept, rounded).astype(np.uint32).view(np.float32).reshape(np.shape(values))


@dataclass(frozen=True)
class ScalarType:
    """A number. ``weak`` marks one that came from Python literals only and adopts the dtype of its partner."""

    dtype: DType
    weak: bool = False

    def __str__(self) -> str:
        return self.dtype.short


@dataclass(frozen=True)
class TileType:
    """A tile: elements of one dtype in a compile-time shape, numbered row by row."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"tile<{'x'.join(map(str, self.shape))}x{self.dtype.short}>"


@dataclass(frozen=True)
class ArrayType:
    """A strided array in memory; shape and strides are known at run time."""

    dtype: DType
    ndim: int

    def __str__(self) -> str:
        return f"array{self.ndim}d<{self.dtype.short}>"


Type = ScalarType | TileType | ArrayType
