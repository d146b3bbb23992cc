"""``@tk.func`` helpers, and which of several functions of one name a call means."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError, TilekitError
from tilekit.ir.annotations import ArrayAnnotation, TileAnnotation
from tilekit.ir.context import fail
from tilekit.ir.handles import Array, Scalar, Tile
from tilekit.ir.operands import describe
from tilekit.ir.parameters import closure_variables, parse_annotation
from tilekit.ir.types import DType, bool_ as bool_dtype, float32, int32

Form = tuple[FunctionType, dict[str, Any]]
"""A function with the annotations of its parameters."""


class Func:
    """A helper declared by ``@tk.func``: inlined where a kernel calls it, plain Python elsewhere.

    A second one of the same name and scope whose parameters have other types stands beside the first, as in Warp; one
    with the same types replaces it.
    """

    def __init__(
        self, function: FunctionType, earlier: Func | None = None, variables: Mapping[str, Any] | None = None
    ) -> None:
        self.function = function
        self.signatures: tuple[Form, ...] = ((function, {}),)
        """The forms; their annotations are read only where there are several."""
        if earlier is not None and _scope(earlier.function) == _scope(function):
            new = parameters_of(function, variables)
            others = [(form, parameters_of(form, variables)) for form in earlier.forms]
            self.signatures = (*(form for form in others if form[1] != new), (function, new))
        functools.update_wrapper(self, function)

    @property
    def forms(self) -> tuple[FunctionType, ...]:
        return tuple(function for function, _ in self.signatures)

    def chosen(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FunctionType:
        """The function that a call with these arguments means.

        Raises:
            KernelTypeError: none takes them.
        """
        return self.function if len(self.signatures) == 1 else choose(self.signatures, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.chosen(args, kwargs)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tilekit func {self.function.__qualname__}>"


def forms_of_warp(function: Any) -> tuple[FunctionType, ...]:
    """The Python functions behind a ``@wp.func``."""
    declared = [*getattr(function, "user_overloads", {}).values(), *getattr(function, "user_templates", {}).values()]
    found = [form.func for form in declared if isinstance(getattr(form, "func", None), FunctionType)]
    return tuple(dict.fromkeys(found)) or (function.func,)


def chosen_of_warp(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FunctionType:
    """Which of them a call with these arguments means."""
    forms = forms_of_warp(function)
    return forms[0] if len(forms) == 1 else choose([(form, parameters_of(form)) for form in forms], args, kwargs)


def choose(forms: Sequence[Form], args: Sequence[Any], kwargs: Mapping[str, Any]) -> FunctionType:
    """The last form whose parameters have the types of these arguments; else one that literals can convert to.

    Raises:
        KernelTypeError: none takes them.
    """
    for exact in (True, False):
        for function, types in reversed(forms):
            given = _bound(function, args, kwargs)
            if given is not None and all(_fits(types.get(name, Any), v, exact) for name, v in given.items()):
                return function
    listed = " and ".join(f"({', '.join(f'{name}: {_shown(t)}' for name, t in types.items())})" for _, types in forms)
    shown = ", ".join(map(describe, (*args, *kwargs.values())))
    raise fail(KernelTypeError(f"{forms[0][0].__name__}() is declared for {listed}, not for {shown}"))


def _scope(function: FunctionType) -> tuple[str | None, str]:
    return function.__module__, function.__qualname__


def parameters_of(function: FunctionType, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The annotations of a function's parameters; None where kernels cannot have such a parameter yet."""
    known = {**(variables or {}), **closure_variables(function)}
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            try:
                found[name] = parse_annotation(parameter.annotation, function.__globals__, known, name, optional=True)
            except TilekitError:
                found[name] = None
    return found


def _bound(function: FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return None


def _fits(annotation: Any, value: Any, exact: bool) -> bool:
    """Whether an argument has a parameter's type; not ``exact``, also whether a literal can take it."""
    if isinstance(annotation, ArrayAnnotation):
        return value is None or (isinstance(value, Array) and annotation.accepts(value.dtype, value.ndim))
    if isinstance(annotation, TileAnnotation):
        return isinstance(value, Tile) and annotation.accepts(value.dtype, value.shape)
    if not isinstance(annotation, DType):
        return annotation is Any
    if isinstance(value, Scalar):
        return value.dtype is annotation
    if isinstance(value, bool | np.bool_):
        return annotation is bool_dtype
    if isinstance(value, int):
        return annotation is int32 if exact else annotation.is_integer or annotation.is_float
    return isinstance(value, float) and (annotation is float32 if exact else annotation.is_float)


def _shown(annotation: Any) -> str:
    if annotation is None:
        return "..."
    return annotation.name if isinstance(annotation, DType) else "Any" if annotation is Any else repr(annotation)


__all__ = ["Func", "choose", "chosen_of_warp", "forms_of_warp"]
