"""``print``, ``printf`` and ``assert`` in kernels."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilekit.builtins.views import numbers
from tilekit.codegen.checks import require
from tilekit.errors import KernelAssertionError, KernelTypeError, KernelValueError, counted
from tilekit.ir.builtin import builtin
from tilekit.ir.context import Concrete
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile
from tilekit.ir.interpret import Machine, from_memory
from tilekit.ir.operands import Tiles, describe
from tilekit.ir.types import DType, ScalarType, bfloat16, bool_
from tilekit.ir.views import ViewMap

__all__ = ["printf"]
GROUP = "Debugging"


@dataclass(frozen=True)
class Shown:
    """Where the value of an operand stands in a text, as ``print`` or, with a ``spec``, as ``format`` shows it."""

    index: int
    spec: str = ""
    as_text: bool = False
    """Whether ``spec`` is for the text of the value (``!s``, ``!r``) and not for the value."""

    def text(self, values: Sequence[Any]) -> str:
        value = values[self.index]
        return format(str(value) if self.as_text or not self.spec else value, self.spec)


@dataclass(frozen=True)
class Joined:
    """Text with values in it."""

    pieces: tuple[str | Shown, ...]

    def text(self, values: Sequence[Any]) -> str:
        return "".join(piece if isinstance(piece, str) else piece.text(values) for piece in self.pieces)


@dataclass(frozen=True)
class Text:
    """What an f-string with run-time values is in a kernel; ``print`` and ``assert`` show it."""

    template: Joined
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return self.template.text(tuple(map(_known, self.values)))

    def __repr__(self) -> str:
        return "a text with run-time values"


class _Unknown(str):
    """The text of a value while a kernel is traced, whatever its format."""

    def __format__(self, spec: str) -> str:
        return str(self)


def _known(value: Scalar | Tile) -> Any:
    """The data of a value in the interpreter; what it is while a kernel is traced."""
    datum = value.read() if isinstance(value, Tile) else value.datum
    return datum.data if isinstance(datum, Concrete) else _Unknown(repr(value))


@dataclass(frozen=True)
class Formatted:
    """A format in Python's spelling, and what it shows: constants, and None for each value in turn."""

    format: str
    constants: tuple[int | float | None, ...]

    def text(self, values: Sequence[Any]) -> str:
        found = iter(values)
        return self.format % tuple(next(found).item() if c is None else c for c in self.constants)


@builtin(side_effect=True, ordered=True)
def show(values: Tiles, template: Any, wanted: Scalar | None = None) -> None:
    """Write a template's text of the values to ``sys.stdout``, where ``wanted`` is true or left out."""


@show.result
def _show_result(values: tuple[Any, ...]) -> None:
    return None


@show.reference
def _show_reference(values: tuple[Any, ...], template: Any, wanted: Any, machine: Machine) -> None:
    if wanted is None or wanted:
        (machine.write or sys.stdout.write)(template.text(values))


@show.emit
def _show_emit(cx: Any, values: tuple[Any, ...], template: Any, wanted: str | None, types: Any) -> None:
    with cx.braces(f"if ({wanted})" if wanted is not None else ""):
        emit_report(cx, values, types["values"], template, "")


def emit_report(cx: Any, values: tuple[Any, ...], types: tuple[Any, ...], template: Any, what: str) -> int:
    """Hand the addresses of values to Python; returns the site."""
    shown = [_Seen(type.dtype, getattr(value, "map", None)) for value, type in zip(values, types, strict=True)]
    extents = tuple(seen.extent() for seen in shown)
    site: int = cx.site(what, lambda address: template.text(_read(address, shown)), extents)
    pointers = []
    for index, (value, type) in enumerate(zip(values, types, strict=True)):
        if isinstance(type, ScalarType):
            cx.line(f"const {cx.cpp(type)} shown{index} = {value};")
        pointers.append(f"&shown{index}" if isinstance(type, ScalarType) else value.pointer)
    cx.report(site, pointers, extents)
    return site


# From memory to NumPy.


