"""Digests of named parts: the keys of the on-disk cache."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Mapping, Set as AbstractSet
from typing import Any

from tilekit.errors import KernelTypeError

DIGITS = 12
"""As many of a digest tell it from others, for people."""


def key_of(**parts: object) -> str:
    """The sha256 digest, in hexadecimal, of named parts. The order in which they are given does not matter.

    Parts are None, bool, int, float, str, bytes, enum members, dataclasses, and tuples, lists, sets and mappings of
    those. Equal parts give equal keys in every process; parts that differ in value or type give different ones
    (``1``, ``1.0`` and ``True``; ``0.0`` and ``-0.0``; a tuple and a list). Anything else raises KernelTypeError.

    Example:
        >>> key_of(a=1, b="x") == key_of(b="x", a=1)
        True
        >>> key_of(a=("x", "y")) == key_of(a=("xy",))
        False
    """
    digest = hashlib.sha256()
    for name in sorted(parts):
        try:
            digest.update(_frame(b"p", _encode(name), _encode(parts[name])))
        except KernelTypeError as error:
            raise KernelTypeError(f"part {name!r} of a cache key: {error.message}") from None
    return digest.hexdigest()


def _frame(tag: bytes, *items: bytes) -> bytes:
    """A tag and items, each with its length: no two sequences of items have the same frame."""
    return b"%b%d:" % (tag, len(items)) + b"".join(b"%d:%b" % (len(item), item) for item in items)


def _encode(value: Any) -> bytes:
    if value is None:
        return b"n"
    kind = type(value)
    if kind in _SCALARS:
        tag, encode = _SCALARS[kind]
        return _frame(tag, encode(value))
    if isinstance(value, enum.Enum):
        return _frame(b"e", _encode(_name(kind)), _encode(value.name), _encode(value.value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [_frame(b"p", _encode(f.name), _encode(getattr(value, f.name))) for f in dataclasses.fields(value)]
        return _frame(b"d", _encode(_name(kind)), *fields)
    if kind in (tuple, list):
        return _frame(b"t" if kind is tuple else b"l", *map(_encode, value))
    if isinstance(value, Mapping):
        return _frame(b"m", *sorted(_frame(b"p", _encode(k), _encode(v)) for k, v in value.items()))
    if isinstance(value, AbstractSet):
        return _frame(b"s", *sorted(map(_encode, value)))
    raise KernelTypeError(f"a value of type {_name(kind)} has no canonical encoding: {value!r}")


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


_SCALARS: dict[type, tuple[bytes, Any]] = {
    bool: (b"b", lambda value: b"1" if value else b"0"),
    int: (b"i", lambda value: b"%x" % value if value >= 0 else b"-%x" % -value),
    float: (b"f", lambda value: value.hex().encode()),
    str: (b"u", lambda value: value.encode("utf-8", "surrogatepass")),
    bytes: (b"y", bytes),
}
