"""How types and constants are spelled in C++."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilekit.ir.core import Const
from tilekit.ir.interpret import to_memory
from tilekit.ir.types import DType, bfloat16, to_numpy_scalar

_SUFFIX = {"int64": "ll", "uint32": "u", "uint64": "ull", "float32": "f"}


_RESERVED = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
    "char", "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const", "const_cast", "consteval",
    "constexpr", "constinit", "continue", "co_await", "co_return", "co_yield", "decltype", "default", "delete",
    "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
    "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq",
    "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
    "requires", "restrict", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast",
    "struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid",
    "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor",
    "xor_eq", "errno", "linux", "stderr", "stdin", "stdout", "unix", "i386",
}  # fmt: skip
"""C++'s keywords, and the macros of its library and compilers that are not in capitals."""


def field_name(name: str) -> str:
    """The C++ name of a parameter: its own, unless that may be a keyword or a macro there.

    Example:
        >>> field_name("x"), field_name("new"), field_name("NAN"), field_name("new_")
        ('x', 'new_', 'NAN_', 'new__')
    """
    plain = name not in _RESERVED and not name.startswith("_") and not name.endswith("_") and not name.isupper()
    return name if plain else f"{name}_"


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
    if dtype.kind == "i" and value == -(1 << (dtype.bits - 1)):
        return f"({value + 1}{suffix} - 1)"
    text = f"{value}{suffix}"
    return f"{cpp_type(dtype)}({text})" if dtype.bits < 32 else text


def const_literal(const: Const) -> str:
    return literal(const.value, const.type.dtype)
