"""The second, lighter rewriting of a kernel's syntax: control flow stays Python's, so that debuggers work in it.

Lines, columns and local variables are the user's. Tests go through ``truth``, calls and integer arithmetic through the
support object. Where a variable that holds a literal takes a dtype in the compiled form (see ``joins``), a conversion
without a line of its own follows, which no debugger stops at.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilekit.frontend.expressions import SUPPORT, place, site_of, support, word_of
from tilekit.frontend.joins import Joins, Site, each_of
from tilekit.frontend.scopes import JUMPS, always_leaves, leaves_by, target_form
from tilekit.frontend.source import Source
from tilekit.frontend.syntax import FUNCTION, RESULT, Statements, bare, check_arguments, factory, name_parameters

Place = tuple[str, int, int]
"""File, line and column of a statement or expression."""

Steps = tuple[Site, ...]
"""The sites that control passes on its way out of a place, the nearest first; those of kind "loop" are its loops."""


def known(value: Any, at: ast.AST) -> ast.expr:
    """A constant, such as a site or several, standing where ``at`` stands."""
    return place(ast.Constant(value), at)  # type: ignore[no-any-return]


def hide(make: Callable[[ast.AST], ast.stmt]) -> ast.stmt:
    """A statement without a line of its own: no debugger stops at it."""
    at = ast.Constant(None, lineno=-1, end_lineno=-1, col_offset=-1, end_col_offset=-1)
    return place(make(at), at)  # type: ignore[no-any-return]


class EagerStatements(Statements):
    """Rewrites a function's statements for eager execution."""

    def __init__(self, source: Source, joins: Joins, apart: frozenset[Place]) -> None:
        super().__init__(source, lazy=True)
        self.joins = joins
        self.out: Steps = ()
        self.converted: set[str] = set()
        self.apart = {place[1:] for place in apart if place[0] == source.file}
        self.depth = 0
        """Pieces of control flow around the current place that lanes may enter without the others."""

    def named(self, kind: str, node: ast.AST) -> Site:
        return site_of(kind, node, self.source)

    def inside(self, node: ast.AST, statements: list[ast.stmt], step: Site) -> list[ast.stmt]:
        """The rewritten statements of a part of ``node`` from which control passes ``step``."""
        outer = self.out
        self.out = (step, *outer)
        self.depth += self.parts(node)
        try:
            return self.at_depth() + self.body(statements)
        finally:
            self.out = outer
            self.depth -= self.parts(node)

    def parts(self, node: Any) -> bool:
        """Whether lanes may take different ways here."""
        return (node.lineno, node.col_offset) in self.apart

    def at_depth(self) -> list[ast.stmt]:
        """A statement that tells the lane how deep it is; none where lanes never part."""
        return [hide(lambda at: ast.Expr(self._depth(at)))] if self.apart else []

    def before(self, node: ast.AST) -> list[ast.stmt]:
        """A statement where all lanes meet before they part."""
        meets = self.parts(node) and not self.depth
        return [hide(lambda at: ast.Expr(support("meet", at=at)))] if meets else []

    def _depth(self, at: ast.AST) -> ast.expr:
        return support("part", known(self.depth, at), at=at)

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
            first = self.statement(statement)
            self.depth += self.parts(statement)
            following = self.at_depth() + self.body(rest)
            self.depth -= self.parts(statement)
            return first + following + self.at_depth() + self.join(guard)
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

    def _convert(self, name: str, method: str, sites: Any) -> list[ast.stmt]:
        self.converted.add(name)

        def convert(at: ast.AST) -> ast.stmt:
            arguments = (known(sites, at), known(name, at), place(ast.Name(name, ast.Load()), at))
            return ast.Assign([ast.Name(name, ast.Store())], support(method, *arguments, at=at))

        return [hide(convert)]

    # Control flow.

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        site = self.named("if", node)
        test = self._test(node.test)
        body = self.inside(node, node.body, site)
        orelse = self.inside(node, node.orelse, site) if node.orelse else []
        joined = ast.copy_location(ast.If(test, body, orelse), node)
        return [*self.before(node), joined, *self.at_depth(), *self.join(site)]

    def _test(self, test: ast.expr) -> ast.expr:
        return support("truth", self.visit(test), at=test)

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        self.refuse_else(node)
        site = self.named("loop", node)
        arguments = (known(site, node.iter), known(target_form(node.target), node.iter))
        items = support("iterate", self.items(node), *arguments, at=node.iter)
        loop = ast.For(node.target, items, self._iteration(node, site), self.join(site))
        return [*self.before(node), ast.copy_location(loop, node), *self.at_depth()]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.refuse_else(node)
        site = self.named("loop", node)
        test = support("truth", self.test_of(node), at=node.test)
        loop = ast.While(test, self._iteration(node, site), self.join(site))
        return [*self.before(node), ast.copy_location(loop, node), *self.at_depth()]

    def _iteration(self, node: ast.For | ast.While, site: Site) -> list[ast.stmt]:
        return [*self.join(site), *self.inside(node, node.body, site), *self.join(each_of(site))]

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
            node.value = support("given", node.value, at=node.value)
        return [node]

    # Expressions.

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        chosen: Any = self._meeting(node, super().visit_IfExp(node), ("body", "orelse"))
        return support("value", self._joined("choice", chosen, node), at=node)

    def _joined(self, kind: str, chosen: ast.expr, node: ast.AST) -> ast.expr:
        """An expression that one of its parts gives, in the dtype that the compiled form has for it."""
        site = self.named(kind, node)
        if not self.joins.names(site):
            return chosen
        return support("join", known(site, node), known("chosen", node), chosen, at=node)

    def _meeting(self, node: ast.AST, chosen: Any, names: tuple[str, ...]) -> Any:
        """An expression whose parts lanes may take without the others."""
        if not self.parts(node):
            return chosen
        meets = [] if self.depth else [support("meet", at=node)]
        self.depth += 1
        for name in names:
            setattr(chosen, name, self._after_depth(getattr(chosen, name)))
        self.depth -= 1
        return self._first([*meets, chosen, self._depth(node)], len(meets), node)

    def _after_depth(self, value: Any) -> Any:
        if isinstance(value, list):
            return [value[0], *map(self._after_depth, value[1:])]
        return self._first([self._depth(value), value], 1, value)

    @staticmethod
    def _first(items: list[ast.expr], index: int, at: ast.AST) -> ast.expr:
        """All of ``items`` are computed in order, and one of them is meant."""
        return place(ast.Subscript(ast.Tuple(items, ast.Load()), known(index, at), ast.Load()), at)  # type: ignore[no-any-return]

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        return self._joined(word_of(node), self._meeting(node, node, ("values",)), node)


def unbound(name: str, first: ast.stmt) -> ast.stmt:
    """A statement that lets a variable be converted before anything was assigned to it, on the first one's line."""
    value = ast.Attribute(ast.Name(SUPPORT, ast.Load()), "unbound", ast.Load())
    return place(ast.Assign([ast.Name(name, ast.Store())], value), first)  # type: ignore[no-any-return]


def rewrite_eagerly(source: Source, joins: Joins, apart: frozenset[Place] = frozenset()) -> ast.Module:
    """A module that defines ``FACTORY``: from the support object and the closure's values to the function."""
    node = source.node
    statements = EagerStatements(source, joins, apart)
    if isinstance(node, ast.Lambda):
        body, arguments = statements.body([place(ast.Return(node.body), node.body)]), node.args
    else:
        body, arguments = statements.body(node.body), node.args
    check_arguments(source, arguments)
    parameters = {parameter.arg for parameter in ast.walk(arguments) if isinstance(parameter, ast.arg)}
    named = name_parameters(arguments, body[0])
    body = [*named, *(unbound(name, body[0]) for name in sorted(statements.converted - parameters)), *body]
    function = ast.FunctionDef(FUNCTION, bare(arguments), body, [])
    return factory(source, place(function, node))
