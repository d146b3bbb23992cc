"""Errors of a kernel as its author reads them: in the names and at the places of the source.

Rules that raise know operands by the builtin's parameters; here the arguments' own text takes their place. Python's own
errors about traced values speak of tilekit's classes; here they speak of numbers, tiles and arrays.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import re
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType, TracebackType
from typing import Any, TypeGuard

from tilekit.errors import (
    KernelAttributeError,
    KernelIndexError,
    KernelNameError,
    KernelNotImplementedError,
    KernelTypeError,
    KernelValueError,
    Location,
    TilekitError,
)
from tilekit.frontend.source import locate_error, parse_text
from tilekit.ir.attributes import suggestion
from tilekit.ir.operands import describe

_TRANSLATED: dict[type[BaseException], type[TilekitError]] = {
    NameError: KernelNameError,
    AttributeError: KernelAttributeError,
    TypeError: KernelTypeError,
    IndexError: KernelIndexError,
    KeyError: KernelIndexError,
    ValueError: KernelValueError,
    ZeroDivisionError: KernelValueError,
    OverflowError: KernelValueError,
    RecursionError: KernelNotImplementedError,
}
_KINDS = {"Scalar": "a number", "Tile": "a tile", "Array": "an array", "Tid": "a number", "NoneType": "None"}
_IN_TEXT = {"Scalar": "a run-time number", "Text": "a text with run-time values"}
_LONGEST = 40


def translate(
    error: BaseException, dropped: dict[str, str] | None = None, kernel: Location | None = None
) -> BaseException:
    """An error that arose in a kernel, as tilekit's at the place in the kernel.

    ``dropped`` says of variables why they lost their value; ``kernel`` is where the kernel stands.
    """
    place = locate_error(error.__traceback__) or kernel
    if isinstance(error, AttributeError) and place is not None:
        place = _narrowed(place, error.name)
    if isinstance(error, TilekitError):
        error.at(place)
        name_operands(error)
        if error.variable:
            error.note = _assignments(error.variable, error.location)
        return error
    found = next((_TRANSLATED[kind] for kind in type(error).__mro__ if kind in _TRANSLATED), None)
    if found is None or place is None:
        return error
    return found(_message(error, place, dropped or {}), place)


def _message(error: BaseException, place: Location, dropped: dict[str, str]) -> str:
    if isinstance(error, NameError) and (name := error.name or _unbound_name(error)):
        return _name_message(name, error, place, dropped)
    if isinstance(error, AttributeError) and error.name:
        return _attribute_message(error)
    if isinstance(error, RecursionError):
        return "the kernel recurses without end; kernels cannot recurse"
    if isinstance(error, KeyError):
        return f"there is no key {error.args[0]!r}"
    return _python_message(str(error), place)


# The source.


def tree_of(file: str) -> ast.Module | None:
    """The syntax tree of a file, as linecache knows it."""
    try:
        return parse_text("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


def node_at(place: Location) -> ast.AST | None:
    """The expression or statement that stands exactly at a place."""
    tree = tree_of(place.file)
    for node in ast.walk(tree) if tree is not None else ():
        if getattr(node, "lineno", 0) != place.line or isinstance(node, ast.Expr):
            continue
        ends_here = getattr(node, "end_lineno", 0) == place.line
        ends_so = getattr(node, "end_col_offset", -1) == place.end_column or not (ends_here or place.end_column)
        if ends_so and getattr(node, "col_offset", -1) == place.column:
            return node
    return None


def _narrowed(place: Location, attribute: str | None) -> Location:
    """The part of a chain of attributes and subscripts that ends with the attribute, for a place of the whole chain."""
    node = node_at(place)
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr == attribute and node.end_lineno == place.line:
            return replace(place, end_column=node.end_col_offset or 0)
        node = node.value
    return place


def function_at(place: Location) -> ast.FunctionDef | ast.Lambda | None:
    """The innermost function around a place."""
    tree = tree_of(place.file)
    found = None
    for node in ast.walk(tree) if tree is not None else ():  # breadth first, so that the innermost comes last
        if isinstance(node, ast.FunctionDef | ast.Lambda) and node.lineno <= place.line <= (node.end_lineno or 0):
            found = node
    return found


# Operands.


def name_operands(error: TilekitError) -> None:
    """Let the message speak of a builtin's operands as the call spells them."""
    if error.builtin is None or error.location is None:
        return
    node = node_at(error.location)
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func).rpartition(".")[2]
        if error.template.startswith(error.builtin.name) and called.isidentifier():
            error.template = error.template.replace(error.builtin.name, called)
            error.message = error.message.replace(error.builtin.name, called)
    found = list(_arguments(node, error.builtin))
    if error.template != error.message:
        error.use_names({name: _operand_text(value) for name, value in found if len(ast.unparse(value)) <= _LONGEST})
        return
    error.use_names({})
    said = []
    for name, value in found:
        text = ast.unparse(value)
        if text != name and len(text) <= _LONGEST and not _is_literal(value):
            article = len(name) == 1 and not re.search(rf"\b{name}(?= is\b| must\b| has\b|\.)", error.template)
            said += [f"{name} is {text}"] if re.search(rf"\b{name}\b", error.template) and not article else []
    error.note = f"where {' and '.join(said)}" if said else ""


