"""The rewriting of expressions that Python would decide by itself: ``and``, ``or``, ``not``, ``a if c else b``,
comparisons in chains, integer division, and calls. Everything else stays Python."""

from __future__ import annotations

import ast
from typing import Any

from tilekit.errors import KernelSyntaxError
from tilekit.frontend.scopes import assigned_names, called_name, chain_of, local_names, target_form
from tilekit.frontend.source import Source

SUPPORT = "__tk"
"""The name under which rewritten code finds the frontend's support object."""

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.NamedExpr: ("an assignment expression ':='", "assign on a line of its own"),
    ast.Await: ("'await'", "kernels are not asynchronous"),
    ast.Yield: ("'yield'", "store results in arrays or return them from a helper"),
    ast.YieldFrom: ("'yield from'", "store results in arrays or return them from a helper"),
}


SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&", ast.MatMult: "@",
}  # fmt: skip


def support(name: str, *arguments: ast.expr, at: ast.AST) -> ast.Call:
    """A call of the support object's method, standing where ``at`` stands."""
    function = ast.Attribute(ast.Name(SUPPORT, ast.Load()), name, ast.Load())
    call = ast.Call(function, list(arguments), [])
    return place(call, at)  # type: ignore[no-any-return]


def site_of(kind: str, node: Any, source: Source) -> tuple[str, int, int, str]:
    """The name of a piece of control flow; kinds tell apart what one statement gives rise to."""
    return kind, node.lineno, node.col_offset, source.file


def place(node: Any, at: ast.AST) -> Any:
    """Give ``node``, and what in it has no place yet, the place of ``at``."""
    for item in ast.walk(node):
        if isinstance(item, ast.expr | ast.stmt | ast.arg | ast.keyword) and not hasattr(item, "lineno"):
            ast.copy_location(item, at)
            _keep_to_first_line(item, at)
    return node


def _keep_to_first_line(item: Any, at: Any) -> None:
    """What stands for a statement of several lines stands at its head: Python would name its last line."""
    if getattr(at, "end_lineno", None) in (None, at.lineno):
        return
    head = getattr(at, "iter", None) or getattr(at, "test", None)
    item.end_lineno, item.end_col_offset = at.lineno, at.col_offset + 1
    if head is not None and head.end_lineno == at.lineno:
        item.end_col_offset = head.end_col_offset


def thunk(value: ast.expr) -> ast.Lambda:
    arguments = ast.arguments([], [], None, [], [], None, [])
    return place(ast.Lambda(arguments, value), value)  # type: ignore[no-any-return]


def is_static(node: ast.AST) -> bool:
    """Whether this is a call that reads ``static(...)``, ``tk.static(...)`` or ``wp.static(...)``."""
    return isinstance(node, ast.Call) and called_name(node) == "static"


def word_of(node: ast.BoolOp) -> str:
    """``"and"`` or ``"or"``, which is also the kind of the expression's site."""
    return "and" if isinstance(node.op, ast.And) else "or"


COMPARISONS = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!="}
"""Comparisons of numbers."""


