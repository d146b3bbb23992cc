"""The outer values that a kernel reads: found in its syntax, read again at every launch, part of its specialisation."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from tilekit.errors import TilekitError
from tilekit.frontend.calls import Func, Rewritten, rewritten
from tilekit.frontend.scopes import assigned_names
from tilekit.ir.builtin import Builtin
from tilekit.ir.types import find_dtype

Chain = tuple[tuple[str, Any], ...]
"""Steps from a name to the value that is used: ``("attr", "TILE")`` or ``("item", "bias")``."""


class Missing:
    """The value of a name that is not bound."""


class Capture:
    """One outer name of one function with the attributes and constant subscripts that follow it."""

    __slots__ = ("chain", "function", "name", "read_root")

    def __init__(self, function: FunctionType, name: str, chain: Chain) -> None:
        self.function = function
        self.name = name
        self.chain = chain
        self.read_root = _root_reader(function, name)

    def read(self) -> Any:
        """The value now; modules are passed through, so that ``cfg.TILE`` is what counts."""
        value = self.read_root()
        for kind, key in self.chain:
            try:
                value = getattr(value, key) if kind == "attr" else value[key]
            except Exception:
                return Missing
        return value

    def __str__(self) -> str:
        steps = (f".{key}" if kind == "attr" else f"[{key!r}]" for kind, key in self.chain)
        return self.name + "".join(steps)


def _root_reader(function: FunctionType, name: str) -> Callable[[], Any]:
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


def captures_of(function: FunctionType) -> list[Capture]:
    """What a function and the helpers it names read from outside."""
    found: list[Capture] = []
    seen: set[Any] = set()
    waiting = [function]
    while waiting:
        current = waiting.pop()
        if current.__code__ in seen:
            continue
        seen.add(current.__code__)
        try:
            form = rewritten(current)
        except (TilekitError, SyntaxError):
            continue
        for name, chain in _outer_names(form):
            capture = Capture(current, name, chain)
            found.append(capture)
            waiting.extend(_helpers(capture.read()))
    return found


def _helpers(value: Any) -> Iterator[FunctionType]:
    if isinstance(value, Func):
        yield value.function
    elif isinstance(value, FunctionType) and value.__module__.partition(".")[0] not in ("numpy", "warp", "torch"):
        if value.__module__.partition(".")[0] != "tilekit" or value.__module__.startswith("tilekit.examples"):
            yield value
    elif type(value).__module__.startswith("warp") and isinstance(getattr(value, "func", None), FunctionType):
        yield value.func
    elif isinstance(value, tuple):
        for item in value:
            yield from _helpers(item)


def _outer_names(form: Rewritten) -> list[tuple[str, Chain]]:
    node = form.source.node
    body = node.body if isinstance(node.body, list) else [node.body]
    arguments = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
    inner = {a.arg for n in ast.walk(node) if isinstance(n, ast.Lambda) for a in n.args.args}
    inner |= {
        t.id
        for n in ast.walk(node)
        if isinstance(n, ast.comprehension)
        for t in ast.walk(n.target)
        if isinstance(t, ast.Name)
    }
    local = arguments | inner | set(assigned_names(body))
    finder = _ChainFinder(local)
    for statement in body:
        finder.visit(statement)
    return list(dict.fromkeys(finder.found))


class _ChainFinder(ast.NodeVisitor):
    """Collects the longest chains of attributes and constant subscripts on outer names."""

    def __init__(self, local: set[str]) -> None:
        self.local = local
        self.found: list[tuple[str, Chain]] = []

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
                self.found.append((current.id, tuple(reversed(chain))))
            return
        super().generic_visit(node)


_IDENTITY = (Builtin, ModuleType, type)


def key_of_value(value: Any) -> Any:
    """A hashable key that is equal for values that mean the same to a kernel.

    Numbers are told apart by type and bits: 1, 1.0 and True differ, and so do 0.0 and -0.0.
    """
    if value is None or isinstance(value, str | bytes | Enum):
        return value
    if isinstance(value, bool | int | float | np.generic):
        return type(value), repr(value)
    if isinstance(value, tuple):
        return tuple, tuple(map(key_of_value, value))
    dtype = None if isinstance(value, Builtin) else find_dtype(value)
    if dtype is not None:
        return dtype
    if isinstance(value, Func):
        return key_of_value(value.function)
    if isinstance(value, FunctionType):
        cells = tuple(_cell_key(cell) for cell in value.__closure__ or ())
        return FunctionType, value.__code__, cells, key_of_value(value.__defaults__)
    return _Same(value)


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
