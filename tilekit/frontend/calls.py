"""What a call in a kernel means: tilekit's builtin, a helper to inline, or plain Python at compile time."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import math
import sys
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from tilekit.builtins import public_names
from tilekit.builtins.lanes import TileFunction
from tilekit.errors import (
    KernelAttributeError,
    KernelNotImplementedError,
    KernelSyntaxError,
    KernelTypeError,
    TilekitError,
    TilekitWarning,
)
from tilekit.frontend import joins
from tilekit.frontend.declarations import Declaration
from tilekit.frontend.depth import inlining, one_deeper
from tilekit.frontend.overloads import Func, GradientOf, chosen, declarations_of_warp
from tilekit.frontend.reads import Missing, as_python, has_name, read_by_name, recorder
from tilekit.frontend.scopes import compound_statements
from tilekit.frontend.source import Source, compile_tree, is_registered, locate, read_source, register_code
from tilekit.frontend.syntax import FACTORY, closure_names, rewrite_function
from tilekit.ir.attributes import suggestion
from tilekit.ir.builtin import REGISTRY, Builtin
from tilekit.ir.context import Concrete, active, fail
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile
from tilekit.ir.nesting import room_for
from tilekit.ir.notices import warn_at
from tilekit.ir.operators import PYTHONS_OWN
from tilekit.ir.types import DType, find_dtype


def is_traced(value: Any) -> bool:
    """Whether a value is, or holds, something that exists only inside a kernel."""
    if isinstance(value, tuple | list):
        return any(map(is_traced, value))
    return isinstance(value, Scalar | Tile | Array)


_PYTHON: dict[Any, str] = {
    builtins.min: "min", builtins.max: "max", builtins.abs: "abs", builtins.len: "len", builtins.print: "print",
    builtins.int: "int", builtins.float: "float", builtins.bool: "bool", builtins.range: "range",
    builtins.pow: "pow", builtins.round: "round", builtins.str: "str", builtins.repr: "repr",
    builtins.ascii: "ascii", builtins.any: "any", builtins.all: "all",
}  # fmt: skip


def resolve_call(function: Any) -> Any:
    """What a kernel's call of ``function`` calls instead."""
    if isinstance(function, Builtin | TileFunction | GradientOf):
        return function
    if is_breakpoint(function):
        return ignored_breakpoint
    if function is type or function is isinstance:
        return dtype_or_class if function is type else is_instance
    if function is getattr or function is hasattr:
        return read_by_name if function is getattr else has_name
    try:
        if function in _PYTHON:
            return python_function(function)
    except TypeError:
        return function
    if isinstance(function, Func):
        return declared(function.declarations)
    if isinstance(function, functools.partial):
        return functools.partial(resolve_call(function.func), *function.args, **function.keywords)
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, FunctionType):
        if module.startswith("tilekit.runtime"):
            return host_only(function)
        return function if module.partition(".")[0] == "tilekit" and not _is_example(module) else inlined(function)
    if isinstance(function, BuiltinFunctionType) and module == "math":
        return math_function(function)
    return _foreign(function, module.partition(".")[0])


def is_breakpoint(function: Any) -> bool:
    """Whether a function stops in a debugger: ``breakpoint``, and ``set_trace`` as all of them call it."""
    return function is builtins.breakpoint or getattr(function, "__name__", "") == "set_trace"


def ignored_breakpoint(*args: Any, **kwargs: Any) -> None:
    """A breakpoint while a kernel is traced: only the interpreter can stop there."""
    place = locate()
    if joins.current() is None and place is not None:
        mapped = bool(getattr(active(), "element", ""))
        where = "functions that are mapped over tiles" if mapped else "compiled kernels"
        remedy = "call them on one element" if mapped else "launch with device='interpret' to stop here"
        warn_at(TilekitWarning, f"breakpoints have no effect in {where}; {remedy}", place)


def _is_example(module: str) -> bool:
    return module.startswith(("tilekit.examples", "tilekit.bench"))


def _foreign(function: Any, root: str) -> Any:
    """Functions and types of other packages."""
    dtype = find_dtype(function) if isinstance(function, type) else None
    if dtype is not None:
        return dtype
    type_root = type(function).__module__.partition(".")[0]
    if type_root == "warp" and hasattr(function, "key"):
        return warp_function(function)
    if root == "warp":
        of = getattr(function, "func", None)  # the result of wp.grad(of) outside the kernel
        return warp_object(function) if of is None else GradientOf(of)
    if (root == "numpy" and isinstance(function, np.ufunc)) or type_root == "numpy":
        return only_constants(function, root or type_root)
    if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
        if (getattr(function, "__module__", "") or "").partition(".")[0] == "tilekit":
            return function
        return functools.partial(inlined(function.__func__), function.__self__)
    called = call_of(function)
    return as_python(function) if called is None else functools.partial(inlined(called), function)


def call_of(value: Any) -> FunctionType | None:
    """What runs where an object of a user's class is called."""
    found = None if isinstance(value, type) else inspect.getattr_static(type(value), "__call__", None)
    if isinstance(found, FunctionType):
        package = (found.__module__ or "").partition(".")[0]
        return found if package not in ("tilekit", "warp", "torch") else None
    return None


