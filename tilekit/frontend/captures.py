"""The outer values that a kernel reads: found in its syntax, read again at every launch, part of its specialisation."""

from __future__ import annotations

import ast
import builtins
import functools
import sysconfig
from collections.abc import Callable, Iterator
from enum import Enum
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError, Location, TilekitError
from tilekit.frontend.calls import Func
from tilekit.frontend.scopes import local_names
from tilekit.frontend.source import Source, read_source
from tilekit.ir.builtin import Builtin
from tilekit.ir.types import find_dtype

Chain = tuple[tuple[str, Any], ...]
"""Steps from a name to the value that is used: ``("attr", "TILE")`` or ``("item", "bias")``."""
Reader = Callable[[], Any]


class Missing:
    """The value of a name that is not bound."""


class Capture:
    """One outer name of one function with the attributes and constant subscripts that follow it."""

    __slots__ = ("chain", "location", "name", "read_root")

    def __init__(self, name: str, chain: Chain, read_root: Reader, location: Location | None) -> None:
        self.name = name
        self.chain = chain
        self.read_root = read_root
        self.location = location

    def value(self) -> Any:
        """The value now; modules are passed through, so that ``cfg.TILE`` is what counts."""
        value = self.read_root()
        for kind, key in self.chain:
            try:
                value = getattr(value, key) if kind == "attr" else value[key]
            except Exception:
                return Missing
        return value

    def read(self) -> Any:
        """What stays the same object while the value does: of a bound method, which is made anew, its function."""
        value = self.value()
        return value.__func__ if type(value) is MethodType else value

    def receiver(self) -> Any:
        """What a captured method is bound to."""
        return getattr(self.value(), "__self__", Missing)

    def __str__(self) -> str:
        steps = (f".{key}" if kind == "attr" else f"[{key!r}]" for kind, key in self.chain)
        return self.name + "".join(steps)


def captures_of(function: FunctionType) -> list[Capture]:
    """What a function and the helpers it names read from outside."""
    found: list[Capture] = []
    seen: set[tuple[int, bool]] = set()
    waiting: list[tuple[FunctionType, Reader | None]] = [(function, None)]
    keep = []
    while waiting:
        current, receiver = waiting.pop()
        if (id(current), receiver is None) in seen:
            continue
        seen.add((id(current), receiver is None))
        keep.append(current)
        source, names = _outer_names(current)
        first = next(iter(current.__code__.co_varnames), "") if receiver is not None else ""
        for name, chain, node in names:
            reader = receiver if receiver is not None and name == first else _root_reader(current, name)
            capture = Capture(name, chain, reader, source.location(node) if source is not None else None)
            found.append(capture)
            waiting.extend(_helpers(capture))
    return found


def _root_reader(function: FunctionType, name: str) -> Reader:
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]

        def read_cell() -> Any:
            try:
                return cell.cell_contents
            except ValueError:
                return Missing

        return read_cell
    variables = function.__globals__
    return lambda: variables.get(name, Missing)


def _helpers(capture: Capture) -> Iterator[tuple[FunctionType, Reader | None]]:
    """The functions of the user behind a captured value, with what reads the object they are bound to."""
    value = capture.value()
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, MethodType) and isinstance(item.__func__, FunctionType) and item is value:
            yield item.__func__, capture.receiver
            continue
        found = getattr(item, "func", None) if _is_warp(item) else item
        found = found.function if isinstance(found, Func) else found
        if isinstance(found, FunctionType) and not is_library(found):
            yield found, None


def _is_warp(value: Any) -> bool:
    return (type(value).__module__ or "").partition(".")[0] == "warp"


@functools.lru_cache(maxsize=1)
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def is_library(function: FunctionType) -> bool:
    """Whether a function belongs to an installed package, whose own globals are taken to be constant."""
    module = function.__module__ or ""
    if module.partition(".")[0] == "tilekit":
        return not module.startswith(("tilekit.examples", "tilekit.bench"))
    return function.__code__.co_filename.startswith(_library_folders())


Outer = tuple[str, Chain, Any]
_outer: dict[int, tuple[FunctionType, Source | None, list[Outer]]] = {}


def _outer_names(function: FunctionType) -> tuple[Source | None, list[Outer]]:
    """The outer names of a function with the chains that follow them and a node that names each."""
    found = _outer.get(id(function.__code__))
    if found is None:
        found = _outer[id(function.__code__)] = (function, *_find_outer_names(function))
    return found[1:]


