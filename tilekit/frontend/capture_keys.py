"""When two captured values mean the same to a kernel, and which values a kernel must not capture."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections import deque
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tilekit.errors import KernelTypeError
from tilekit.frontend.overloads import Func
from tilekit.frontend.reads import Missing as Missing
from tilekit.ir.builtin import Builtin
from tilekit.ir.types import find_dtype

_ARRAY_PROTOCOLS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")
_CONTAINERS = (list, dict, set, bytearray)
_BUFFERS = (bytearray, array, memoryview)
PLAIN = frozenset({int, float, bool, str, bytes, type(None)})
"""Types whose values are told apart at once."""


def key_of_value(value: Any) -> Any:
    """A hashable key that is equal for values that mean the same to a kernel.

    Numbers are told apart by type and bits: 1, 1.0 and True differ, and so do 0.0 and -0.0.

    Raises:
        KernelTypeError: the value is a list, dict, set or array, whose contents are no constants.
    """
    if value is None or isinstance(value, str | bytes | Enum):
        return type(value), value
    if isinstance(value, int):
        return type(value), int(value)  # Python writes no integer of more than 4300 digits
    if isinstance(value, float | complex | np.generic):
        return type(value), repr(value)
    if isinstance(value, tuple):
        return type(value), tuple(map(key_of_value, value))
    if isinstance(value, Builtin | ModuleType | type):
        return find_dtype(value) or (_attribute_key(value) if is_mutable(value) else _Same(value))
    if isinstance(value, Func):
        return tuple((key_of_value(form), repr(form.__annotations__)) for form in value.forms)
    if isinstance(value, FunctionType):
        cells = tuple(_cell_key(cell) for cell in value.__closure__ or ())
        named = tuple(sorted((value.__kwdefaults__ or {}).items()))
        return FunctionType, value.__code__, cells, key_of_value(value.__defaults__), key_of_value(named)
    if isinstance(value, partial):
        return partial, key_of_value(value.func), key_of_value(value.args), key_of_value(tuple(value.keywords.items()))
    if isinstance(value, MethodType):
        return MethodType, key_of_value(value.__func__), key_of_value(value.__self__)
    return find_dtype(value) or _key_of_object(value)


def content_key(value: Any, whole: bool = False) -> Any:
    """A key by what is in a value now, lists, dicts and arrays included; ``whole`` includes arrays deep inside.

    Raises:
        KernelTypeError: an array whose elements cannot be read here.
    """
    if isinstance(value, _BUFFERS):
        return type(value), bytes(value)
    if _is_array(value):
        return _array_key(value)
    if isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType | type(None)):
        return BuiltinFunctionType, value.__name__, content_key(value.__self__, whole)
    if isinstance(value, list | tuple | deque):
        return type(value), tuple(content_key(item) if _is_array(item) else _deep(item, whole) for item in value)
    return (
        _deep(value, whole) if isinstance(value, dict | set | frozenset) or is_mutable(value) else key_of_value(value)
    )


def _deep(value: Any, whole: bool) -> Any:
    return _attribute_key(value, (0,), whole)


def _is_array(value: Any) -> bool:
    return not isinstance(value, np.generic) and any(hasattr(type(value), name) for name in _ARRAY_PROTOCOLS)


def _array_key(value: Any) -> Any:
    try:
        elements = np.ascontiguousarray(value)
    except Exception:
        raise KernelTypeError(
            f"is a {type(value).__name__} that cannot be read while a kernel is compiled; pass it to the kernel as an "
            "argument instead"
        ) from None
    digest = repr(elements.tolist()).encode() if elements.dtype.hasobject else elements.view(np.uint8).data
    return type(value), elements.dtype.str, np.shape(value), hashlib.sha256(digest).digest()


def is_changing(value: Any) -> bool:
    """Whether only the content of a value tells whether it still means the same (see ``content_key``)."""
    if isinstance(value, tuple):
        return any(map(is_changing, value))
    if isinstance(value, BuiltinFunctionType):
        return is_changing(value.__self__)
    return isinstance(value, (*_CONTAINERS, *_BUFFERS, deque)) or _is_array(value) or is_mutable(value)


def _cell_key(cell: Any) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:
        return Missing
    if isinstance(value, FunctionType):
        return value.__code__  # a function that names itself would never end; what helpers read is captured as well
    return _attribute_key(value)


def _key_of_object(value: Any) -> Any:
    if isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType | type(None)):
        return BuiltinFunctionType, value.__name__, key_of_value(value.__self__)
    if isinstance(value, _CONTAINERS) or _is_array(value):
        instead = "pass it to the kernel as an argument instead"
        if isinstance(value, _CONTAINERS):
            instead = "put constants into a tuple, or pass an array of numbers to the kernel as an argument"
        raise KernelTypeError(f"is a captured {type(value).__name__}; {instead}")
    return _attribute_key(value)


def _attribute_key(value: Any, around: tuple[int, ...] = (), whole: bool = False) -> Any:
    """The key of an object, or of what it holds: containers and objects count as what is in them now; arrays only
    where ``whole``."""
    if type(value) in PLAIN:
        return key_of_value(value)
    if id(value) in around:
        return _Same(value)

    def key(item: Any) -> Any:
        return _attribute_key(item, (*around, id(value)), whole)

    if isinstance(value, dict):
        return type(value), tuple((key(name), key(item)) for name, item in value.items())
    if isinstance(value, list | tuple | deque):
        return type(value), tuple(map(key, value))
    if isinstance(value, set | frozenset):
        return type(value), frozenset(map(key, value))
    if whole and _is_array(value):
        return _array_key(value)
    if is_mutable(value) and not (around and _root(value) in _OPAQUE) and not isinstance(value, MethodType | partial):
        state, functions = _state_of(value)
        return type(value), _Same(value), functions, tuple((name, key(held)) for name, held in sorted(state.items()))
    try:
        return _Same(value) if is_mutable(value) or not around else key_of_value(value)
    except KernelTypeError:
        return _Same(value)


def _state_of(value: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """What an object, or a class, holds in its attributes, those of the classes that users write included; and the
    functions and properties of these classes."""
    kind = value if isinstance(value, type) else type(value)
    members = [pair for base in reversed(kind.__mro__) if is_users(base) for pair in vars(base).items()]
    held = {name: item for name, item in members if not hasattr(item, "__get__")}
    if kind is not value:
        held.update((name, getattr(value, name)) for name in _slots_of(kind) if hasattr(value, name))
        held.update(getattr(value, "__dict__", {}))
    functions = tuple(_Same(item) for _, item in members if isinstance(item, FunctionType | property))
    return {name: item for name, item in held.items() if not name.startswith("__")}, functions


def is_users(kind: type) -> bool:
    """Whether a class is neither Python's nor of a package whose classes do not change."""
    return kind.__module__.partition(".")[0] not in FIXED


