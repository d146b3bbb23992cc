"""Which names a piece of a kernel assigns, and how control leaves it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

Chain = tuple[tuple[str, Any], ...]
"""Steps from a name to the value that is used: ``("attr", "TILE")`` or ``("item", "bias")``."""

INNER_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def chain_of(node: ast.AST) -> tuple[ast.AST, Chain]:
    """What the attributes and constant subscripts at the end of an expression are taken of, and these."""
    chain: list[tuple[str, Any]] = []
    while True:
        if isinstance(node, ast.Attribute):
            chain.append(("attr", node.attr))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            chain.append(("item", node.slice.value))
        else:
            return node, tuple(reversed(chain))
        node = node.value


def shown_chain(chain: Chain) -> str:
    """A chain as it reads in Python."""
    return "".join(f".{key}" if kind == "attr" else f"[{key!r}]" for kind, key in chain)


def called_name(node: ast.Call) -> str:
    """How the function is called that a call names."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def walk_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node that binds in one function scope: not those in lambdas and comprehensions, which have their own.

    A function among the nodes is a body that was rewritten; it knows itself what it assigns.
    """
    waiting = list(nodes)[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*INNER_SCOPES, ast.FunctionDef)):
            waiting.extend([*ast.iter_child_nodes(node)][::-1])


def assigned_names(nodes: Iterable[ast.AST]) -> dict[str, bool]:
    """The names that are bound here; True where by a plain assignment, False where only by ``+=`` and its kin."""
    found: dict[str, bool] = {}
    for node in walk_scope(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = found.get(node.id, False) or not getattr(node, "augmented", False)
        for name, plain in getattr(node, "assigned", {}).items():
            found[name] = found.get(name, False) or plain
    return found


def local_names(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    """The names that a function binds: its parameters, what it assigns, and those of lambdas and comprehensions."""
    found = {item.arg for item in ast.walk(function) if isinstance(item, ast.arg)}
    return found | {
        item.id for item in ast.walk(function) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
    }


def loaded_names(nodes: Iterable[ast.AST]) -> Counter[str]:
    """How often each name is read here; ``x += 1`` reads ``x``.

    A statement is counted once: it keeps the number, also where its parts are rewritten later.
    """
    found: Counter[str] = Counter()
    for node in nodes:
        found.update(_loads(node))
    return found


def _loads(node: ast.AST) -> Counter[str]:
    known: Counter[str] | None = getattr(node, "loads", None)
    if known is None:
        known = Counter()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            known[node.id] += 1
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            known[node.target.id] += 1
        for child in ast.iter_child_nodes(node):
            known.update(_loads(child))
        if isinstance(node, ast.stmt):
            node.loads = known  # type: ignore[attr-defined]
    return known


def compound_statements(node: ast.AST) -> int:
    """How many branches and loops stand in a function."""
    return sum(isinstance(item, ast.If | ast.For | ast.While) for item in ast.walk(node))


def leaves_by(nodes: Iterable[ast.AST], kinds: tuple[type[ast.stmt], ...]) -> bool:
    """Whether one of the jumps stands here; ``break`` and ``continue`` of inner loops are their own."""
    for node in nodes:
        if isinstance(node, kinds):
            return True
        if isinstance(node, ast.For | ast.While):
            inner = tuple(kind for kind in kinds if kind is ast.Return)
            if inner and leaves_by([*node.body, *node.orelse], inner):
                return True
        elif isinstance(node, ast.If) and leaves_by([*node.body, *node.orelse], kinds):
            return True
    return False


JUMPS = (ast.Return, ast.Break, ast.Continue)


def always_leaves(nodes: list[ast.stmt]) -> bool:
    """Whether every path through these statements ends in a jump."""
    for node in nodes:
        if isinstance(node, JUMPS):
            return True
        if isinstance(node, ast.If) and node.orelse and always_leaves(node.body) and always_leaves(node.orelse):
            return True
    return False


def target_form(target: ast.expr) -> Any:
    """The form of an assignment's target (see ``binding``)."""
    if isinstance(target, ast.Tuple | ast.List):
        return tuple(map(target_form, target.elts))
    return None if isinstance(target, ast.Name) else "*" if isinstance(target, ast.Starred) else "item"


_FIXED_ATTRIBUTES = ("dtype", "ndim")
_FIXED_CALLS = ("isinstance", "hasattr", "static")


def is_fixed(test: ast.expr, local: set[str]) -> bool:
    """Whether a condition is surely known when the kernel is compiled, whatever is unrolled and helpers are given."""
    match test:
        case ast.Constant():
            return True
        case ast.Name():
            return test.id not in local
        case ast.Attribute():
            return test.attr in _FIXED_ATTRIBUTES or is_fixed(test.value, local)
        case ast.Call():
            return called_name(test) in _FIXED_CALLS
        case ast.Compare() if all(isinstance(op, ast.Is | ast.IsNot) for op in test.ops):
            return True
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp() | ast.BinOp() | ast.Subscript() | ast.Tuple() | ast.List():
            parts = [part for part in ast.iter_child_nodes(test) if isinstance(part, ast.expr)]
            return all(is_fixed(part, local) for part in parts)
    return False
