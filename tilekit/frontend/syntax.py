"""The one rewriting of a kernel's syntax: control flow becomes calls on the frontend's support object.

The rewritten function keeps the user's file, lines and columns. Each body of an ``if``, ``for`` or ``while`` becomes a
nested function; the names it assigns are ``nonlocal``, so the support object reads and sets them through the function's
closure cells, and tracing decides whether a region op or plain Python is meant.
"""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from tilekit.errors import KernelSyntaxError
from tilekit.frontend.expressions import SUPPORT, SYMBOLS, Expressions, is_static, place, support, thunk
from tilekit.frontend.scopes import always_leaves, assigned_names, is_fixed, leaves_by, loaded_names, target_form
from tilekit.frontend.source import Source

RETURNED = "__returned"
RESULT = "__result"
JUMP_FLAGS = (RETURNED, "__broken", "__continued")
"""How the names of the flags begin that tell that a jump has happened."""
FACTORY = "__factory"
FUNCTION = "__function"

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("'try'", "kernels have no exceptions; test the condition instead"),
    ast.With: ("'with'", "open contexts on the host, around the launch"),
    ast.Raise: ("'raise'", "use 'assert condition, message'"),
    ast.FunctionDef: ("a nested 'def'", "define the helper outside the kernel"),
    ast.AsyncFunctionDef: ("'async def'", "kernels are not asynchronous"),
    ast.ClassDef: ("a class definition", "define it outside the kernel"),
    ast.Global: ("'global'", "kernels cannot assign globals; pass an array"),
    ast.Nonlocal: ("'nonlocal'", "kernels cannot assign outer variables; pass an array"),
    ast.Delete: ("'del'", "remove the statement"),
    ast.Import: ("'import'", "import at the top of the module"),
    ast.ImportFrom: ("'import'", "import at the top of the module"),
    ast.Match: ("'match'", "use if / elif"),
    ast.AsyncFor: ("'async for'", "kernels are not asynchronous"),
    ast.AsyncWith: ("'async with'", "kernels are not asynchronous"),
}
if hasattr(ast, "TryStar"):
    _REFUSED[ast.TryStar] = _REFUSED[ast.Try]


def _constant(value: Any, at: ast.AST) -> ast.expr:
    return place(ast.Constant(value), at)  # type: ignore[no-any-return]


def _load(name: str, at: ast.AST) -> ast.expr:
    return place(ast.Name(name, ast.Load()), at)  # type: ignore[no-any-return]