def _find_outer_names(function: FunctionType) -> tuple[Source | None, list[Outer]]:
    try:
        source = read_source(function)
    except (TilekitError, SyntaxError):
        code = function.__code__
        return None, [(name, (), None) for name in (*code.co_names, *code.co_freevars) if not hasattr(builtins, name)]
    node = source.node
    local = local_names(node)
    if isinstance(node, ast.FunctionDef) and node.args.args:  # methods read attributes of the object they are bound to
        local -= {node.args.args[0].arg} & _loaded_with_attributes(node)
    finder = _ChainFinder(local)
    for statement in node.body if isinstance(node.body, list) else [node.body]:
        finder.visit(statement)
    return source, [(name, chain, at) for (name, chain), at in finder.found.items()]


def _loaded_with_attributes(node: ast.AST) -> set[str]:
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    held = {n.value.id for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
    return held - stored


class _ChainFinder(ast.NodeVisitor):
    """Collects the longest chains of attributes and constant subscripts on outer names."""

    def __init__(self, local: set[str]) -> None:
        self.local = local
        self.found: dict[tuple[str, Chain], ast.AST] = {}

    def generic_visit(self, node: ast.AST) -> None:
        chain: list[tuple[str, Any]] = []
        current = node
        while True:
            if isinstance(current, ast.Attribute):
                chain.append(("attr", current.attr))
            elif isinstance(current, ast.Subscript) and isinstance(current.slice, ast.Constant):
                chain.append(("item", current.slice.value))
            else:
                break
            current = current.value
        if isinstance(current, ast.Name):
            if current.id not in self.local and not hasattr(builtins, current.id):
                self.found.setdefault((current.id, tuple(reversed(chain))), node)
            return
        super().generic_visit(node)


# What cannot be captured.

_CONTAINERS = (list, dict, set, bytearray)
_ARRAYS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")


def refuse_mutable(captures: list[Capture]) -> None:
    """Refuse outer values that may change without the kernel noticing.

    Raises:
        KernelTypeError: a list, dict, set or array is captured.
    """
    for capture in captures:
        value = capture.value()
        name = str(capture)
        if isinstance(value, BuiltinMethodType) and isinstance(value.__self__, _CONTAINERS):
            value, name = value.__self__, name.rpartition(".")[0]
        if isinstance(value, _CONTAINERS):
            kind = type(value).__name__
            hint = "make it a tuple" if isinstance(value, list | set) else "read its entries by constant keys"
            raise KernelTypeError(
                f"{name} is a {kind} from outside the kernel, which may change between launches; {hint}, or pass its "
                "values to the kernel as arguments",
                capture.location,
            )
        if _is_array(value):
            raise KernelTypeError(
                f"{name} is an array from outside the kernel ({type(value).__module__.partition('.')[0]}'s "
                f"{type(value).__name__}); pass it to the kernel as an argument",
                capture.location,
            )


def _is_array(value: Any) -> bool:
    return not isinstance(value, type | np.generic) and any(hasattr(type(value), name) for name in _ARRAYS)


# Keys.


def key_of_value(value: Any, depth: int = 0) -> Any:
    """A hashable key that is equal for values that mean the same to a kernel.

    Numbers are told apart by type and bits: 1, 1.0 and True differ, and so do 0.0 and -0.0. Of an object, its
    attributes count too.
    """
    if value is None or isinstance(value, str | bytes | Enum):
        return value
    if isinstance(value, bool | int | float | np.generic):
        return type(value), repr(value)
    if isinstance(value, tuple):
        return tuple, tuple(key_of_value(item, depth) for item in value)
    dtype = None if isinstance(value, Builtin) else find_dtype(value)
    if dtype is not None:
        return dtype
    if isinstance(value, Func):
        return key_of_value(value.function)
    if isinstance(value, FunctionType):
        cells = tuple(_cell_key(cell) for cell in value.__closure__ or ())
        return FunctionType, value.__code__, cells, key_of_value(value.__defaults__)
    if is_open(value) and depth < _DEEPEST:
        return _Same(value), tuple((name, key_of_value(item, depth + 1)) for name, item in sorted(vars(value).items()))
    return _Same(value)


_DEEPEST = 3


def is_open(value: Any) -> bool:
    """Whether a value is an object with attributes that may change, handed on as a whole."""
    if isinstance(value, tuple):
        return any(map(is_open, value))
    if isinstance(value, type | ModuleType | FunctionType | Builtin | Func | Enum) or find_dtype(value) is not None:
        return False
    return isinstance(getattr(value, "__dict__", None), dict) and not _is_warp(value)


def _cell_key(cell: Any) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:
        return Missing
    return key_of_value(value) if not isinstance(value, FunctionType) else value.__code__


class _Same:
    """Equal only for the same object, which it keeps alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value