@functools.cache
def known_names() -> dict[str, object]:
    """The builtins, collected once: a kernel in Warp's words asks for each name that it uses."""
    return public_names()


def warp_attribute(module: Any, name: str) -> Any:
    """``wp.name`` in a kernel: tilekit's builtin of that name, else what Warp itself has."""
    found = known_names().get(name)
    if found is None:
        found = PYTHONS_OWN.get(name) or getattr(module, name, None)
    if found is None:
        if is_warp_builtin(name):
            raise fail(KernelNotImplementedError(f"wp.{name} is a builtin of Warp that tilekit does not have yet"))
        raise fail(KernelAttributeError(f"Warp has no {name!r}{suggestion(name, known_names())}"))
    return (find_dtype(found) or found) if isinstance(found, type) else found


def is_warp_builtin(name: str) -> bool:
    """Whether Warp has a function for kernels of that name; its stubs list them, so no internal is read."""
    import warp

    file = getattr(warp, "__file__", None)
    stubs = Path(file).with_name("__init__.pyi") if file else None
    return stubs is not None and stubs.is_file() and f"def {name}(" in stubs.read_text(encoding="utf-8")


def warp_object(function: Any) -> Any:
    """A class or host function of Warp."""
    name = function.__name__
    if isinstance(function, type):
        text = f"wp.{name} is not available in tilekit kernels; vectors, matrices and structs come in a later release"
        error: TilekitError = KernelNotImplementedError(f"{text}: pass the components as numbers or along an axis")
    elif isinstance(found := kernel_name(name), Builtin) or hasattr(found, "in_kernels"):
        return found
    else:
        error = KernelTypeError(f"wp.{name} is for the host and cannot be called in a kernel")
    raise fail(error)


def warp_function(function: Any) -> Any:
    """tilekit's meaning of a Warp builtin or ``@wp.func``."""
    key = function.key
    if getattr(function, "func", None) is not None and not function.is_builtin():
        return declared(declarations_of_warp(function))
    found = kernel_name(key)
    if found is None:
        raise fail(KernelNotImplementedError(f"wp.{key} is not available in tilekit kernels"))
    return found


def kernel_name(name: str) -> Any:
    """tilekit's builtin or function of that public name, or None."""
    return getattr(sys.modules["tilekit"], name, None) if not name.startswith("_") else None


def host_only(function: Any) -> Callable[..., Any]:
    """A function that makes or moves arrays, which kernels cannot."""
    name = function.__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        text = f"{name}() is for the host and cannot be called in a kernel"
        if kernel_name(f"tile_{name}") is None:
            raise fail(KernelTypeError(text))
        instead = f"use tk.tile_{name}, or a list where its indices are known at compile time"
        raise fail(KernelNotImplementedError(f"{text}: arrays of a thread's own come in a later release; {instead}"))

    return call


def math_function(function: Any) -> Callable[..., Any]:
    """A function of the ``math`` module: itself on constants, the builtin of that name on run-time values."""

    def call(*args: Any) -> Any:
        if not any(map(is_traced, args)):
            return function(*args)
        found = REGISTRY.get({"fabs": "abs", "fmod": "mod"}.get(function.__name__, function.__name__))
        if found is None:
            raise fail(KernelTypeError(f"math.{function.__name__} is not available on a kernel's run-time values"))
        return found(*args)

    return call


def only_constants(function: Any, root: str) -> Callable[..., Any]:
    """A library's function may run at compile time, never on a kernel's values."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if any(map(is_traced, args)) or any(map(is_traced, kwargs.values())):
            name = getattr(function, "__name__", str(function))
            hint = f"; use tk.{name}" if name in REGISTRY else "; call it on the host and pass the result"
            raise fail(KernelTypeError(f"{root}.{name} cannot be applied to a kernel's values{hint}"))
        return as_python(function)(*args, **kwargs)

    return call


def python_function(function: Any) -> Callable[..., Any]:
    """``min``, ``max``, ``abs``, ``len``, ``int``, ``float``, ``bool``, ``print``, ``range``, ... in a kernel."""
    name = _PYTHON[function]
    special = OPERATORS.get(f"call.{name}")
    if special is not None:
        return special

    def call(*args: Any, **kwargs: Any) -> Any:
        if not any(map(is_traced, args)):
            return function(*args, **kwargs)
        if name in ("min", "max") and len(args) > 2:
            return functools.reduce(OPERATORS.get(name, REGISTRY[name]), args)
        if name not in REGISTRY:
            text = "; pass them to print(...), or use an f-string there" if name in ("str", "repr", "ascii") else ""
            raise fail(KernelTypeError(f"{name}() is not available on a kernel's run-time values{text}"))
        return REGISTRY[name](*args, **kwargs)

    return call


def dtype_or_class(*args: Any) -> Any:
    """``type(x)``: of a number its dtype, as in ``type(x)(2)``."""
    return args[0].dtype if len(args) == 1 and isinstance(args[0], Scalar) else type(*args)


def is_instance(value: Any, classes: Any) -> bool:
    """``isinstance(x, classes)``: for a number whether its dtype is one of them, where ``float`` is float32."""
    every = classes if isinstance(classes, tuple) else typing.get_args(classes) or (classes,)
    dtype = value.dtype if isinstance(value, Scalar) else find_dtype(type(value))
    if dtype is not None and any(find_dtype(item) is dtype for item in every):
        return True
    return isinstance(value, tuple(item for item in every if not isinstance(item, DType)))


# Inlining.


def declared(forms: Sequence[Declaration]) -> Callable[..., Any]:
    """The function among ``forms`` that takes a call's arguments, inlined and held to what it declares."""
    if len(forms) == 1 and forms[0].says_nothing and not forms[0].is_custom:
        forms[0].called = True
        return inlined(forms[0].function)

    def call(*args: Any, **kwargs: Any) -> Any:
        from tilekit.frontend.custom_gradients import called

        form = chosen(forms, args, kwargs)
        form.called = True
        args, kwargs = form.arguments(args, kwargs)  # type: ignore[assignment]
        run = inlined(form.function, form)
        return form.result(called(form, run, args, kwargs) if form.is_custom else run(*args, **kwargs))

    return call