def assign(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    return place(ast.Assign([ast.Name(name, ast.Store())], value), at)  # type: ignore[no-any-return]


class Statements(Expressions):
    """Rewrites a function's statements for tracing."""

    def __init__(self, source: Source, lazy: bool = False) -> None:
        super().__init__(source, lazy)
        self.count = 0
        self.loops: list[tuple[str, str]] = []
        """The break and continue flags of the loops around the current statement."""
        self.loads = loaded_names([source.node])

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"__{stem}_{self.count}"

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The rewritten statements; what follows a possible jump moves under a guard."""
        result: list[ast.stmt] = []
        for index, statement in enumerate(statements):
            rest = statements[index + 1 :]
            if isinstance(statement, ast.If) and rest and leaves_by([statement], (ast.Return, ast.Break, ast.Continue)):
                return result + self._if_with_jump(statement, rest)
            result += self.statement(statement)
            if isinstance(statement, ast.Return | ast.Break | ast.Continue):
                return result
            if rest and isinstance(statement, ast.For | ast.While) and leaves_by([statement], (ast.Return,)):
                return result + self._guarded(rest, statement)
        return result

    def _if_with_jump(self, statement: ast.If, rest: list[ast.stmt]) -> list[ast.stmt]:
        if always_leaves(statement.body):
            joined = ast.If(statement.test, statement.body, [*statement.orelse, *rest])
            return self.visit_If(ast.copy_location(joined, statement))
        if statement.orelse and always_leaves(statement.orelse):
            joined = ast.If(statement.test, [*statement.body, *rest], statement.orelse)
            return self.visit_If(ast.copy_location(joined, statement))
        return self.visit_If(statement) + self._guarded(rest, statement)

    def _guarded(self, rest: list[ast.stmt], after: ast.stmt) -> list[ast.stmt]:
        """``if not (returned or broken or continued): rest``."""
        flags = [RETURNED, *(self.loops[-1] if self.loops else ())]
        gone = support("or_", *(thunk(_load(flag, after)) for flag in flags), at=after)
        live = self._live(rest)
        test = support("not_", gone, at=after)
        return self._branch(test, self.body(rest), [], live, after, guards=tuple(flags))

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if type(node) in _REFUSED:
            raise self.refuse(node, *_REFUSED[type(node)])
        result = self.visit(node)
        return result if isinstance(result, list) else [result]

    # Branches.

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        live = self._live([*node.body, *node.orelse])
        fixed = is_fixed(node.test, self.local)
        test = self.test(node.test)
        return self._branch(test, self.body(node.body), self.body(node.orelse), live, node, fixed=fixed)

    def _branch(
        self,
        test: ast.expr,
        then: list[ast.stmt],
        orelse: list[ast.stmt],
        live: dict[str, bool | str],
        at: ast.stmt,
        guards: tuple[str, ...] = (),
        fixed: bool = False,
    ) -> list[ast.stmt]:
        """A branch on ``test``; one that ``guards`` flags of jumps runs its first side only.

        What a branch with a ``fixed`` test binds needs no value of its own after it.
        """
        bound = assigned_names([*then, *orelse])
        names = self._names(dict.fromkeys(bound, False) if fixed else bound, live, at)
        then_name, else_name = self.fresh("then"), self.fresh("else")
        arguments = [test, _load(then_name, at), _load(else_name, at), names]
        arguments += [self.site("rest", at), _constant(guards, at)] if guards else [self.site("if", at)]
        call = support("if_", *arguments, at=at)
        run = place(ast.Expr(call), at)
        return [self._function(then_name, then, at), self._function(else_name, orelse, at), run]

    def _function(self, name: str, body: list[ast.stmt], at: ast.AST, parameter: str | None = None) -> ast.stmt:
        """A nested function whose assignments reach the function around it."""
        assigned = assigned_names(body)
        head: list[ast.stmt] = [ast.Nonlocal(sorted(assigned))] if assigned else []
        parameters = [ast.arg(parameter)] if parameter else []
        arguments = ast.arguments([], parameters, None, [], [], None, [])
        function: ast.FunctionDef = place(
            ast.FunctionDef(name, arguments, head + ([] if body else [ast.Pass()]), []), at
        )
        function.body += body  # these nodes have their places already
        function.assigned = assigned  # type: ignore[attr-defined]
        return function

    def _live(self, inside: list[ast.stmt]) -> dict[str, bool | str]:
        """The names that are read outside these statements; ``"later"`` where only the next iteration may do so."""
        found = loaded_names(inside)
        live: dict[str, bool | str] = dict.fromkeys(found, "later") if self.loops else {}
        live.update((name, True) for name, count in self.loads.items() if count > found[name])
        return live

    def _names(self, names: dict[str, bool], live: dict[str, bool | str], at: ast.AST) -> ast.expr:
        """What a body assigns, for the support object: name, whether plainly, whether it is read elsewhere."""
        found = tuple((name, plain, name.startswith("__") or live.get(name, False)) for name, plain in names.items())
        return _constant(found, at)

    # Loops.

    def refuse_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            raise self.refuse(node.orelse[0], "'else' of a loop", "set a flag in the loop and test it after")

    def items(self, node: ast.For) -> ast.expr:
        """What a loop goes through."""
        static = needs_unrolling(node)
        found: ast.expr = self.visit(node.iter)
        return support("unrolled", found, at=node.iter) if static else found

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        self.refuse_else(node)
        item, live = self.fresh("item"), self._live(node.body)
        target = place(ast.Assign([node.target], self.owned(node.target, _load(item, node.target))), node.target)
        iterable = self.items(node)
        return self._loop(node, "for_", iterable, [target], live, item)

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.refuse_else(node)
        live = self._live([*node.body, ast.Expr(node.test)])
        return self._loop(node, "while_", thunk(self.test_of(node)), [], live)

    def _loop(
        self,
        node: ast.For | ast.While,
        method: str,
        subject: ast.expr,
        head: list[ast.stmt],
        live: dict[str, bool | str],
        item: str | None = None,
    ) -> list[ast.stmt]:
        broken, continued = self.fresh("broken"), self.fresh("continued")
        self.loops.append((broken, continued))
        body = head + self.body(node.body)
        self.loops.pop()
        stops = [broken] if leaves_by(node.body, (ast.Break,)) else []
        stops += [RETURNED] if leaves_by(node.body, (ast.Return,)) else []
        jumps = leaves_by(node.body, (ast.Break, ast.Continue, ast.Return))
        before = [assign(flag, _constant(False, node), node) for flag in (broken, continued)] if jumps else []
        if leaves_by(node.body, (ast.Continue,)):
            body = [assign(continued, _constant(False, node), node), *body]
        stop: ast.expr = _constant(None, node)
        if stops:
            stop = thunk(support("or_", *(thunk(_load(flag, node)) for flag in stops), at=node))
        name = self.fresh("body")
        names = self._names(assigned_names(body), live, node)
        call = support(method, subject, _load(name, node), names, stop, self.site("loop", node), at=node)
        run = place(ast.Expr(call), node)
        after = [assign(RETURNED, _constant(True, node), node)] if stops == [RETURNED] and _is_endless(node) else []
        return [*before, self._function(name, body, node, item), run, *after]

    def visit_Break(self, node: ast.Break) -> ast.stmt:
        return assign(self.loops[-1][0], _constant(True, node), node)

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return assign(self.loops[-1][1], _constant(True, node), node)

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = _constant(None, node)
        if node.value is not None:
            value = support("result", self.visit(node.value), at=node.value)
        return [assign(RESULT, value, node), assign(RETURNED, _constant(True, node), node)]

    # Simple statements.

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            return [place(ast.Pass(), node)]
        return self.statement(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                raise self.refuse(target, "assigning an attribute", "use a variable or an array")
        self.generic_visit(node)
        if len(node.targets) > 1:
            forms = _constant(tuple(map(target_form, node.targets)), node)
            value = support("assigned", node.value, forms, at=node.value)
            return [place(ast.Assign([ast.Tuple(node.targets, ast.Store())], value), node)]
        if not isinstance(node.targets[0], ast.Subscript):
            node.value = self.owned(node.targets[0], node.value)
        return [node, *self._owned_rest(node)]

    def _owned_rest(self, node: ast.Assign) -> list[ast.stmt]:
        """The list that Python makes for a starred name becomes the kernel's."""
        names = [item.value for item in ast.walk(node.targets[0]) if isinstance(item, ast.Starred)]
        return [assign(n.id, self.owned(n, _load(n.id, n)), n) for n in names if isinstance(n, ast.Name)]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        symbol = SYMBOLS[type(node.op)]
        value = self.visit(node.value)
        if isinstance(node.target, ast.Subscript):
            base, index = self.visit(node.target.value), self.visit(node.target.slice)
            call = support("update_element", base, index, _constant(symbol, node), value, at=node)
            return [place(ast.Expr(call), node)]
        if isinstance(node.target, ast.Attribute):
            raise self.refuse(node, "assigning an attribute", "use a variable or an array")
        read = _load(node.target.id, node.target)
        result = assign(node.target.id, support("update", _constant(symbol, node), read, value, at=node), node)
        result.targets[0].augmented = True  # type: ignore[attr-defined]
        return [result]

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        message = _constant(None, node) if node.msg is None else self.visit(node.msg)
        call = support("assert_", self.test(node.test), thunk(message), at=node)
        return [place(ast.Expr(call), node)]


def needs_unrolling(node: ast.For) -> bool:
    """Whether a ``static(...)`` in a loop's body names what each iteration changes."""
    changed = assigned_names([node.target, *node.body])
    return any(name in changed for statement in node.body for name in _static_names(statement))


def _static_names(node: ast.AST) -> set[str]:
    """The names that ``static(...)`` reads here and that no loop in between sets."""
    if is_static(node):
        return set(loaded_names([node]))
    found = set().union(*map(_static_names, ast.iter_child_nodes(node)))
    return found - set(assigned_names([node.target])) if isinstance(node, ast.For) else found


def _is_endless(node: ast.stmt) -> bool:
    """Whether a loop is left by ``break`` or ``return`` alone."""
    return isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)


