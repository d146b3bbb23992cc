"""The second, lighter rewriting of a kernel's syntax: control flow stays Python's, so that debuggers work in it.

Lines, columns and local variables are the user's. Tests go through ``truth``, calls and integer arithmetic through the
support object. Where a variable that holds a literal takes a dtype in the compiled form (see ``joins``), a conversion
without a line of its own follows, which no debugger stops at.
"""

from __future__ import annotations

import ast
from typing import Any

from tilekit.frontend.expressions import place, site_of, support
from tilekit.frontend.joins import Joins, Site, each_of
from tilekit.frontend.scopes import JUMPS, always_leaves, leaves_by
from tilekit.frontend.source import Source
from tilekit.frontend.syntax import FUNCTION, RESULT, Statements, bare, check_arguments, factory

LEFT = "__left"
"""A hidden variable: the operand of ``and`` or ``or`` before the current one."""

Steps = tuple[Site, ...]
"""The sites that control passes on its way out of a place, the nearest first; those of kind "loop" are its loops."""


def known(value: Any, at: ast.AST) -> ast.expr:
    """A constant, such as a site or several, standing where ``at`` stands."""
    return place(ast.Constant(value), at)  # type: ignore[no-any-return]


class EagerStatements(Statements):
    """Rewrites a function's statements for eager execution."""

    def __init__(self, source: Source, joins: Joins) -> None:
        super().__init__(source, lazy=True)
        self.joins = joins
        self.out: Steps = ()

    def named(self, kind: str, node: ast.AST) -> Site:
        return site_of(kind, node, self.source)

    def inside(self, statements: list[ast.stmt], *steps: Site) -> list[ast.stmt]:
        """The rewritten statements of a body from which control passes ``steps``."""
        outer = self.out
        self.out = (*steps, *outer)
        try:
            return self.body(statements)
        finally:
            self.out = outer

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for index, statement in enumerate(statements):
            rest = statements[index + 1 :]
            guard = self.named("rest", statement)
            if isinstance(statement, ast.If) and rest and leaves_by([statement], JUMPS):
                return result + self._if_before(statement, rest, guard)
            if rest and isinstance(statement, ast.For | ast.While) and leaves_by([statement], (ast.Return,)):
                return result + self._then(statement, rest, guard)
            result += self.statement(statement)
            if isinstance(statement, JUMPS):
                return result
        return result

    def _if_before(self, statement: ast.If, rest: list[ast.stmt], guard: Site) -> list[ast.stmt]:
        """An ``if`` that may jump over ``rest``, joined as in the compiled form."""
        if always_leaves(statement.body):
            joined = ast.If(statement.test, statement.body, [*statement.orelse, *rest])
        elif statement.orelse and always_leaves(statement.orelse):
            joined = ast.If(statement.test, [*statement.body, *rest], statement.orelse)
        else:
            return self._then(statement, rest, guard)
        return self.visit_If(ast.copy_location(joined, statement))

    def _then(self, statement: ast.stmt, rest: list[ast.stmt], guard: Site) -> list[ast.stmt]:
        outer = self.out
        self.out = (guard, *outer)
        try:
            return self.statement(statement) + self.body(rest) + self.join(guard)
        finally:
            self.out = outer

    # Conversions.

    def join(self, *sites: Site) -> list[ast.stmt]:
        """Statements that convert what joins at the sites, all on the current path."""
        return [
            convert
            for site in sites
            for name in self.joins.names(site)
            if name != RESULT
            for convert in self._convert(name, "join", site)
        ]

    def leave(self, steps: Steps) -> list[ast.stmt]:
        """Statements that convert what joins on the way of a jump."""
        names = [name for name in self.joins.names(*steps) if name != RESULT]
        return [convert for name in names for convert in self._convert(name, "leave", steps)]

    @staticmethod
    def _convert(name: str, method: str, sites: Any) -> list[ast.stmt]:
        at = ast.Constant(None, lineno=-1, end_lineno=-1, col_offset=-1, end_col_offset=-1)
        value = place(ast.Name(name, ast.Load()), at)
        arguments = (known(sites, at), known(name, at), value)
        return [place(ast.Assign([ast.Name(name, ast.Store())], support(method, *arguments, at=at)), at)]

    # Control flow.

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        site = self.named("if", node)
        test = self._test(node.test)
        body, orelse = self.inside(node.body, site), self.inside(node.orelse, site)
        return [ast.copy_location(ast.If(test, body, orelse), node), *self.join(site)]

    def _test(self, test: ast.expr) -> ast.expr:
        return support("truth", self.visit(test), at=test)

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        self.refuse_else(node)
        site = self.named("loop", node)
        jumps = leaves_by(node.body, (ast.Break, ast.Return))
        arguments = (known(site, node.iter), known(jumps, node.iter))
        items = support("iterate", self.visit(node.iter), *arguments, at=node.iter)
        loop = ast.For(node.target, items, self._iteration(node.body, site), self.join(site))
        return [ast.copy_location(loop, node)]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.refuse_else(node)
        site = self.named("loop", node)
        loop = ast.While(self._test(node.test), self._iteration(node.body, site), self.join(site))
        return [ast.copy_location(loop, node)]

    def _iteration(self, body: list[ast.stmt], site: Site) -> list[ast.stmt]:
        return [*self.join(site), *self.inside(body, site), *self.join(each_of(site))]

    def _inside_loop(self) -> Steps:
        """The steps out of the current place that lie inside its innermost loop."""
        kinds = [site[0] for site in self.out]
        return self.out[: kinds.index("loop")]

    def visit_Break(self, node: ast.Break) -> Any:
        inner = self._inside_loop()
        return [*self.leave(self.out[: len(inner) + 1]), node]

    def visit_Continue(self, node: ast.Continue) -> Any:
        inner = self._inside_loop()
        return [*self.leave((*inner, each_of(self.out[len(inner)]))), node]

    def visit_Return(self, node: ast.Return) -> Any:
        if node.value is not None:
            node.value = self.visit(node.value)
            if RESULT in self.joins.names(*self.out):
                at = node.value
                arguments = (known(self.out, at), known(RESULT, at), at)
                node.value = support("leave", *arguments, at=at)
        return [node]

    # Expressions.

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        site = self.named("choice", node)
        chosen: Any = super().visit_IfExp(node)
        if not self.joins.names(site):
            return chosen
        arguments = (known(site, node), known("chosen", node))
        return support("join", *arguments, chosen, at=node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return support("not_", node.operand, at=node) if isinstance(node.op, ast.Not) else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """``a and b``: a bool as soon as one of the operands that decide is a run-time value."""
        self.generic_visit(node)
        last = len(node.values) - 1
        for index, value in enumerate(node.values):
            before = ast.Name(LEFT, ast.Load()) if index else ast.Constant(None)
            part = support("operand", place(before, value), value, at=value)
            if index < last:
                part = place(ast.NamedExpr(ast.Name(LEFT, ast.Store()), part), value)
            node.values[index] = part
        return node


def rewrite_eagerly(source: Source, joins: Joins) -> ast.Module:
    """A module that defines ``FACTORY``: from the support object and the closure's values to the function."""
    node = source.node
    statements = EagerStatements(source, joins)
    if isinstance(node, ast.Lambda):
        body, arguments = statements.body([place(ast.Return(node.body), node.body)]), node.args
    else:
        body, arguments = statements.body(node.body), node.args
    check_arguments(source, arguments)
    function = ast.FunctionDef(FUNCTION, bare(arguments), body, [])
    return factory(source, place(function, node))
