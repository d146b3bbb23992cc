"""Functions with gradients of their own: ``@tk.func_grad`` and ``@tk.func_replay``.

Such a function stays one op, ``call``, until its adjoint is made. The gradient function then runs on the arguments and
the gradients of the results. ``tk.adjoint[x]`` in it becomes a variable that starts at zero and that it gives back, so
that branches and loops carry it like any other.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from types import FunctionType, ModuleType
from typing import Any

from tilekit.builtins.call import call
from tilekit.errors import KernelSyntaxError, KernelTypeError, Location, counted
from tilekit.frontend import joins
from tilekit.frontend.calls import Rewritten, inlined
from tilekit.frontend.declarations import Declaration
from tilekit.frontend.depth import inlining
from tilekit.frontend.messages import translate
from tilekit.frontend.overloads import Func
from tilekit.frontend.reads import recorder
from tilekit.frontend.source import Source, keep_source, locate, read_source
from tilekit.frontend.state import Snapshot
from tilekit.frontend.support import Tracing
from tilekit.ir.context import Builder, active, building, fail
from tilekit.ir.core import Block
from tilekit.ir.gradients import AdjointContext, has_gradient
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile, wrap
from tilekit.ir.operands import constant, describe
from tilekit.ir.parameters import closure_variables
from tilekit.ir.types import DType

__all__ = ["adjoint", "func_grad", "func_replay"]


class Adjoints:
    """``tk.adjoint[x]``: in a gradient function, the gradient of a parameter of the function that it belongs to."""

    def __getitem__(self, parameter: Any) -> Any:
        raise fail(KernelTypeError("tk.adjoint[...] is for functions that @tk.func_grad declares"))

    def __setitem__(self, parameter: Any, value: Any) -> None:
        self[parameter]

    def __repr__(self) -> str:
        return "tk.adjoint"


adjoint = Adjoints()


def func_grad(f: Any) -> Callable[[FunctionType], FunctionType]:
    """Declare the gradient of a ``@tk.func``, in place of the one that its operations give.

    The function that is decorated takes what ``f`` takes, and then the gradient of each of ``f``'s results, in the
    dtypes of the results. It adds to ``tk.adjoint[x]`` for each parameter ``x`` of ``f`` what the gradient of ``x`` is,
    also for arrays, as in ``tk.adjoint[x][i] += g``. It returns nothing, and changes nothing else.

    Args:
        f: The function, declared by ``@tk.func``.

    Raises:
        KernelTypeError: ``f`` is no such function, or the parameters do not begin with those of ``f``.

    Example:
        >>> import tilekit as tk
        >>> @tk.func
        ... def safe_sqrt(x: float):
        ...     return tk.sqrt(x)
        >>> @tk.func_grad(safe_sqrt)
        ... def adj_safe_sqrt(x: float, adj_root: float):
        ...     if x > 0.0:
        ...         tk.adjoint[x] += adj_root / (2.0 * tk.sqrt(x))
        >>> tk.grad(safe_sqrt)(0.0), tk.grad(safe_sqrt)(4.0)
        (0.0, 0.25)
    """

    def declare(gradient: FunctionType) -> FunctionType:
        form = _form_for(f, gradient, "func_grad", exact=False)
        _rewritten(gradient, tuple(form.signature.parameters))
        form.gradient = gradient
        return gradient

    return declare


def func_replay(f: Any) -> Callable[[FunctionType], FunctionType]:
    """Declare what computes the results of a ``@tk.func`` again where a gradient needs them.

    The function that is decorated takes and returns what ``f`` does. It leaves out what must not happen twice, such as
    an atomic addition of which ``f`` returns what it found.

    Args:
        f: The function, declared by ``@tk.func``.

    Raises:
        KernelTypeError: ``f`` is no such function, or the parameters are not those of ``f``.

    Example:
        >>> import tilekit as tk
        >>> @tk.func
        ... def counted(n: tk.array1d[int], x: float):
        ...     tk.atomic_add(n, 0, 1)
        ...     return x * x
        >>> @tk.func_replay(counted)
        ... def counted_again(n: tk.array1d[int], x: float):
        ...     return x * x
    """

    def declare(replay: FunctionType) -> FunctionType:
        form = _form_for(f, replay, "func_replay", exact=True)
        form.replay = replay
        return replay

    return declare


def _form_for(f: Any, given: Any, name: str, exact: bool) -> Declaration:
    """The form of ``f`` whose parameters a function begins with, or has ``exact``ly.

    Raises:
        KernelTypeError: there is none.
    """
    if not isinstance(f, Func):
        raise KernelTypeError(f"@tk.{name} needs a function declared by @tk.func, got {describe(f)}")
    if not isinstance(given, FunctionType):
        raise KernelTypeError(f"@tk.{name} needs a function, got {describe(given)}")
    keep_source(given)
    own = Declaration(given)
    plain = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    parameters = own.signature.parameters.values()
    if any(p.kind not in plain or p.default is not p.empty for p in parameters):
        text = f"{given.__name__}() must have plain parameters, without defaults"
        raise KernelTypeError(text, place_of(given))
    types = list(own.parameters.items())
    for form in reversed(f.declarations):
        wanted = list(form.parameters.items())
        rest = len(types) - len(wanted)
        if types[: len(wanted)] == wanted and (rest == 0 or (rest > 0 and not exact)):
            if form.called:
                name = f.function.__name__
                text = f"{given.__name__}() is declared after kernels that call {name}() were traced"
                raise KernelTypeError(f"{text}; declare it right after {name}()", place_of(given))
            return form
    shown = " or ".join(map(str, f.declarations))
    more = "" if exact else ", then a gradient for each result"
    text = f"{given.__name__}{own} must take the parameters of {f.function.__name__}(), {shown}{more}"
    raise KernelTypeError(text, place_of(given))


def place_of(function: FunctionType) -> Location | None:
    """Where a function is defined."""
    try:
        source = read_source(function)
    except KernelSyntaxError:
        return None
    return source.location(source.node)


# The call, while a kernel is traced.

_inside: ContextVar[bool] = ContextVar("tilekit_inside_gradient", default=False)
"""Whether a gradient is being recorded: what it calls has no gradient to keep."""


def called(form: Declaration, run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The call of a function with a gradient or replay of its own."""
    context, given = active(), form.bound(args, kwargs)
    if not isinstance(context, Builder) or _inside.get() or given is None:
        return run(*args, **kwargs)
    given.apply_defaults()
    arguments = dict(given.arguments)
    block, results = _recorded(form.function, run, arguments)
    blocks = [block]
    if form.replay is not None:
        again, others = _recorded(form.replay, inlined(form.replay, Declaration(form.replay)), arguments)
        if [str(item.type) for item in again.results] != [
            str(item.type) for item in block.results
        ] or others != results:
            text = f"{form.replay.__name__}() must return what {form.function.__name__}() does, of the same types"
            raise KernelTypeError(text, place_of(form.replay))
        blocks.append(again)
    function = CustomFunction(form, arguments, results)
    traced = [value for value in arguments.values() if isinstance(value, Scalar | Tile | Array)]
    data = tuple(value.read() if isinstance(value, Tile) else value.datum for value in traced)
    types = tuple(item.type for item in block.results)
    found = map(wrap, context.apply(call, {"args": data}, {"function": function}, types, tuple(blocks)))
    items = tuple(next(found) if item is TRACED else item for item in results.items)
    return items if results.several else items[0]