def rewrite_function(source: Source) -> ast.Module:
    """A module that defines ``FACTORY``: from the support object and the closure's values to the function."""
    node = source.node
    statements = Statements(source)
    if isinstance(node, ast.Lambda):
        returned = place(ast.Return(node.body), node.body)
        body, arguments = statements.body([returned]), node.args
    else:
        body, arguments = statements.body(node.body), node.args
    check_arguments(source, arguments)
    local = sorted(assigned_names(body) | {RETURNED: True, RESULT: True})
    declared = ast.If(ast.Constant(False), [assign(n, ast.Constant(None), node) for n in local], [])
    start = [declared, assign(RETURNED, _constant(False, node), node), assign(RESULT, _constant(None, node), node)]
    start += name_parameters(arguments, node)
    end = ast.Return(support("returned", _load(RETURNED, node), _load(RESULT, node), at=node))
    # A name of its own, so that the user's function can refer to itself and may have any name.
    function = ast.FunctionDef(FUNCTION, bare(arguments), [*start, *body, end], [])
    return factory(source, place(function, node))


def name_parameters(arguments: ast.arguments, at: ast.AST) -> list[ast.stmt]:
    """A statement that makes a function's parameters names of what they are given; none where it has no parameters."""
    names = [item.arg for item in ast.walk(arguments) if isinstance(item, ast.arg)]
    loads = [_load(name, at) for name in names]
    return [place(ast.Expr(support("arguments", *loads, at=at)), at)] if loads else []


