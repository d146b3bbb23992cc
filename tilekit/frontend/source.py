"""The source of a user's function: its syntax tree at the user's line numbers, and where a running call stands."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from tilekit.errors import KernelSyntaxError, Location
from tilekit.forks import Lock
from tilekit.frontend.freshness import is_stale

_syntax = Lock()
"""CPython 3.11 counts the depth of syntax trees once for all threads, and fails where two convert trees at once."""


def parse_text(text: str) -> ast.Module:
    """``ast.parse``, by one thread at a time."""
    with _syntax:
        return ast.parse(text)


def compile_tree(tree: ast.Module | ast.Expression, file: str, mode: str) -> CodeType:
    """``compile`` of a syntax tree, by one thread at a time."""
    with _syntax:
        return compile(tree, file, mode, dont_inherit=True)


@dataclass(frozen=True)
class Source:
    """A function definition or lambda as parsed, with columns and lines as in the user's file."""

    function: FunctionType
    file: str
    node: ast.FunctionDef | ast.Lambda
    text: str
    first: int = 1
    """The line of the file on which ``text`` begins."""

    @property
    def name(self) -> str:
        return self.function.__name__

    def again(self) -> Source:
        """The same, parsed once more: rewriting changes the tree."""
        return _parsed(self.function, self.file, self.text, self.first)

    def location(self, node: ast.AST) -> Location:
        line = getattr(node, "lineno", self.node.lineno)
        column, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        if getattr(node, "end_lineno", line) != line:  # the head of a statement of several lines
            end = len(linecache.getline(self.file, line).rstrip())
        return Location(self.file, line, column, end, self.name)


_lines_of: WeakKeyDictionary[FunctionType, list[str]] = WeakKeyDictionary()
_lines_in: dict[str, list[str]] = {}
"""The lines of files when kernels in them were declared: what helpers there are read from."""


def keep_source(function: FunctionType) -> None:
    """Remember the file as it is now: it may be edited between the declaration of a kernel and its first launch."""
    file = function.__code__.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, function.__globals__)
    if lines:
        _lines_of[function] = _lines_in[file] = lines


def _kept_lines(function: FunctionType) -> list[str] | None:
    return _lines_of.get(function) or _lines_in.get(function.__code__.co_filename)


def _source_lines(function: FunctionType) -> tuple[list[str], int]:
    """The lines of a function's definition, and the number of the first."""
    kept = _kept_lines(function)
    first = function.__code__.co_firstlineno
    if kept is None or first > len(kept):
        return inspect.getsourcelines(function)
    return inspect.getblock(kept[first - 1 :]), first


def read_source(function: FunctionType) -> Source:
    """Parse a function where it stands.

    Raises:
        KernelSyntaxError: there is no source (``exec``, ``python -c``), or it cannot be told apart from others.
    """
    file = inspect.getsourcefile(function) or function.__code__.co_filename
    try:
        lines, first = _source_lines(function)
    except (OSError, TypeError):
        raise KernelSyntaxError(
            f"the source of {function.__name__!r} is not available; define kernels in a file, a notebook cell or an "
            "IPython prompt, not through exec() or python -c"
        ) from None
    text = "".join(lines)
    if is_stale(function, file):
        raise KernelSyntaxError(
            f"the source of {function.__name__!r} was changed after it was imported; import it again, for example with "
            "importlib.reload",
            Location(file, first, function=function.__name__),
        )
    return _parsed(function, file, text, first)


def _parsed(function: FunctionType, file: str, text: str, first: int) -> Source:
    where = Location(file, first, function=function.__name__)
    if function.__name__ == "<lambda>":
        return Source(function, file, _mangled(_find_lambda(function, file, where), function), text, first)
    # Not textwrap.dedent: lines of strings may stand further left than the function, or be blanks alone.
    nested = text[:1].isspace()
    shift = first - 2 if nested else first - 1
    node = _parse(f"if True:\n{text}" if nested else text, function, where, shift)
    for item in ast.walk(node):
        if hasattr(item, "lineno"):
            item.lineno += shift
            item.end_lineno += shift  # type: ignore[attr-defined]
    return Source(function, file, _mangled(node, function), text, first)


Node = TypeVar("Node", bound=ast.AST)


def _mangled(node: Node, function: FunctionType) -> Node:
    """The tree with names such as ``__x`` as Python spells them inside a class."""
    parts = function.__qualname__.split(".")
    while len(parts) > 2 and parts[-2] == "<locals>":  # a function inside a method
        del parts[-2:]
    kind = parts[-2].lstrip("_") if len(parts) > 1 else ""
    for item in ast.walk(node) if kind else ():
        for field in ("id", "attr", "arg"):
            name = getattr(item, field, None)
            if isinstance(name, str) and name.startswith("__") and not name.endswith("__"):
                setattr(item, field, f"_{kind}{name}")
    return node


