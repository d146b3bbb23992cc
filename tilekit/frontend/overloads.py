"""``@tk.func`` helpers, and which of several functions of one name a call means."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.frontend.declarations import Declaration, fits
from tilekit.ir.context import fail
from tilekit.ir.operands import describe


class Func:
    """A helper declared by ``@tk.func``: inlined where a kernel calls it, plain Python elsewhere.

    A second one of the same name and scope whose parameters have other types stands beside the first, as in Warp; one
    with the same types replaces it.
    """

    def __init__(
        self, function: FunctionType, earlier: Func | None = None, variables: Mapping[str, Any] | None = None
    ) -> None:
        self.function = function
        new = Declaration(function, variables)
        self.declarations: tuple[Declaration, ...] = (new,)
        if earlier is not None and _scope(earlier.function) == _scope(function):
            others = (form for form in earlier.declarations if form.parameters != new.parameters)
            self.declarations = (*others, new)
        functools.update_wrapper(self, function)

    @property
    def forms(self) -> tuple[FunctionType, ...]:
        return tuple(form.function for form in self.declarations)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return chosen(self.declarations, args, kwargs).function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tilekit func {self.function.__qualname__}>"


class GradientOf:
    """What ``tk.grad(f)`` gives: called like ``f``, it returns the gradients of ``f``'s result."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from tilekit.frontend.gradient_calls import gradients

        return gradients(self.function, args, kwargs)

    @property
    def name(self) -> str:
        """How errors name it."""
        return f"grad({getattr(self.function, '__name__', self.function)})"

    def __repr__(self) -> str:
        return f"<tilekit {self.name}>"


def forms_of_warp(function: Any) -> tuple[FunctionType, ...]:
    """The Python functions behind a ``@wp.func``."""
    declared = [*getattr(function, "user_overloads", {}).values(), *getattr(function, "user_templates", {}).values()]
    found = [form.func for form in declared if isinstance(getattr(form, "func", None), FunctionType)]
    return tuple(dict.fromkeys(found)) or (function.func,)


def declarations_of_warp(function: Any) -> tuple[Declaration, ...]:
    """What the Python functions behind a ``@wp.func`` are declared for, with the gradients that it knows of them."""
    found = _declarations_of_warp(function)
    declared = [function, *getattr(function, "user_overloads", {}).values()]
    known = {form.func: form for form in declared if getattr(form, "func", None) is not None}
    for form in found:
        own = known.get(form.function)
        form.gradient = getattr(getattr(own, "custom_grad_func", None), "func", None)
        form.replay = getattr(getattr(own, "custom_replay_func", None), "func", None)
    return found


@functools.lru_cache(maxsize=256)
def _declarations_of_warp(function: Any) -> tuple[Declaration, ...]:
    return tuple(map(Declaration, forms_of_warp(function)))


def chosen(forms: Sequence[Declaration], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Declaration:
    """The only form; of several the last whose parameters have the types of these arguments; else one that literals can
    convert to.

    Raises:
        KernelTypeError: there are several, and none takes them.
    """
    if len(forms) == 1:
        return forms[0]
    for exact in (True, False):
        for form in reversed(forms):
            given = form.bound(args, kwargs)
            if given is not None and all(
                fits(form.parameters.get(name, Any), value, exact) for name, value in given.arguments.items()
            ):
                return form
    listed = " and ".join(map(str, forms))
    shown = ", ".join(map(describe, (*args, *kwargs.values())))
    raise fail(KernelTypeError(f"{forms[0].function.__name__}() is declared for {listed}, not for {shown}"))


def _scope(function: FunctionType) -> tuple[str | None, str]:
    return function.__module__, function.__qualname__


__all__ = ["Func", "GradientOf", "chosen", "declarations_of_warp", "forms_of_warp"]