class Expressions(ast.NodeTransformer):
    """Rewrites expressions; ``lazy`` keeps Python's own short-circuits, for eager execution."""

    def __init__(self, source: Source, lazy: bool) -> None:
        self.source = source
        self.lazy = lazy
        self.local = local_names(source.node)
        self.carried: set[str] = set()
        """Where this is the test of a ``while``: the names that its body assigns."""

    def test_of(self, node: ast.While) -> ast.expr:
        """The rewritten test of a loop."""
        outer, self.carried = self.carried, set(assigned_names(node.body))
        try:
            return self.test(node.test)  # type: ignore[no-any-return]
        finally:
            self.carried = outer

    def refuse(self, node: ast.AST, what: str, instead: str) -> KernelSyntaxError:
        return KernelSyntaxError(f"{what} is not supported in kernels; {instead}", self.source.location(node))

    def site(self, kind: str, node: ast.AST) -> ast.expr:
        """A constant that names one piece of control flow (see ``joins``)."""
        name: Any = site_of(kind, node, self.source)
        return place(ast.Constant(name), node)  # type: ignore[no-any-return]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if type(node) in _REFUSED:
            raise self.refuse(node, *_REFUSED[type(node)])
        return super().generic_visit(node)

    def test(self, node: ast.expr) -> Any:
        """An expression of which only the truth is asked: operands of ``and`` and ``or`` may differ in type."""
        if not isinstance(node, ast.BoolOp) or self.lazy:
            return self.visit(node)
        return support(word_of(node) + "_", *(thunk(self.test(value)) for value in node.values), at=node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        site = self.site(word_of(node), node)
        self.generic_visit(node)
        return support(word_of(node) + "_operand", site, *map(thunk, node.values), at=node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)
        return support("not_", self.test(node.operand), at=node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test, node.body, node.orelse = self.test(node.test), self.visit(node.body), self.visit(node.orelse)
        if self.lazy:
            node.test = support("truth", node.test, at=node.test)
            return node
        return support("ifexp", node.test, thunk(node.body), thunk(node.orelse), self.site("choice", node), at=node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        kinds = (ast.Is, ast.IsNot) if self.lazy else (ast.Is, ast.IsNot, ast.In, ast.NotIn)
        if len(node.ops) == 1 and type(node.ops[0]).__name__ in COMPARISONS:
            symbol = place(ast.Constant(COMPARISONS[type(node.ops[0]).__name__]), node)
            return support("ordered", symbol, node.left, node.comparators[0], at=node)
        if self.lazy and not isinstance(node.ops[0], kinds):
            return node
        steps: list[ast.expr] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            steps += place(ast.Constant(type(op).__name__), node), thunk(right)
        return support("compare", node.left, *steps, at=node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        divisor = {item.id for item in ast.walk(node.right) if isinstance(item, ast.Name)}
        carried = [place(ast.Constant(True), node)] if not self.carried.isdisjoint(divisor) else []
        self.generic_visit(node)
        if isinstance(node.op, ast.Div | ast.Mod):
            return support("div" if isinstance(node.op, ast.Div) else "mod", node.left, node.right, *carried, at=node)
        if isinstance(node.op, ast.MatMult):
            return node
        symbol = place(ast.Constant(SYMBOLS[type(node.op)]), node)
        return support("binary", symbol, node.left, node.right, *carried, at=node)

    def visit_List(self, node: ast.List) -> ast.AST:
        self.generic_visit(node)
        return support("list_", node, at=node) if isinstance(node.ctx, ast.Load) else node

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        self.generic_visit(node)
        return support("list_", followed(node), at=node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        self.generic_visit(node)
        return followed(node)

    def owned(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """What is assigned to a target: names have values of their own."""
        form = place(ast.Constant(target_form(target)), value)
        return support("own", value, form, at=value)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        form = place(ast.Constant(target_form(node.target)), node.iter)
        node.iter = support("each", node.iter, form, at=node.iter)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        return support("dict_", node, at=node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if is_static(node):  # its arguments are plain Python
            node.func = self.visit(node.func)
            if not self.lazy:
                plain = Plain(self.local)
                node.args = [plain.visit(item) for item in node.args]
        else:
            node.func = node.func if isinstance(node.func, ast.Name) else self.visit(node.func)
            node.args = [self.visit(item) for item in node.args]
            node.keywords = [self.visit(item) for item in node.keywords]
            if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
                node.args = self._class_and_self(node)
        node.func = support("fn", node.func, at=node.func)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """An outer name."""
        if not isinstance(node.ctx, ast.Load) or node.id in self.local or node.id.startswith("__"):
            return node
        return support("outer", node, at=node)

    def _class_and_self(self, at: ast.Call) -> list[ast.expr]:
        """What ``super()`` finds in the frame that calls it, which here is another one."""
        arguments = self.source.node.args.args
        if "__class__" not in self.source.function.__code__.co_freevars or not arguments:
            return []
        return [place(ast.Name(name, ast.Load()), at) for name in ("__class__", arguments[0].arg)]

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """An f-string: run-time values in it have no text yet."""
        parts: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                spec = ast.Constant("") if part.format_spec is None else self.visit(part.format_spec)
                items = [self.visit(part.value), ast.Constant(part.conversion), spec]
                part = place(ast.Tuple(items, ast.Load()), part)
            parts.append(part)
        return support("text", *parts, at=node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """``name.attribute`` of an outer name: of the module ``warp``, tilekit's attribute is meant. Of all else, the
        trace hears that it is read."""
        if not self.lazy and reads_inside(node, self.local):
            return read_of(node, self.visit(chain_of(node)[0]))
        if isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load) and node.value.id not in self.local:
            return support("attr", node.value, place(ast.Constant(node.attr), node), at=node)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not self.lazy and reads_inside(node, self.local):
            return read_of(node, self.visit(chain_of(node)[0]))
        return self.generic_visit(node)


def reads_inside(node: ast.Attribute | ast.Subscript, local: set[str]) -> bool:
    """Whether this reads an attribute of something that no outer name leads to."""
    root, chain = chain_of(node)
    named = isinstance(root, ast.Name) and root.id not in local
    return isinstance(node.ctx, ast.Load) and not named and any(kind == "attr" for kind, _ in chain)


def read_of(node: ast.Attribute | ast.Subscript, root: ast.expr) -> ast.expr:
    """The same in the trace's hearing."""
    chain: Any = chain_of(node)[1]
    text = ast.unparse(node)
    return support("read", root, place(ast.Constant(chain), node), place(ast.Constant(text), node), at=node)


class Plain(ast.NodeTransformer):
    """Leaves an expression to Python, in the trace's hearing."""

    def __init__(self, local: set[str]) -> None:
        self.local = local

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if reads_inside(node, self.local):
            return read_of(node, self.visit(chain_of(node)[0]))
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.func = support("plain", node.func, at=node.func)
        return node


def followed(node: ast.ListComp | ast.DictComp) -> ast.expr:
    """A comprehension whose path leads through each of its items."""
    for part in node.generators:
        part.iter = support("followed", part.iter, at=part.iter)
    return node