def closure_names(function: FunctionType) -> list[str]:
    """The outer variables of a function; one inside a rewritten function may see the support object as well."""
    return [name for name in function.__code__.co_freevars if name != SUPPORT]


def factory(source: Source, function: ast.stmt) -> ast.Module:
    free = [ast.arg(n) for n in closure_names(source.function)]
    arguments = ast.arguments([], [ast.arg(SUPPORT), *free], None, [], [], None, [])
    outer = ast.FunctionDef(FACTORY, arguments, [function, ast.Return(ast.Name(FUNCTION, ast.Load()))], [])
    module = ast.Module([place(outer, source.node)], [])
    return ast.fix_missing_locations(module)


def bare(arguments: ast.arguments) -> ast.arguments:
    """The parameters without annotations and the values of defaults, which belong to the user's function alone."""
    first, strip = (
        [ast.copy_location(ast.arg(a.arg), a) for a in args] for args in (arguments.posonlyargs, arguments.args)
    )
    only = [ast.copy_location(ast.arg(a.arg), a) for a in arguments.kwonlyargs]
    defaults: list[ast.expr] = [_constant(None, value) for value in arguments.defaults]
    named = [None if value is None else _constant(None, value) for value in arguments.kw_defaults]
    return ast.arguments(first, strip, arguments.vararg, only, named, None, defaults)


def check_arguments(source: Source, arguments: ast.arguments) -> None:
    if arguments.kwarg:
        text = f"{source.name!r} has a parameter **{arguments.kwarg.arg}; name each parameter"
        raise KernelSyntaxError(text, source.location(source.node))