class Rewritten:
    """A user's function, rewritten once; ``bind`` gives it a support object and the current closure values."""

    def __init__(
        self,
        function: FunctionType,
        source: Source | None = None,
        rewrite: Callable[[Source], ast.Module] = rewrite_function,
    ) -> None:
        source = read_source(function) if source is None else source
        self.original = function.__code__  # kept alive while its identity is a key
        self.source = source.again()  # rewriting changes the tree
        try:
            with room_for(compound_statements(source.node)):  # they become nested functions
                code = around(renamed(compile_tree(rewrite(source), source.file, "exec"), function))
                register_code(code, function.__name__)
        except RecursionError:
            text = f"an expression of {function.__name__!r} has too many operations; use several statements"
            raise KernelSyntaxError(text, source.location(source.node)) from None
        namespace: dict[str, Any] = {}
        exec(code, function.__globals__, namespace)
        self.factory = namespace[FACTORY]

    def bind(self, function: FunctionType, support: Any) -> Callable[..., Any]:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        bound: FunctionType = self.factory(support, *(_cell_value(cells[name]) for name in closure_names(function)))
        bound.__defaults__ = function.__defaults__
        bound.__kwdefaults__ = function.__kwdefaults__
        return bound


def renamed(code: CodeType, function: FunctionType) -> CodeType:
    """The code with the user's function name on all that was made of it, as tracebacks show it."""
    constants = tuple(renamed(item, function) if isinstance(item, CodeType) else item for item in code.co_consts)
    if code.co_name.endswith("comp>") or (code.co_name == "<lambda>" and code.co_argcount):  # the user's own lambda
        return code.replace(co_consts=constants)
    return code.replace(co_consts=constants, co_name=function.__name__, co_qualname=function.__qualname__)


def around(code: CodeType, depth: int = 2) -> CodeType:
    """The code with what stands around the function, the module and the factory, out of debuggers' sight."""
    if not depth:
        return code
    constants = tuple(around(item, depth - 1) if isinstance(item, CodeType) else item for item in code.co_consts)
    return code.replace(co_consts=constants, co_filename="<tilekit>")


def _cell_value(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return Missing


_rewritten: dict[Any, Rewritten] = {}


def rewritten(function: FunctionType) -> Rewritten:
    # By identity: equal codes of two files would share one function's globals. The entry keeps both alive.
    key = id(function.__code__), id(function.__globals__)
    found = _rewritten.get(key)
    if found is None:
        found = _rewritten[key] = Rewritten(function)
    return found


def entered(function: FunctionType) -> Callable[..., Any]:
    """A function whose calls are steps of the path."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with joins.entering():
            return function(*args, **kwargs)

    return call


def inlined(function: FunctionType, declaration: Declaration | None = None) -> Callable[..., Any]:
    """A helper as a kernel calls it: its rewritten form, or itself where it is compile-time Python only."""
    if is_registered(function.__code__):  # a lambda of the kernel itself
        return entered(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        from tilekit.frontend.support import Tracing

        context = active()
        if context is not None and context.eager:  # the interpreter runs
            with one_deeper():
                return context.inline(function, args, kwargs)  # type: ignore[attr-defined]
        try:
            form = rewritten(function)
        except (KernelSyntaxError, SyntaxError) as error:
            if any(map(is_traced, args)) or any(map(is_traced, kwargs.values())):
                raise error if isinstance(error, TilekitError) else KernelSyntaxError(str(error)) from None
            return as_python(function)(*args, **kwargs)
        hears = recorder()
        if hears is not None:
            hears.inlines(function)
        with inlining(function), joins.entering():
            return form.bind(function, Tracing(declaration))(*args, **kwargs)

    call.inlines = function  # type: ignore[attr-defined]
    return call


__all__ = ["Concrete", "Func", "Rewritten", "inlined", "is_traced", "math", "resolve_call", "rewritten"]
