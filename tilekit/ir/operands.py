"""From what a kernel passes to a builtin to the operands and attributes of an op."""

from __future__ import annotations

import difflib
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from tilekit.errors import KernelIndexError, KernelTypeError, KernelValueError, counted, operand as marked, shown
from tilekit.ir.context import Concrete, active
from tilekit.ir.core import Const, Value
from tilekit.ir.handles import Array, Scalar, Tile
from tilekit.ir.types import (
    ArrayType,
    DType,
    ScalarType,
    TileType,
    as_dtype,
    bfloat16,
    bool_,
    find_dtype,
    float32,
    int32,
    int64,
    outside,
    to_numpy_scalar,
)


class Index:
    """Annotation of an operand: one run-time or constant integer, or a tuple of them."""


class Tiles:
    """Annotation of an operand: a tuple of tiles and scalars."""


class Shape:
    """Annotation of an attribute: a compile-time int or tuple of ints, none negative."""


class DTypeLike:
    """Annotation of an attribute: anything that names a dtype."""


WEAK_INT = ScalarType(int32, weak=True)
WEAK_FLOAT = ScalarType(float32, weak=True)
BOOL = ScalarType(bool_)


class Kind(Enum):
    """What a parameter of a builtin is, read from its annotation."""

    OPERAND = "operand"
    INDEX = "index"
    TILES = "tiles"
    SHAPE = "shape"
    DTYPE = "dtype"
    ATTRIBUTE = "attribute"


_KINDS: Mapping[Any, Kind] = {
    Tile: Kind.OPERAND,
    Scalar: Kind.OPERAND,
    Array: Kind.OPERAND,
    Index: Kind.INDEX,
    Tiles: Kind.TILES,
    Shape: Kind.SHAPE,
    DTypeLike: Kind.DTYPE,
}


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def kind_of(annotation: Any) -> Kind:
    options = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    return next((_KINDS[option] for option in options if option in _KINDS), Kind.ATTRIBUTE)


def accepts(annotation: Any) -> tuple[type, ...]:
    """Which handle classes an operand's annotation names."""
    options = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    return tuple(option for option in options if option in (Tile, Scalar, Array))


def allows_none(annotation: Any) -> bool:
    return types.NoneType in typing.get_args(annotation)


def constant(value: Any) -> Const | None:
    """A Python, NumPy or Warp number as a constant; Python's are weak, the others have their dtype."""
    value = plain_number(value)
    if isinstance(value, bool | np.bool_):
        return Const(BOOL, bool(value))
    if isinstance(value, np.generic):
        found = find_dtype(type(value))
        if found is None:
            return None
        return Const(ScalarType(found), int(value) if found.is_integer else float(value))
    if isinstance(value, int):
        return Const(WEAK_INT, int(value))
    return Const(WEAK_FLOAT, float(value)) if isinstance(value, float) else None


def plain_number(value: Any) -> Any:
    """A number of one of Warp's scalar classes as NumPy's of that dtype; anything else unchanged."""
    if type(value).__module__.partition(".")[0] != "warp":
        return value
    found = find_dtype(type(value))
    return value if found is None or found is bfloat16 else to_numpy_scalar(value.value, found)


def known_number(value: Any) -> Any:
    """The number that a handle, a constant or a Python number is, or None where that is not known yet."""
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Scalar):
        value = value.datum
    if isinstance(value, Concrete):
        return value.data
    return value if isinstance(value, int | float | np.generic) else None


def operand_of(value: Any, what: str) -> Any:
    """The operand for a handle, a number, an array or None; ``what`` names it in errors."""
    if value is None:
        return None
    if isinstance(value, Tile):
        return value.read()
    if isinstance(value, Scalar | Array):
        return value.datum
    if isinstance(value, Value | Concrete | Const):
        return value
    found = constant(value)
    if found is not None:
        return found
    if isinstance(value, np.ndarray) and active() is None:
        return host_array(value)
    raise KernelTypeError(f"{what} must be a tile, a number or an array of this kernel, got {describe(value)}")


def host_array(value: np.ndarray[Any, Any]) -> Concrete:
    """A NumPy array given to a builtin outside any kernel."""
    return Concrete(ArrayType(as_dtype(value.dtype), value.ndim), value)


def describe(value: Any) -> str:
    """A value as errors name it."""
    if isinstance(value, Scalar):
        return with_article(value.dtype.name)
    if isinstance(value, Tile | Array):
        return with_article(str(value.type))
    if isinstance(value, np.generic):
        return f"{value} ({with_article(type(value).__name__)})"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a dict"
    if _is_host_array(value):
        return _host_array(value) + ("; pass it to the kernel as an argument instead" if _in_kernel() else "")
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if value is None or isinstance(value, DType):
        return f"the dtype {value!r}" if value is not None else "None"
    if isinstance(value, bool | int | float | str):
        return f"{shown(value)} ({with_article('string' if isinstance(value, str) else type(value).__name__)})"
    name = getattr(value, "__name__", None)
    if name is not None:
        return f"the {'class' if isinstance(value, type) else type(value).__name__.lower()} {name}"
    return f"an object of class {type(value).__name__}"