def _operand_text(value: ast.expr) -> str:
    """An operand as it can stand in a sentence and as an argument."""
    simple = isinstance(value, ast.Name | ast.Constant | ast.Attribute | ast.Call | ast.Subscript | ast.Tuple)
    return ast.unparse(value) if simple else f"({ast.unparse(value)})"


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def _arguments(node: ast.AST | None, builtin: Any) -> Iterator[tuple[str, ast.expr]]:
    """The parameters of a builtin with what stands for them; none where the call does not give one for each."""
    pairs: list[tuple[str, ast.expr]] = []
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == builtin.name:
        pairs = list(zip(builtin.signature.parameters, node.args, strict=False))
        pairs += [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
        needed = {name for name, p in builtin.signature.parameters.items() if p.default is p.empty}
        several = len(node.args) > len(builtin.signature.parameters) or needed - {name for name, _ in pairs}
        pairs = [] if several or any(isinstance(value, ast.Starred) for value in node.args) else pairs
    elif isinstance(node, ast.BinOp):
        pairs = list(zip(builtin.operand_names, (node.left, node.right), strict=False))
    elif isinstance(node, ast.Compare):
        pairs = list(zip(builtin.operand_names, (node.left, node.comparators[0]), strict=False))
    elif isinstance(node, ast.AugAssign):
        pairs = list(zip(builtin.operand_names, (node.target, node.value), strict=False))
    elif isinstance(node, ast.UnaryOp):
        pairs = list(zip(builtin.operand_names, (node.operand,), strict=False))
    yield from pairs


# Names.


def _assignments(name: str, place: Location | None) -> str:
    """Where the branch or loop at a place assigns a variable."""
    if place is None:
        return ""
    for node in ast.walk(tree_of(place.file) or ast.Pass()):
        if isinstance(node, ast.If | ast.For | ast.While) and node.lineno == place.line:
            lines = dict.fromkeys(item.lineno for item in ast.walk(node) if _stores(item, name))
            return f"assigned at line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}" if lines else ""
    return ""


def _name_message(name: str, error: NameError, place: Location, dropped: dict[str, str]) -> str:
    function = function_at(place)
    stores: list[ast.Name] = [] if function is None else [n for n in ast.walk(function) if _stores(n, name)]
    if not stores or function is None:
        known = {*_globals_of(error.__traceback__), *vars(builtins), *_local_names(function)}
        return f"name {name!r} is not defined{suggestion(name, known)}"
    if name in dropped:
        return f"{name!r} has no value here: {dropped[name]}"
    for store in stores:
        around = _blocks_around(function, store, place.line)
        if around:
            return (
                f"{name!r} may have no value here: line {store.lineno} assigns it, but only in the {around} may not "
                "run; give it a value before"
            )
    return f"{name!r} is read before line {stores[0].lineno} assigns it"


def _stores(node: ast.AST, name: str) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _blocks_around(function: ast.AST, inner: ast.Name, line: int) -> str:
    """The innermost branch or loop around ``inner`` that does not reach to ``line``."""
    found = ""
    for node in ast.walk(function):
        if not isinstance(node, ast.If | ast.For | ast.While):
            continue
        for word, body in ((type(node).__name__.lower(), node.body), ("else", node.orelse)):
            inside = body and body[0].lineno <= inner.lineno <= (body[-1].end_lineno or 0)
            target = isinstance(node, ast.For) and word == "for" and inner in ast.walk(node.target)
            if (inside or target) and not (body[0].lineno <= line <= (body[-1].end_lineno or 0)):
                found = f"{word!r} at line {node.lineno}, which"
    return found


def _unbound_name(error: NameError) -> str:
    """The name that Python's message is about, which some versions do not tell otherwise."""
    match = re.search(r"variable '(\w+)'", str(error))
    return match[1] if match else ""


def _globals_of(traceback: TracebackType | None) -> dict[str, Any]:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_globals if traceback is not None else {}


def _local_names(function: ast.AST | None) -> Iterator[str]:
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _attribute_message(error: AttributeError) -> str:
    holder = error.obj
    public = [name for name in dir(holder) if not name.startswith("_")]
    if isinstance(holder, ModuleType):
        return f"module {holder.__name__!r} has no attribute {error.name!r}{suggestion(error.name or '', public)}"
    return f"{describe(holder)} has no attribute {error.name!r}{suggestion(error.name or '', public)}"


# Python's own errors.

_BINARY = re.compile(r"unsupported operand type\(s\) for (\S+): '(\w+)' and '(\w+)'")
_COMPARED = re.compile(r"'(\S+)' not supported between instances of '(\w+)' and '(\w+)'")
_UNARY = re.compile(r"bad operand type for unary (\S+): '(\w+)'")
_OBJECT = re.compile(r"'(\w+)' object (is not subscriptable|is not callable|is not iterable|does not support .*)")
_CALLED = re.compile(r"([\w.<>]+)\(\) ((?:takes|missing|got) .*)")
_FORMAT = re.compile(r"(%\w) format: .*, not (?:Scalar|Tile|Array|Text)$")
_CLASS = re.compile(r"""['"]?\b(Scalar|Tile|Array|Text)\b['"]?""")
_UNPACKED = re.compile(r"cannot unpack non-iterable (\w+) object")


def _python_message(text: str, place: Location) -> str:
    for pattern in (_BINARY, _COMPARED):
        if match := pattern.match(text):
            symbol, *kinds = match.groups()
            shown = " and ".join(map(_kind, kinds))
            return f"{symbol.rstrip(':')!r} is not defined for {shown}{_array_hint(kinds)}"
    if match := _UNARY.match(text):
        return f"unary {match[1]!r} is not defined for {_kind(match[2])}{_array_hint([match[2]])}"
    if match := _OBJECT.match(text):
        subject = _subject(node_at(place))
        return f"{subject} is {_kind(match[1])}, which {match[2]}"
    if match := _UNPACKED.match(text):
        return f"{_kind(match[1])} cannot be unpacked into several names"
    if match := _CALLED.match(text):  # a lambda without parameters has the name of the kernel around it
        name = match[1].rpartition(".")[2]
        return f"{'the lambda' if name in ('<lambda>', place.function) else f'{name}()'} {match[2]}"
    if match := _FORMAT.match(text):
        return f"the format {match[1]} takes no run-time value; print(...) takes them as arguments"
    return _CLASS.sub(lambda found: _IN_TEXT.get(found[1]) or _kind(found[1]), text)


def _kind(name: str) -> str:
    return _KINDS.get(name, f"{'an' if name[0] in 'aeiou' else 'a'} {name}")


def _array_hint(kinds: list[str]) -> str:
    return "; read an element, as in a[i], or load a tile with tk.tile_load" if "Array" in kinds else ""


def _subject(node: ast.AST | None) -> str:
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value)
    return ast.unparse(node.func) if isinstance(node, ast.Call) else "this"


__all__ = ["function_at", "name_operands", "node_at", "translate"]
