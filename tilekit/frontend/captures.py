"""The outer values that a kernel reads: found in its syntax, read again at every launch, part of its specialisation."""

from __future__ import annotations

import ast
import dis
import operator
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from tilekit.errors import Location, RecompileWarning, TilekitError
from tilekit.forks import Lock
from tilekit.frontend.calls import Func, Rewritten, call_of, rewritten
from tilekit.frontend.capture_keys import Missing, is_mutable, key_of_value

Chain = tuple[tuple[str, Any], ...]
"""Steps from a name to the value that is used: ``("attr", "TILE")`` or ``("item", "bias")``."""


class Capture:
    """One outer name of one function with the attributes and constant subscripts that follow it."""

    __slots__ = ("chain", "function", "location", "name", "read_root")

    def __init__(self, function: FunctionType, name: str, chain: Chain, location: Location | None = None) -> None:
        self.function = function
        self.name = name
        self.chain = chain
        self.location = location
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
    seen: set[FunctionType] = set()
    waiting = [function]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        try:
            form = rewritten(current)
        except (TilekitError, SyntaxError):
            continue
        for (name, chain), node in _outer_names(form, current).items():
            capture = Capture(current, name, chain, form.source.location(node))
            found.append(capture)
            waiting.extend(helpers_in(capture.read()))
    return found


def helpers_in(value: Any) -> Iterator[FunctionType]:
    """The functions that a kernel inlines where it calls a captured value."""
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, Func):
        yield value.function
    elif isinstance(value, FunctionType):
        module = value.__module__ or ""  # exec without __name__ gives none
        root = module.partition(".")[0]
        if root not in ("numpy", "warp", "torch", "tilekit") or module.startswith("tilekit.examples"):
            yield value
    elif type(value).__module__.startswith("warp") and isinstance(getattr(value, "func", None), FunctionType):
        yield value.func
    elif isinstance(value, tuple):
        for item in value:
            yield from helpers_in(item)
    elif isinstance(value, partial):
        yield from helpers_in((value.func, *value.args, *value.keywords.values()))
    elif (called := call_of(value)) is not None:
        yield called


def _outer_names(form: Rewritten, function: FunctionType) -> dict[tuple[str, Chain], ast.AST]:
    """The outer names of a function with what follows them, and where each stands first."""
    node = form.source.node
    finder = _ChainFinder({*_global_names(function.__code__), *function.__code__.co_freevars})
    for statement in node.body if isinstance(node.body, list) else [node.body]:
        finder.visit(statement)
    return finder.found


def _global_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


class _ChainFinder(ast.NodeVisitor):
    """Collects the longest chains of attributes and constant subscripts on outer names."""

    def __init__(self, outer: set[str]) -> None:
        self.outer = outer
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
            if current.id in self.outer:
                self.found.setdefault((current.id, tuple(reversed(chain))), node)
            return
        super().generic_visit(node)


class Captures:
    """The outer values of one kernel, numbered: the same number at two launches means that they mean the same."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self._lock = Lock()
        self._state: tuple[Callable[[], tuple[Any, ...]], tuple[Any, ...], int] | None = None
        self._found: tuple[list[Capture], tuple[Any, ...]] = ([], ())
        self._numbers: dict[Any, int] = {}
        self._seen: dict[str, set[Any]] = {}

    def number(self) -> int:
        """The number of the values as they are now; compared by identity with the last launch first.

        Raises:
            KernelTypeError: one of them is a list, dict or array.
        """
        state = self._state
        if state is not None:
            read, values, number = state
            try:
                if all(map(operator.is_, read(), values)):
                    return number
            except Exception:  # a name or attribute is gone, which the slow way tells
                pass
        with self._lock:
            return self._look_again()

    def _look_again(self) -> int:
        captures, values = self._read()
        keys = tuple(map(_checked_key, captures, values))
        number = self._numbers.setdefault(tuple(zip(map(str, captures), keys, strict=True)), len(self._numbers))
        settled = not any(map(is_mutable, values))
        self._state = (reader_of(captures), values, number) if settled else None
        for capture, key in zip(captures, keys, strict=True):
            self._count(capture, key)
        return number

    def _read(self) -> tuple[list[Capture], tuple[Any, ...]]:
        """The captures and their values; what helpers read is looked up again where another helper is named."""
        old_captures, old_values = self._found
        values = tuple(capture.read() for capture in old_captures)
        changed = [item for pair in zip(old_values, values, strict=True) if pair[0] is not pair[1] for item in pair]
        if not old_captures or any(True for item in changed for _ in helpers_in(item)):
            old_captures = captures_of(self.function)
            values = tuple(capture.read() for capture in old_captures)
        self._found = old_captures, values
        return self._found

    def _count(self, capture: Capture, key: Any) -> None:
        seen = self._seen.setdefault(str(capture), set())
        if key in seen:
            return
        seen.add(key)
        if len(seen) == MANY:
            message = (
                f"kernel {self.function.__name__!r} was specialised for {MANY} values of {capture}, which it captures; "
                "each one is compiled anew, so pass it as an argument if it changes often"
            )
            file, line = (capture.location.file, capture.location.line) if capture.location else ("", 0)
            warnings.warn_explicit(message, RecompileWarning, file, line)


MANY = 8
"""Values of one capture after which a warning says that each of them is compiled."""


def _checked_key(capture: Capture, value: Any) -> Any:
    try:
        return key_of_value(value)
    except TilekitError as error:
        if capture.function.__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
            return id(value)
        raise type(error)(f"{capture} {error.message}", capture.location) from None


def reader_of(captures: list[Capture]) -> Callable[[], tuple[Any, ...]]:
    """A function that reads all values at once, as fast as Python code that names them."""
    names: dict[str, Any] = {"Missing": Missing}
    parts = []
    for index, capture in enumerate(captures):
        free = capture.function.__code__.co_freevars
        if capture.name in free:
            names[f"c{index}"] = (capture.function.__closure__ or ())[free.index(capture.name)]
            text = f"c{index}.cell_contents"
        else:
            names[f"g{index}"] = capture.function.__globals__
            bound = capture.name in capture.function.__globals__
            text = f"g{index}[{capture.name!r}]" if bound else f"g{index}.get({capture.name!r}, Missing)"
            if not bound and capture.chain:
                text, names[f"c{index}"] = f"c{index}()", capture.read
                parts.append(text)
                continue
        for step, (kind, key) in enumerate(capture.chain):
            names[f"k{index}_{step}"] = key
            text += f".{key}" if kind == "attr" else f"[k{index}_{step}]"
        parts.append(text)
    return eval(f"lambda: ({''.join(part + ',' for part in parts)})", names)  # type: ignore[no-any-return]