def describe_for_tile(value: Any) -> str:
    """What was given where a tile is wanted, and how to make one of an array."""
    found = describe(value)
    if _in_kernel() or not _is_host_array(value) or not 1 <= value.ndim <= 4:
        return found
    shape = value.shape[0] if value.ndim == 1 else tuple(value.shape)
    return f"{found}; load a tile of it with tk.tile_load(a, shape={shape})"


def describe_for_number(value: Any) -> str:
    """What was given where a number is wanted, and how to read the number of a tile that has one.

    Example:
        >>> from tilekit.builtins.construct import tile_ones
        >>> describe_for_number(tile_ones((1, 1))), describe_for_number("a")
        ('a tile<1x1xf32>; read its one element with [0, 0]', "'a' (a string)")
    """
    found = describe(value)
    return f"{found}; {one_element(value)}" if one_element(value) else found


def one_element(value: Any) -> str:
    """How the number of a tile of one element is read; empty for anything else."""
    if not isinstance(value, Tile) or value.size != 1 or value.ndim == 0:
        return ""
    return f"read its one element with [{', '.join('0' * value.ndim)}]"


def _in_kernel() -> bool:
    context = active()
    return context is not None and context.location() is not None


def _is_host_array(value: Any) -> bool:
    """Whether a value is an array of the host: NumPy's, or one that shows its memory as NumPy's do."""
    return not isinstance(value, np.generic) and hasattr(value, "__array_interface__")


def _host_array(value: Any) -> str:
    kind = "a NumPy array" if isinstance(value, np.ndarray) else with_article(type(value).__name__)
    return f"{kind} of shape {tuple(value.shape)}"


def with_article(name: str) -> str:
    """``an int32``, ``a tile<4xf32>``."""
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"


