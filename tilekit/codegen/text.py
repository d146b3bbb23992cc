"""How types and constants are spelled in C++."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from tilekit.ir.core import Const
from tilekit.ir.interpret import to_memory
from tilekit.ir.notices import printable
from tilekit.ir.types import DType, bfloat16, int32, int64, to_numpy_scalar, uint64

_SUFFIX = {"int64": "ll", "uint32": "u", "uint64": "ull", "float32": "f"}


@functools.cache
def _taken() -> frozenset[str]:
    """C++17's keywords that are Python names, lower-case macros, and names that a member would hide from its struct."""
    return frozenset(json.loads((Path(__file__).parent / "taken_names.json").read_text(encoding="utf-8")))


def member(name: str) -> str:
    """What a parameter is called in C++: different for different names, and free to use."""
    if not name.isascii():
        return f"u{name.encode().hex()}_"
    macro = name.isupper() or name.startswith("_")  # as NULL, NAN and _Complex, whatever the compiler and its library
    return f"{name}_" if macro or name in _taken() or name.endswith("_") else name


def comment(text: str) -> str:
    """Text that stays inside the comment of one line."""
    return printable(" ".join(text.split())).rstrip("\\")


def string(text: str) -> str:
    """A C++ string of a text, such as a path; bytes that are no text, as file names may have, stay what they are."""
    if text.isprintable():
        inner = text.replace("\\", "\\\\").replace('"', '\\"')
    else:
        try:
            data = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # no file's name
            data = text.encode("utf-8", "backslashreplace")
        inner = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in data)
    return f'"{inner}"'


def cpp_type(dtype: DType) -> str:
    """The C++ type of an element."""
    return "bool" if dtype.kind == "b" else f"tk::{dtype.short}"


def literal(value: Any, dtype: DType) -> str:
    """A constant of that dtype with exactly its bits."""
    number = to_numpy_scalar(value, dtype)
    if dtype.kind == "b":
        return "true" if number else "false"
    if dtype.is_integer:
        return _integer(int(number), dtype)
    if dtype.bits == 16:
        stored = to_memory(np.asarray(number)[None], dtype, np.dtype(np.uint16)) if dtype is bfloat16 else number
        return f"{cpp_type(dtype)}{{{int(np.asarray(stored).reshape(-1).view(np.uint16)[0]):#06x}}}"
    if not math.isfinite(number):
        bits = np.asarray(number).view(np.uint32 if dtype.bits == 32 else np.uint64)
        return f"tk::bit_cast<{cpp_type(dtype)}>({int(bits):#x}{'u' if dtype.bits == 32 else 'ull'})"
    text = (
        np.format_float_scientific(number, unique=True, trim="0")
        if number
        else ("-0.0" if _negative(number) else "0.0")
    )
    plain = repr(float(text))
    return f"{plain if float(plain) == float(text) and len(plain) < 14 else text}{_SUFFIX.get(dtype.name, '')}"


def _negative(number: Any) -> bool:
    return bool(np.signbit(number))


def _integer(value: int, dtype: DType) -> str:
    suffix = _SUFFIX.get(dtype.name, "")
    if dtype.bits < 32:  # C++ has no such literals
        return f"{cpp_type(dtype)}({value})"
    if dtype.kind == "i" and value == -(1 << (dtype.bits - 1)):
        return f"({value + 1}{suffix} - 1)"
    return f"{value}{suffix}"


def signed(expression: str, dtype: DType) -> str:
    """An integer as an i64 that is as far from an array's or a tile's bounds: a uint64 does not wrap to a negative."""
    return f"tk::saturated({expression})" if dtype == uint64 else expression


def const_literal(const: Const) -> str:
    dtype = const.type.dtype
    if const.type.weak and dtype == int32 and not -(2**31) <= int(const.value) < 2**31:
        dtype = int64 if -(2**63) <= int(const.value) < 2**63 else uint64  # an index, or what is cast to a wider dtype
    return literal(const.value, dtype)