@dataclass(frozen=True)
class _Seen:
    """What lies at one of the addresses that a kernel reports: a number, or a tile with a map of its elements."""

    dtype: DType
    map: ViewMap | None

    def extent(self) -> tuple[int, int]:
        """Where its bytes begin, from the address on, and how many they are."""
        if self.map is None:
            return 0, self.dtype.itemsize
        if not self.map.size:
            return 0, 0
        low, high = self.map.bounds()
        return low * self.dtype.itemsize, (high - low + 1) * self.dtype.itemsize

    def read(self, address: int) -> Any:
        stored = np.dtype(np.uint16) if self.dtype is bfloat16 else self.dtype.numpy
        if self.map is None:
            return from_memory(np.frombuffer(ctypes.string_at(address, stored.itemsize), stored), self.dtype)[0]
        start, size = self.extent()
        if not size:
            return np.zeros(self.map.shape, self.dtype.numpy)
        data = ctypes.string_at(address + start, size)
        return from_memory(np.frombuffer(data, stored), self.dtype)[numbers(self.map, -start // stored.itemsize)]


def _read(address: int, shown: Sequence[_Seen]) -> list[Any]:
    addresses = (ctypes.c_void_p * len(shown)).from_address(address)
    return [what.read(at or 0) for what, at in zip(shown, addresses, strict=True)]


# What kernels call.


def _pieces(value: Any, operands: list[Any]) -> list[str | Shown]:
    """A printed value as text and operands; tuples are taken apart."""
    if isinstance(value, Scalar | Tile):
        operands.append(value)
        return [Shown(len(operands) - 1)]
    if isinstance(value, Text):
        first = len(operands)
        operands += value.values
        return [p if isinstance(p, str) else replace(p, index=p.index + first) for p in value.template.pieces]
    if isinstance(value, _CONTAINERS):
        return _container(value, operands)
    if isinstance(value, Array):
        raise KernelTypeError(f"{describe(value)} cannot be printed as a whole; print elements or a tile of it")
    return [str(value)]


_CONTAINERS = (tuple, list, dict)


def _container(value: Any, operands: list[Any]) -> list[str | Shown]:
    """A tuple, list or dict, as Python shows it."""
    names = getattr(value, "_fields", None)
    keys = [f"{name}=" for name in names] if names else []
    first, last = ("[", "]") if isinstance(value, list) else (f"{type(value).__name__ if names else ''}(", ")")
    if isinstance(value, dict):
        first, last, keys = "{", "}", [f"{key!r}: " for key in value]
    items = [*value.values()] if isinstance(value, dict) else [*value]
    pieces: list[str | Shown] = [first]
    for index, item in enumerate(items):
        pieces += [", " if index else "", keys[index] if keys else ""]
        pieces += [repr(item)] if isinstance(item, str) else _pieces(item, operands)
    return [*pieces, "," if first == "(" and len(items) == 1 else "", last]


_CONVERT: dict[int, Callable[[Any], Any]] = {-1: lambda value: value, ord("s"): str, ord("r"): repr, ord("a"): ascii}


def make_text(*parts: Any) -> Any:
    """An f-string: its strings, and for each value a tuple of it, the conversion's character code and the format."""
    operands: list[Any] = []
    pieces: list[str | Shown] = []
    for part in parts:
        if isinstance(part, str):
            pieces.append(part)
            continue
        value, conversion, spec = part
        if not isinstance(spec, str):
            raise KernelTypeError("the format of a value in an f-string must be known at compile time")
        if isinstance(value, Scalar | Tile):
            _check_spec(value, spec, conversion != -1)
            pieces.append(Shown(len(operands), spec, conversion != -1))
            operands.append(value)
        elif isinstance(value, _CONTAINERS):
            if spec or conversion == ord("a"):
                raise KernelTypeError(f"{describe(value)} takes no format in a kernel; format its elements")
            pieces += _container(value, operands)
        elif isinstance(value, Text):
            raise KernelTypeError("an f-string with run-time values cannot stand in another; write it out there")
        else:
            pieces.append(format(_CONVERT[conversion](value), spec))
    if not operands:
        return "".join(map(str, pieces))
    return Text(Joined(tuple(pieces)), tuple(operands))


def _check_spec(value: Scalar | Tile, spec: str, as_text: bool) -> None:
    if isinstance(value, Tile) and spec and not as_text:
        raise KernelTypeError(f"a {value.type} takes no format {spec!r}; format its elements")
    try:
        format("" if as_text else value.dtype.numpy.type(1), spec)
    except (TypeError, ValueError) as error:
        raise KernelValueError(f"{describe(value)} takes no format {spec!r}: {error}") from None


OPERATORS["f-string"] = make_text


def print_values(*values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: bool = False) -> None:
    """``print`` in a kernel: to ``sys.stdout``, block after block in order."""
    for name, text in (("sep", sep), ("end", end)):
        if text is not None and not isinstance(text, str):
            raise KernelTypeError(f"print(): {name} must be a compile-time string, got {describe(text)}")
    if file is not None:
        raise KernelTypeError("print() in a kernel writes to sys.stdout only; leave 'file' out")
    operands: list[Any] = []
    pieces: list[str | Shown] = []
    for index, value in enumerate(values):
        pieces += ([" " if sep is None else sep] if index else []) + _pieces(value, operands)
    show(tuple(operands), Joined((*pieces, "\n" if end is None else end)))


OPERATORS["call.print"] = print_values

_CONVERSION = re.compile(r"%(?:%|([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp]))|%")


def _python_format(fmt: str) -> tuple[str, int]:
    """A C format in Python's spelling, and how many values it takes."""
    count = 0

    def spell(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] == "%%":
            return "%%"
        if match[2] is None or match[2] in "aAp":
            raise KernelValueError(f"printf(): the format {fmt!r} has a '%' that starts no supported conversion")
        count += 1
        return f"%{match[1]}{match[2]}"

    return _CONVERSION.sub(spell, fmt), count


def printf(fmt: str, *args: Any) -> None:
    """Print by a C format in a kernel, to ``sys.stdout``, without a line's end of its own.

    Args:
        fmt: The format, a compile-time string: ``"%d %5.2f\\n"``.
        args: As many numbers as it has conversions.

    Raises:
        KernelValueError: the number of arguments differs, or a conversion is not supported.
        KernelTypeError: an argument is no number.

    Example:
        >>> import tilekit as tk
        >>> tk.printf("%d of %.1f\\n", 2, 7.0)
        2 of 7.0
    """
    if not isinstance(fmt, str):
        raise KernelTypeError(f"printf(): the format must be a compile-time string, got {describe(fmt)}")
    spelled, count = _python_format(fmt)
    if count != len(args):
        raise KernelValueError(f"printf(): the format {fmt!r} takes {counted(count, 'value')}, got {len(args)}")
    for arg in args:
        if not isinstance(arg, Scalar | int | float | np.generic):
            raise KernelTypeError(f"printf() prints numbers, got {describe(arg)}")
    constants = tuple(None if isinstance(arg, Scalar | np.generic) else arg for arg in args)
    show(tuple(arg for arg in args if isinstance(arg, Scalar | np.generic)), Formatted(spelled, constants))


# Assertions.


@builtin(side_effect=True)
def assert_true(cond: Scalar, message: str) -> None:
    """Leave the kernel with an error unless a condition holds."""


@assert_true.result
def _assert_result(cond: ScalarType) -> None:
    if cond.dtype != bool_:
        raise KernelTypeError(f"a condition must be bool, got {cond}")


@assert_true.reference
def _assert_reference(cond: Any, message: str) -> None:
    if not cond:
        raise KernelAssertionError(message)


@assert_true.emit
def _assert_emit(cx: Any, cond: str, message: str) -> None:
    require(cx, cond, message.replace("{", "{{").replace("}", "}}"), "kAssertionError")


@builtin(side_effect=True, ordered=True)
def assert_shown(cond: Scalar, values: Tiles, template: Any) -> None:
    """``assert_true`` with a message that shows values."""


@assert_shown.result
def _shown_result(cond: ScalarType) -> None:
    _assert_result(cond)


@assert_shown.reference
def _shown_reference(cond: Any, values: tuple[Any, ...], template: Any) -> None:
    if not cond:
        raise KernelAssertionError(template.text(values))


@assert_shown.emit
def _shown_emit(cx: Any, cond: str, values: tuple[Any, ...], template: Any, types: Any) -> None:
    with cx.braces(f"if (!({cond}))"):
        cx.record("kAssertionError", emit_report(cx, values, types["values"], template, "assertion"))


def check(cond: Any, message: Any = None) -> None:
    """``assert cond, message`` on a run-time condition."""
    operands: list[Any] = []
    pieces = _pieces("assertion failed" if message is None else message, operands)
    if operands:
        assert_shown(cond, tuple(operands), Joined(tuple(pieces)))
    else:
        assert_true(cond, "".join(map(str, pieces)))


OPERATORS["assert"] = check
