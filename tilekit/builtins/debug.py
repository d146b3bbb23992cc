"""``print``, ``printf`` and ``assert`` in kernels."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilekit.builtins.views import numbers
from tilekit.errors import KernelAssertionError, KernelTypeError, KernelValueError
from tilekit.ir.builtin import builtin
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile
from tilekit.ir.interpret import Machine, from_memory
from tilekit.ir.operands import Tiles, describe
from tilekit.ir.types import DType, ScalarType, bfloat16, bool_
from tilekit.ir.views import ViewMap

__all__ = ["printf"]


@dataclass(frozen=True)
class Joined:
    """Text with values in it: strings as they are, and numbers of operands, shown as Python's ``print`` would."""

    pieces: tuple[str | int, ...]

    def text(self, values: Sequence[Any]) -> str:
        return "".join(piece if isinstance(piece, str) else str(values[piece]) for piece in self.pieces)


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
    shown = [
        _Shown(type.dtype, getattr(value, "map", None)) for value, type in zip(values, types["values"], strict=True)
    ]
    site = cx.site("print", lambda address: template.text(_read(address, shown)))
    with cx.braces(f"if ({wanted})" if wanted is not None else ""):
        pointers = []
        for index, (value, type) in enumerate(zip(values, types["values"], strict=True)):
            if isinstance(type, ScalarType):
                cx.line(f"const {cx.cpp(type)} shown{index} = {value};")
            pointers.append(f"&shown{index}" if isinstance(type, ScalarType) else value.pointer)
        cx.line(f"const void* const shown[] = {{{', '.join(pointers) or '0'}}};")
        cx.line(f"launch.report({site}, block, shown);")


# From memory to NumPy.


@dataclass(frozen=True)
class _Shown:
    """What lies at one of the addresses that a kernel reports: a number, or a tile with a map of its elements."""

    dtype: DType
    map: ViewMap | None

    def read(self, address: int) -> Any:
        stored = np.dtype(np.uint16) if self.dtype is bfloat16 else self.dtype.numpy
        if self.map is None:
            return from_memory(np.frombuffer(ctypes.string_at(address, stored.itemsize), stored), self.dtype)[0]
        if not self.map.size:
            return np.zeros(self.map.shape, self.dtype.numpy)
        low, high = self.map.bounds()
        data = ctypes.string_at(address + low * stored.itemsize, (high - low + 1) * stored.itemsize)
        return from_memory(np.frombuffer(data, stored), self.dtype)[numbers(self.map, -low)]


def _read(address: int, shown: Sequence[_Shown]) -> list[Any]:
    addresses = (ctypes.c_void_p * len(shown)).from_address(address)
    return [what.read(at or 0) for what, at in zip(shown, addresses, strict=True)]


# What kernels call.


def _pieces(value: Any, operands: list[Any]) -> list[str | int]:
    """A printed value as text and operands; tuples are taken apart."""
    if isinstance(value, Scalar | Tile):
        operands.append(value)
        return [len(operands) - 1]
    if isinstance(value, tuple | list):
        inner = [_pieces(item, operands) if not isinstance(item, str) else [repr(item)] for item in value]
        last = [","] if isinstance(value, tuple) and len(value) == 1 else []
        joined = [piece for index, item in enumerate(inner) for piece in ([", "] if index else []) + item]
        return ["(" if isinstance(value, tuple) else "[", *joined, *last, ")" if isinstance(value, tuple) else "]"]
    if isinstance(value, Array):
        raise KernelTypeError(f"{describe(value)} cannot be printed as a whole; print elements or a tile of it")
    return [str(value)]


def print_values(*values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: bool = False) -> None:
    """``print`` in a kernel: to ``sys.stdout``, block after block in order."""
    for name, text in (("sep", sep), ("end", end)):
        if text is not None and not isinstance(text, str):
            raise KernelTypeError(f"print(): {name} must be a compile-time string, got {describe(text)}")
    if file is not None:
        raise KernelTypeError("print() in a kernel writes to sys.stdout only; leave 'file' out")
    operands: list[Any] = []
    pieces: list[str | int] = []
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
        raise KernelValueError(f"printf(): the format {fmt!r} takes {count} values, got {len(args)}")
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
    site = cx.site(message.replace("{", "{{").replace("}", "}}"))
    with cx.braces(f"if (!({cond}))"):
        cx.record("kAssertionError", site)


def check(cond: Any, message: Any = None) -> None:
    """``assert cond, message`` on a run-time condition."""
    if isinstance(message, Scalar | Tile | Array):
        raise KernelTypeError(
            f"the message of an assertion must be known at compile time, got {describe(message)}; "
            "print the value before it"
        )
    assert_true(cond, "assertion failed" if message is None else str(message))


OPERATORS["assert"] = check
