"""The outer names in a function's text and in the functions that it leads to."""

from __future__ import annotations

import ast
import dis
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, partial
from importlib.util import resolve_name
from types import CodeType, FunctionType, MethodType
from typing import Any

from tilekit.errors import Location, TilekitError
from tilekit.frontend.calls import call_of, rewritten
from tilekit.frontend.capture_keys import FIXED, Missing, is_users
from tilekit.frontend.overloads import Func, forms_of_warp
from tilekit.frontend.scopes import Chain, chain_of, shown_chain
from tilekit.frontend.source import Source, read_source


class Capture:
    """One outer name of one function with the attributes and constant subscripts that follow it.

    ``strict`` where a kernel inlines the function; else it is Python that runs while a kernel is traced. ``module`` is
    where a name comes from that such Python imports itself.
    """

    __slots__ = ("chain", "function", "location", "module", "name", "read_root", "strict")

    def __init__(
        self,
        function: FunctionType,
        name: str,
        chain: Chain,
        location: Location | None = None,
        strict: bool = True,
        module: str | None = None,
    ) -> None:
        self.function = function
        self.module = module
        self.name = name
        self.chain = chain
        self.location = location
        self.strict = strict
        self.read_root = _root_reader(function, name) if module is None else partial(sys.modules.get, module, Missing)

    def read(self) -> Any:
        """The value now; modules are passed through, so that ``cfg.TILE`` is what counts."""
        return follow_or_missing(self.read_root(), self.chain)

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for captures of the same variable."""
        if self.module is not None:
            return self.module, self.chain, self.strict
        cell = _cell_of(self.function, self.name)
        return id(self.function.__globals__) if cell is None else id(cell), self.name, self.chain, self.strict

    def expression(self, index: int, names: dict[str, Any]) -> str:
        """Python code that reads the value; ``names`` gets what it needs."""
        if self.module is not None:
            names[f"c{index}"] = self.read
            return f"c{index}()"
        cell = _cell_of(self.function, self.name)
        if cell is not None:
            names[f"c{index}"] = cell
            text = f"c{index}.cell_contents"
        else:
            names[f"g{index}"] = self.function.__globals__
            bound = self.name in self.function.__globals__
            text = f"g{index}[{self.name!r}]" if bound else f"g{index}.get({self.name!r}, Missing)"
            if not bound and self.chain:
                names[f"c{index}"] = self.read
                return f"c{index}()"
        return text + chain_expression(self.chain, index, names)

    def __str__(self) -> str:
        return (self.module or self.name) + shown_chain(self.chain)


def follow_or_missing(value: Any, chain: Chain) -> Any:
    for kind, key in chain:
        try:
            value = getattr(value, key) if kind == "attr" else value[key]
        except Exception:
            return Missing
    return value


def chain_expression(chain: Chain, index: int, names: dict[str, Any]) -> str:
    """Python code for the steps of a chain."""
    text = ""
    for step, (kind, key) in enumerate(chain):
        names[f"k{index}_{step}"] = key
        text += f".{key}" if kind == "attr" else f"[k{index}_{step}]"
    return text


def checker_of(found: Iterable[tuple[Any, Any]]) -> Callable[[], bool]:
    """A function that says whether each capture still is its value; as fast as Python code that names them.

    Of functions the code and defaults count as well: IPython's autoreload replaces those of the function that is there.
    """
    names: dict[str, Any] = {"Missing": Missing}
    parts = []
    for index, (capture, value) in enumerate(found):
        names[f"v{index}"] = value
        parts.append(f"{capture.expression(index, names)} is v{index}")
        if isinstance(value, FunctionType):
            names[f"d{index}"], names[f"e{index}"] = value.__code__, value.__defaults__
            parts.append(f"v{index}.__code__ is d{index} and v{index}.__defaults__ is e{index}")
    return eval(f"lambda: {' and '.join(parts) or True}", names)  # type: ignore[no-any-return]


def _cell_of(function: FunctionType, name: str) -> Any:
    free = function.__code__.co_freevars
    return (function.__closure__ or ())[free.index(name)] if name in free else None


def _root_reader(function: FunctionType, name: str) -> Callable[[], Any]:
    cell = _cell_of(function, name)
    if cell is not None:

        def read_cell() -> Any:
            try:
                return cell.cell_contents
            except ValueError:
                return Missing

        return read_cell
    variables = function.__globals__
    return lambda: variables.get(name, Missing)


def captures_of(*functions: FunctionType, strict: bool = True) -> list[Capture]:
    """What functions, and those that they lead to, read from outside."""
    return list(captures_by(functions, strict).values())


def captures_by(functions: Iterable[FunctionType], strict: bool = True) -> dict[tuple[Any, ...], Capture]:
    """The same, by ``identity``."""
    found: dict[tuple[Any, ...], Capture] = {}
    inlined, running = (list(functions), []) if strict else ([], list(functions))
    seen: set[FunctionType] = set()
    own = {_package(function) for function in functions}
    while inlined or running:
        strict = bool(inlined)
        current = (inlined or running).pop()
        if current in seen or not (strict or _may_change(current, own)):
            continue
        seen.add(current)
        source = _source(current, as_kernel=strict)
        if source is None:  # its source is not a kernel's, so it runs as Python
            strict, source = False, _source(current, as_kernel=False)
        for (name, chain, module), node in _outer_names(source, current).items():
            place = source.location(node) if source is not None and node is not None else None
            capture = Capture(current, name, chain, place, strict, module)
            found.setdefault(capture.identity, capture)
            value = capture.read()
            (inlined if strict else running).extend(helpers_in(value))
            running.extend(run_by_python(value, whole=not strict))
    return found


def _source(function: FunctionType, as_kernel: bool) -> Source | None:
    try:
        return rewritten(function).source if as_kernel else read_source(function)
    except (TilekitError, SyntaxError):
        return None


def helpers_in(value: Any) -> Iterator[FunctionType]:
    """The functions that a kernel inlines where it calls a captured value."""
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, Func):
        yield from value.forms
    elif isinstance(value, FunctionType):
        if not _is_ours(value) and _package(value) not in ("numpy", "warp", "torch"):
            yield value
    elif type(value).__module__.startswith("warp") and isinstance(getattr(value, "func", None), FunctionType):
        yield from forms_of_warp(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from helpers_in(item)
    elif isinstance(value, partial):
        yield from helpers_in((value.func, *value.args, *value.keywords.values()))
    elif (called := call_of(value)) is not None:
        yield called


def _is_ours(function: FunctionType) -> bool:
    module = function.__module__ or ""
    return module.partition(".")[0] == "tilekit" and not module.startswith(("tilekit.examples", "tilekit.bench"))


def run_by_python(value: Any, whole: bool) -> Iterator[FunctionType]:
    """The functions that Python runs for a value that a kernel does not call: a class that makes an object, operators,
    subscripts and properties of an object. ``whole`` where other Python code gets the value and may call any method.
    """
    if isinstance(value, tuple):
        for item in value:
            yield from run_by_python(item, whole)
    if isinstance(value, MethodType):
        yield from run_by_python(value.__self__, whole)
    if type(value).__module__ == "functools" and isinstance(getattr(value, "__wrapped__", None), FunctionType):
        yield value.__wrapped__  # of functools.cache and its kin
    kind = value if isinstance(value, type) else type(value)
    whole = whole or kind is value
    for base in kind.__mro__:
        if is_users(base):
            for name, item in vars(base).items():
                if whole or (name.startswith("__") and name not in ("__init__", "__new__", "__repr__", "__call__")):
                    yield from _functions_of(item)


def _functions_of(member: Any) -> Iterator[FunctionType]:
    """The functions of one member of a class."""
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    members = (member.fget,) if isinstance(member, property) else (member,)
    for item in members:
        item = item.func if isinstance(item, cached_property) else item
        if isinstance(item, FunctionType):
            yield item


def _package(function: FunctionType) -> str:
    return (function.__module__ or "").partition(".")[0]


def _may_change(function: FunctionType, own: set[str]) -> bool:
    """Whether the globals of Python code count: not those of Python's modules, and of installed packages only those of
    the packages ``own``."""
    package = _package(function)
    return package in own or not (package in FIXED or function.__code__.co_filename.startswith(_installed()))


@cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths["purelib"], paths["platlib"]})


def names_in(functions: Iterable[FunctionType]) -> set[str]:
    """All names that functions and those nested in them may use as attributes."""
    waiting = [function.__code__ for function in functions]
    found: set[str] = set()
    while waiting:
        code = waiting.pop()
        found.update(code.co_names)
        waiting.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return found


Names = dict[tuple[str, Chain, str | None], ast.AST | None]
"""Outer names with what follows them, and the module that the function imports them from; where each stands first."""


def _outer_names(source: Source | None, function: FunctionType) -> Names:
    """The outer names of a function."""
    outer = {*_global_names(function.__code__), *function.__code__.co_freevars}
    if source is None:
        return {(name, (), None): None for name in outer}
    finder = _ChainFinder(outer, _imports_of(source, function))
    node = source.node
    for statement in node.body if isinstance(node.body, list) else [node.body]:
        finder.visit(statement)
    return finder.found


def _imports_of(source: Source, function: FunctionType) -> dict[str, tuple[str, Chain]]:
    """The names that a function imports itself: the module, and the attribute of it that is meant."""
    found: dict[str, tuple[str, Chain]] = {}
    package = str(function.__globals__.get("__package__") or "")
    for node in ast.walk(source.node):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                found[name] = (alias.name if alias.asname else name, ())
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                module = resolve_name("." * node.level + module, package) if package else ""
            found.update((alias.asname or alias.name, (module, (("attr", alias.name),))) for alias in node.names)
    return found


def _global_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


class _ChainFinder:
    """Collects the longest chains of attributes and constant subscripts on outer names."""

    def __init__(self, outer: set[str], imports: Mapping[str, tuple[str, Chain]]) -> None:
        self.outer = outer
        self.imports = imports
        self.found: Names = {}

    def visit(self, statement: ast.AST) -> None:
        waiting = [statement]
        while waiting:
            node = waiting.pop()
            root, chain = chain_of(node)
            if not isinstance(root, ast.Name):
                waiting.extend([*ast.iter_child_nodes(root)][::-1])
            elif root.id in self.outer:
                self.found.setdefault((root.id, chain, None), node)
            elif root.id in self.imports:
                module, lead = self.imports[root.id]
                self.found.setdefault((root.id, lead + chain, module), node)