def _slots_of(kind: type) -> list[str]:
    known = _slots.get(kind)
    if known is None:
        found = [vars(base).get("__slots__", ()) for base in kind.__mro__]
        names = [name for slots in found for name in ((slots,) if isinstance(slots, str) else slots)]
        known = _slots[kind] = [name for name in names if not name.startswith("__")]
    return known


_slots: WeakKeyDictionary[type, list[str]] = WeakKeyDictionary()


def _root(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def is_mutable(value: Any) -> bool:
    """Whether a value may change while it stays the same object, so that identity says nothing."""
    if type(value) in PLAIN:
        return False
    if isinstance(value, MethodType):
        return is_mutable(value.__self__)
    if isinstance(value, tuple):
        return any(map(is_mutable, value))
    if isinstance(value, partial):
        return any(map(is_mutable, (value.func, *value.args, *value.keywords.values())))
    if isinstance(value, type):
        return is_users(value) and not issubclass(value, Enum) and find_dtype(value) is None
    if isinstance(value, Builtin | ModuleType | FunctionType | Func | Enum):
        return False
    return _root(value) not in _TRUSTED and (hasattr(value, "__dict__") or bool(_slots_of(type(value))))


_TRUSTED = ("tilekit", "warp", "torch", "numpy")
FIXED = (sys.stdlib_module_names | {*_TRUSTED}) - {"__main__"}
_OPAQUE = FIXED - {"types", "argparse"}
"""Modules whose objects inside other objects are no settings of a kernel: loggers, locks, files."""


class _Same:
    """Equal only for the same object, which it keeps alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value
