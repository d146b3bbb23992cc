"""When two captured values mean the same to a kernel, and which values a kernel must not capture."""

from __future__ import annotations

import sys
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError
from tilekit.frontend.calls import Func
from tilekit.ir.builtin import Builtin
from tilekit.ir.types import find_dtype

_ARRAY_PROTOCOLS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")
_CONTAINERS = (list, dict, set, bytearray)


class Missing:
    """The value of a name that is not bound."""


def key_of_value(value: Any) -> Any:
    """A hashable key that is equal for values that mean the same to a kernel.

    Numbers are told apart by type and bits: 1, 1.0 and True differ, and so do 0.0 and -0.0.

    Raises:
        KernelTypeError: the value is a list, dict, set or array, whose contents are no constants.
    """
    if value is None or isinstance(value, str | bytes | Enum):
        return type(value), value
    if isinstance(value, bool | int | float | complex | np.generic):
        return type(value), repr(value)
    if isinstance(value, tuple):
        return type(value), tuple(map(key_of_value, value))
    if isinstance(value, Builtin | ModuleType | type):
        return find_dtype(value) or (_attribute_key(value) if is_mutable(value) else _Same(value))
    if isinstance(value, Func):
        return key_of_value(value.function)
    if isinstance(value, FunctionType):
        cells = tuple(_cell_key(cell) for cell in value.__closure__ or ())
        named = tuple(sorted((value.__kwdefaults__ or {}).items()))
        return FunctionType, value.__code__, cells, key_of_value(value.__defaults__), key_of_value(named)
    if isinstance(value, partial):
        return partial, key_of_value(value.func), key_of_value(value.args), key_of_value(tuple(value.keywords.items()))
    if isinstance(value, MethodType):
        return MethodType, key_of_value(value.__func__), key_of_value(value.__self__)
    return find_dtype(value) or _key_of_object(value)


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
    if isinstance(value, _CONTAINERS) or any(hasattr(type(value), name) for name in _ARRAY_PROTOCOLS):
        raise KernelTypeError(f"is a captured {type(value).__name__}; pass it to the kernel as an argument instead")
    return _attribute_key(value)


def _attribute_key(value: Any, around: tuple[int, ...] = ()) -> Any:
    """The key of an object, or of what it holds: containers and objects count as what is in them now."""
    if id(value) in around:
        return _Same(value)
    inside = (*around, id(value))
    if isinstance(value, dict):
        return type(value), tuple((_attribute_key(k, inside), _attribute_key(v, inside)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return type(value), tuple(_attribute_key(item, inside) for item in value)
    if isinstance(value, set | frozenset):
        return type(value), frozenset(_attribute_key(item, inside) for item in value)
    if is_mutable(value) and not (around and _root(value) in _OPAQUE) and not isinstance(value, MethodType | partial):
        state = tuple((name, _attribute_key(held, inside)) for name, held in sorted(_state_of(value).items()))
        return type(value), _Same(value), state
    try:
        return _Same(value) if is_mutable(value) or not around else key_of_value(value)
    except KernelTypeError:
        return _Same(value)


def _state_of(value: Any) -> dict[str, Any]:
    """What an object, or a class, holds in its attributes, those of the classes that users write included."""
    kind = value if isinstance(value, type) else type(value)
    users = [base for base in reversed(kind.__mro__) if _is_users(base)]
    held = {name: item for base in users for name, item in vars(base).items() if not hasattr(item, "__get__")}
    if kind is not value:
        held.update((name, getattr(value, name)) for name in _slots_of(kind) if hasattr(value, name))
        held.update(getattr(value, "__dict__", {}))
    return {name: item for name, item in held.items() if not name.startswith("__")}


def _is_users(kind: type) -> bool:
    """Whether a class is neither Python's nor of a package whose classes do not change."""
    return kind.__module__.partition(".")[0] not in _FIXED


def _slots_of(kind: type) -> list[str]:
    found = [vars(base).get("__slots__", ()) for base in kind.__mro__]
    names = [name for slots in found for name in ((slots,) if isinstance(slots, str) else slots)]
    return [name for name in names if not name.startswith("__")]


def _root(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def is_mutable(value: Any) -> bool:
    """Whether a value may change while it stays the same object, so that identity says nothing."""
    if isinstance(value, MethodType):
        return is_mutable(value.__self__)
    if isinstance(value, tuple):
        return any(map(is_mutable, value))
    if isinstance(value, partial):
        return any(map(is_mutable, (value.func, *value.args, *value.keywords.values())))
    if isinstance(value, type):
        return _is_users(value) and not issubclass(value, Enum) and find_dtype(value) is None
    if isinstance(value, Builtin | ModuleType | FunctionType | Func | Enum):
        return False
    return _root(value) not in _TRUSTED and (hasattr(value, "__dict__") or bool(_slots_of(type(value))))


_TRUSTED = ("tilekit", "warp", "torch", "numpy")
_FIXED = (sys.stdlib_module_names | {*_TRUSTED}) - {"__main__"}
_OPAQUE = _FIXED - {"types", "argparse"}
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