TRACED = object()


@dataclass(frozen=True)
class Results:
    """What a function returns: the compile-time constants themselves, ``TRACED`` in the place of other values."""

    items: tuple[Any, ...]
    several: bool


def _recorded(function: FunctionType, run: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[Block, Results]:
    """What a function does, as a block of its own."""
    tiles = Snapshot.take()
    with building() as builder:
        found = run(**arguments)
        items = found if isinstance(found, tuple) else (found,)
        traced = [item for item in items if isinstance(item, Scalar | Tile)]
        data: Any = tuple(item.read() if isinstance(item, Tile) else item.datum for item in traced)
    if tiles.changed():
        text = f"{function.__name__}() has a gradient or replay of its own and writes to a tile that it is given"
        raise fail(KernelTypeError(f"{text}; return a new tile"))
    if any(isinstance(item, Array | tuple | list | dict) for item in items):
        text = f"{function.__name__}() has a gradient or replay of its own and returns {describe(found)}"
        raise fail(KernelTypeError(f"{text}; return numbers and tiles"))
    tiles.forget_later(f"the function {function.__name__}")
    shown = tuple(TRACED if isinstance(item, Scalar | Tile) else item for item in items)
    return builder.block((), data), Results(shown, isinstance(found, tuple))


class CustomFunction:
    """A function that is called, with what its gradient needs to know of the call."""

    def __init__(self, form: Declaration, arguments: Mapping[str, Any], results: Results) -> None:
        self.name = form.function.__name__
        self.gradient = form.gradient
        self.constants = {n: v for n, v in arguments.items() if not isinstance(v, Scalar | Tile | Array)}
        self.names = tuple(arguments)
        self.results = results
        if form.gradient is None:
            return
        count = len(inspect.signature(form.gradient).parameters) - len(arguments)
        if count != len(results.items):
            found = f"{counted(count, 'gradient')} for the {counted(len(results.items), 'result')} of {self.name}()"
            raise KernelTypeError(
                f"{form.gradient.__name__}() takes {found}; it needs one each", place_of(form.gradient)
            )
        hears = recorder()
        if hears is not None:
            hears.inlines(form.gradient)

    def __str__(self) -> str:
        return self.name

    def reverse(self, cx: AdjointContext, args: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
        """Record what the function's own gradient does; the gradients of the arguments that are no constants."""
        assert self.gradient is not None
        names = [name for name in self.names if name not in self.constants]
        traced = dict(zip(names, args, strict=True))
        rewritten = _rewritten(self.gradient, self.names)
        starts = {name: 0.0 for name in self.names}
        for i, name in enumerate(names):
            starts[name] = self._start(traced[name], name in rewritten.uses, partial(cx.array, "args", i))
        before = {name: start.read() if isinstance(start, Tile) else start for name, start in starts.items()}
        given = iter(_narrowed(grad, result.type.dtype) for grad, result in zip(grads, cx.op.results, strict=True))
        seeds = [next(given) if item is TRACED else 0.0 for item in self.results.items]
        with _recording(self.gradient):
            values, _ = Declaration(self.gradient).arguments(
                [*({**self.constants, **traced}[n] for n in self.names), *seeds], {}
            )
            run = rewritten.bind(self.gradient, Tracing())
            found = dict(zip(self.names, run(*values, *starts.values()), strict=True))
        return tuple(self._answer(name, found[name], before[name], traced[name]) for name in names)

    def _start(self, value: Any, used: bool, array: Callable[[], Array]) -> Any:
        """What ``tk.adjoint[x]`` is at the start."""
        if isinstance(value, Tile):
            return OPERATORS["full"](value.shape, 0, value.dtype)
        if not isinstance(value, Array) or not used:
            return 0.0
        if not has_gradient(value.type):
            raise self._wrong(f"tk.adjoint[...] of {describe(value)}, which has no gradient")
        return array()

    def _answer(self, name: str, total: Any, before: Any, value: Any) -> Any:
        """What the gradient of a parameter has become, of the parameter's shape."""
        if isinstance(value, Array) or total is before or (isinstance(total, Tile) and total.read() is before):
            return 0
        number = isinstance(total, Scalar) or constant(total) is not None
        if number if not isinstance(value, Tile) else isinstance(total, Tile) and total.shape == value.shape:
            return total
        raise self._wrong(f"tk.adjoint[{name}] is {describe(total)}, but {name} is {describe(value)}")

    def _wrong(self, text: str) -> KernelTypeError:
        assert self.gradient is not None
        return KernelTypeError(f"{self.gradient.__name__}(): {text}", place_of(self.gradient))


def _narrowed(gradient: Any, dtype: DType) -> Any:
    """A gradient in the dtype of what it belongs to, as gradient functions declare it."""
    return gradient if gradient.dtype == dtype else OPERATORS["cast"](gradient, dtype)


@contextmanager
def _recording(function: FunctionType) -> Iterator[None]:
    """Inside: a gradient function is recorded, and errors name its lines."""
    context = active()
    assert isinstance(context, Builder)
    outer, token = context.locate, _inside.set(True)
    context.locate = locate
    try:
        with inlining(function), joins.entering():
            yield
    except Exception as error:
        raise translate(error, context.dropped, place_of(function)) from None
    finally:
        context.locate = outer
        _inside.reset(token)


# The gradient function, rewritten.


class _Gradient(Rewritten):
    """A gradient function with its gradients as variables, which it takes as further parameters and returns."""

    def __init__(self, function: FunctionType, names: tuple[str, ...]) -> None:
        source = read_source(function)
        rewriter = _Variables(source, names)
        rewriter.rewrite()
        self.uses = rewriter.uses
        super().__init__(function, source)


@lru_cache(maxsize=256)
def _rewritten(function: FunctionType, names: tuple[str, ...]) -> _Gradient:
    return _Gradient(function, names)


class _Variables(ast.NodeTransformer):
    """Makes variables of ``tk.adjoint[x]``."""

    def __init__(self, source: Source, names: tuple[str, ...]) -> None:
        self.source = source
        self.names = names
        self.uses: set[str] = set()
        self.known = {**source.function.__globals__, **closure_variables(source.function)}

    def rewrite(self) -> None:
        node = self.source.node
        assert isinstance(node, ast.FunctionDef)
        node.body = [self.visit(statement) for statement in node.body]
        node.body.append(self._returned(node.body[-1]))
        node.args.args += [ast.copy_location(ast.arg(_variable(name)), node) for name in self.names]

    def _returned(self, at: ast.AST) -> ast.stmt:
        variables = ast.Tuple([ast.Name(_variable(name), ast.Load()) for name in self.names], ast.Load())
        found = ast.copy_location(ast.Return(variables), at)
        for item in ast.walk(variables):
            ast.copy_location(item, at)
        return found

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not self._is_adjoint(node.value):
            return self.generic_visit(node)
        if not isinstance(node.slice, ast.Name) or node.slice.id not in self.names:
            text = f"tk.adjoint[...] takes a parameter of the function with this gradient: {', '.join(self.names)}"
            raise KernelSyntaxError(text, self.source.location(node))
        self.uses.add(node.slice.id)
        return ast.copy_location(ast.Name(_variable(node.slice.id), node.ctx), node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            text = "a gradient function returns nothing; it adds to tk.adjoint[x] for the parameters x"
            raise KernelSyntaxError(text, self.source.location(node))
        return self._returned(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    visit_Lambda = visit_FunctionDef  # type: ignore[assignment]

    def _is_adjoint(self, node: ast.expr) -> bool:
        """Whether an expression is ``tk.adjoint``, or Warp's."""
        if isinstance(node, ast.Name):
            return isinstance(self.known.get(node.id), Adjoints)
        if not isinstance(node, ast.Attribute) or node.attr != "adjoint" or not isinstance(node.value, ast.Name):
            return False
        module = self.known.get(node.value.id)
        return isinstance(module, ModuleType) and module.__name__ in ("tilekit", "warp")


def _variable(name: str) -> str:
    """The variable for a gradient; no user can write that name."""
    return f"adjoint[{name}]"