def _parse(text: str, function: FunctionType, where: Location, shift: int) -> ast.FunctionDef:
    try:
        tree = parse_text(text)
    except SyntaxError as error:
        raise KernelSyntaxError(f"cannot parse {function.__name__!r}: {error.msg}", where) from None
    node = tree.body[0]
    if isinstance(node, ast.If):
        node = node.body[0]
    if not isinstance(node, ast.FunctionDef):
        kind = "an async function" if isinstance(node, ast.AsyncFunctionDef) else "not a plain function"
        where = Location(where.file, getattr(node, "lineno", 1) + shift, function=function.__name__)
        raise KernelSyntaxError(f"{function.__name__!r} is {kind}; kernels are plain 'def' functions", where)
    return node


def _find_lambda(function: FunctionType, file: str, where: Location) -> ast.Lambda:
    """The lambda of the file whose body the function's code was compiled from, by lines and columns."""
    lines = _kept_lines(function) or linecache.getlines(file, function.__globals__)
    try:
        tree: ast.AST = parse_text("".join(lines))
    except SyntaxError:
        tree = ast.Pass()
    code = function.__code__
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and _holds(node, code)]
    if not found:
        raise KernelSyntaxError("cannot find the source of this lambda; write it as a function", where)
    return found[-1]  # breadth first, so that the innermost comes last


def _holds(node: ast.Lambda, code: CodeType) -> bool:
    """Whether all instructions of a lambda's code stand in the body of the node."""
    if tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args)) != code.co_varnames[: code.co_argcount]:
        return False
    places = [place for place in code.co_positions() if None not in place and place[2] != place[3]]
    body: Any = node.body
    start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    inside = all(start <= (first, column) and (last, stop) <= end for first, last, column, stop in places)
    return bool(places) and inside


# Where a running call stands.

_codes: dict[int, tuple[CodeType, str]] = {}
_positions: dict[int, list[tuple[int | None, int | None, int | None, int | None]]] = {}


def register_code(code: CodeType, function: str) -> None:
    """Remember that ``code`` and what is nested in it were compiled from the source of the user's ``function``."""
    _codes[id(code)] = (code, function)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            register_code(constant, function)


def is_registered(code: CodeType) -> bool:
    """Whether code was compiled from rewritten source."""
    return id(code) in _codes


def _place(code: CodeType, instruction: int, line: int) -> Location:
    found = _positions.get(id(code))
    if found is None:
        found = _positions[id(code)] = list(code.co_positions())
    start, end, column, end_column = found[instruction // 2]
    if start is None or start != end:
        end_column = 0
    return Location(code.co_filename, start or line, column or 0, end_column or 0, _codes[id(code)][1])


_located: dict[tuple[int, ...], Location | None] = {}
_outermost: set[int] = set()


def outermost(function: Any) -> None:
    """Note that what called ``function`` is no part of a kernel."""
    _outermost.add(id(function.__code__))


def locate(frame: FrameType | None = None) -> Location | None:
    """The innermost place in a user's kernel that the current call stems from, with the helpers it came through."""
    frame = frame or sys._getframe(1)
    frames = []
    key: list[int] = []
    while frame is not None:
        code = id(frame.f_code)
        if code in _codes:
            frames.append((frame.f_code, frame.f_lasti, frame.f_lineno))
            key += code, frame.f_lasti
        elif code in _outermost:
            break
        frame = frame.f_back
    place = tuple(key)
    if place not in _located:
        _located[place] = _chain(iter(frames))
    return _located[place]


def called_by_kernel() -> bool:
    """Whether a kernel runs this call, and no debugger that looks into one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and id(frame.f_code) not in _codes:
        if frame.f_globals.get("__name__", "").partition(".")[0] != "tilekit":
            return False
        frame = frame.f_back
    return frame is not None


def _chain(frames: Iterator[tuple[CodeType, int, int]]) -> Location | None:
    """Locations of one function's frames (nested bodies of its control flow) count as one call."""
    calls: list[Location] = []
    for code, instruction, line in frames:
        if not calls or calls[-1].function != _codes[id(code)][1]:
            calls.append(_place(code, instruction, line))
    found: Location | None = None
    for place in reversed(calls):
        found = Location(place.file, place.line, place.column, place.end_column, place.function, found)
    return found


def locate_error(traceback: TracebackType | None) -> Location | None:
    """The innermost place in a user's kernel that a traceback passes through."""
    found: list[tuple[CodeType, int, int]] = []
    while traceback is not None:
        code: Any = traceback.tb_frame.f_code
        if id(code) in _codes:
            found.append((code, traceback.tb_lasti, traceback.tb_lineno))
        traceback = traceback.tb_next
    return _chain(iter(reversed(found)))


def in_kernels(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback with the frames of users' kernels alone, so that debuggers look there after an error."""
    if traceback is None:
        return None
    rest = in_kernels(traceback.tb_next)
    if id(traceback.tb_frame.f_code) not in _codes:
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