def misuse(name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """What is wrong with the arguments of a call that does not fit the signature."""
    names = list(signature.parameters)
    spelled = (n if p.default is p.empty else f"{n}={p.default!r}" for n, p in signature.parameters.items())
    unknown = [given for given in kwargs if given not in names]
    if unknown:
        close = difflib.get_close_matches(unknown[0], names, 1)
        text = f"{name}() has no parameter {unknown[0]!r}" + (f"; did you mean {close[0]!r}?" if close else "")
    elif len(args) > len(names):
        text = f"{name}() takes {counted(len(names), 'argument')}, got {len(args)}"
    else:
        try:
            signature.bind(*args, **kwargs)
            text = f"{name}() cannot take these arguments"
        except TypeError as error:
            text = f"{name}(): {error}"
    return f"{text}; its signature is {name}({', '.join(spelled)})"


def index_operand(value: Any, what: str) -> tuple[Any, ...]:
    """Integers, constant or run-time, as a tuple of operands."""
    items = value if isinstance(value, tuple | list) else (value,)
    found = []
    for item in items:
        is_number = isinstance(item, Scalar | Value | Concrete | Const) or constant(item) is not None
        operand = operand_of(item, what) if is_number else None
        if operand is None or not isinstance(operand.type, ScalarType) or not operand.type.dtype.is_integer:
            raise KernelTypeError(f"{what} must be an integer or a tuple of integers, got {describe_for_number(item)}")
        if isinstance(operand, Const):
            number = int(operand.value)
            if not int64.holds(number):
                raise KernelIndexError(f"{what} has {shown(number)}, which does not fit int64; no array is that long")
            operand = Const(ScalarType(int32 if int32.holds(number) else int64), number)
        found.append(operand)
    return tuple(found)


def shape_attribute(value: Any, what: str) -> tuple[int, ...]:
    """A compile-time shape as a tuple of ints."""
    items: Iterable[Any] = value if isinstance(value, tuple | list) else (value,)
    shape = []
    for item in items:
        if isinstance(item, Scalar | bool):
            found = f"a run-time {item.dtype.name}" if isinstance(item, Scalar) else describe(item)
            raise KernelTypeError(f"{what} must be a compile-time constant, got {found}")
        try:
            shape.append(operator.index(item))
        except TypeError:
            raise KernelTypeError(f"{what} must be an int or a tuple of ints, got {describe(item)}") from None
    for extent in shape:
        if extent < 0:
            raise KernelValueError(f"{what} must not be negative, got {shown(tuple(shape))}")
        if not int32.holds(extent):
            raise KernelValueError(f"{what} is too large: {outside(extent, int32)}")
    return tuple(shape)


def common_dtype(named: Mapping[str, Any], where: str) -> ScalarType:
    """The dtype that operands must share: that of the strong ones, which must agree; else the wider weak one.

    Raises:
        KernelTypeError: two strong dtypes differ, or a float literal meets integers.
    """
    strong = {n: t for n, t in named.items() if not is_weak(t)}
    if not strong:
        usual = WEAK_FLOAT if any(t.dtype.is_float for t in named.values()) else WEAK_INT
        decided = [t for t in named.values() if t.dtype.is_float == usual.dtype.is_float and t != usual]
        return max(decided, key=lambda t: t.dtype.bits, default=usual)
    first_name, first = next(iter(strong.items()))
    for name, type in strong.items():
        if type.dtype != first.dtype:
            narrow = (first_name, first, type)
            if _rank(type.dtype) < _rank(first.dtype):
                narrow = (name, type, first)
            raise KernelTypeError(
                f"{where} needs one dtype: {marked(first_name)} is {first.dtype.name} but {marked(name)} is "
                f"{type.dtype.name}; cast one of them, as in {_cast_text(*narrow)}"
            )
    if not first.dtype.is_float and any(t.dtype.is_float for t in named.values()):
        literal = next(n for n, t in named.items() if t.dtype.is_float)
        raise KernelTypeError(
            f"{where} needs one dtype: {marked(first_name)} is {first.dtype.name} but {marked(literal)} is a float; "
            f"cast one of them, as in {_cast_text(first_name, first, ScalarType(float32))}"
        )
    return ScalarType(first.dtype)


def is_weak(type: Any) -> bool:
    """Whether a type is that of a number which comes from literals alone."""
    return isinstance(type, ScalarType) and type.weak


def usual(type: Any) -> Any:
    """The type of a number that meets no dtype: where it comes from literals, a float32 or an int32."""
    if is_weak(type):
        return ScalarType(float32 if type.dtype.is_float else int32)
    return type


def _rank(dtype: DType) -> tuple[bool, int]:
    """How much a dtype holds: floats more than integers, then by size."""
    return dtype.is_float, dtype.bits


def _cast_text(name: str, given: Any, wanted: Any) -> str:
    dtype = f"tk.{wanted.dtype.name}"
    return f"tk.tile_astype({marked(name)}, {dtype})" if isinstance(given, TileType) else f"{dtype}({marked(name)})"


def adapted(given: Const, wanted: ScalarType, where: str = "", partners: Mapping[str, Any] | None = None) -> Const:
    """A constant as a number of a type; it stays a literal where the type is one of literals.

    ``partners`` are the types of the operands that it meets, by name.

    Raises:
        KernelValueError: it does not fit.
    """
    found = convert_constant(given, wanted.dtype, where, lambda: _instead(int(given.value), wanted, partners or {}))
    if not wanted.weak:
        return found
    return given if wanted in (WEAK_INT, WEAK_FLOAT) and given.type == wanted else Const(wanted, found.value)


def _instead(number: int, wanted: ScalarType, partners: Mapping[str, Any]) -> str:
    """What to write instead of an integer that does not fit."""
    dtype = wanted.dtype
    if wanted.weak:
        return f"; write tk.int64({number})" if int64.holds(number) else ""
    ways = []
    if dtype.bits < 64 and int64.holds(number):
        typed = [item for item in partners.items() if not is_weak(item[1])]
        ways += [f"cast {marked(name)}, as in {_cast_text(name, type, ScalarType(int64))}" for name, type in typed]
    if dtype.kind == "i" and 0 <= number < 1 << dtype.bits:
        ways.append(f"write tk.{dtype.name}({number}), which is {to_numpy_scalar(number, dtype)}")
    return f"; {', or '.join(ways)}" if ways else ""


def convert_constant(given: Const, dtype: DType, where: str, instead: Callable[[], str] = str) -> Const:
    """A constant in another dtype, exactly where that is an integer; ``instead`` tells what to write otherwise.

    Raises:
        KernelValueError: an integer that the dtype cannot hold.
    """
    value = given.value
    if dtype.is_integer:
        if isinstance(value, float) and not value.is_integer():
            raise KernelValueError(
                f"{where}: the constant {value} is not an integer" if where else f"{value} is not an integer"
            )
        if not dtype.holds(int(value)):
            lead = f"{where}: " if where else ""
            raise KernelValueError(f"{lead}the constant {shown(value)} does not fit {dtype.name}{instead()}")
        return Const(ScalarType(dtype), int(value))
    if dtype.kind == "b":
        return Const(BOOL, bool(value))
    try:
        return Const(ScalarType(dtype), float(to_numpy_scalar(value, dtype)))
    except KernelValueError as error:
        raise KernelValueError(f"{where}: the constant {error.message}" if where else error.message) from None
