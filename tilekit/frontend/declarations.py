"""What the annotations of a ``@tk.func`` or ``@wp.func`` say: arguments and result have the types written there.

As in Warp, a number of another dtype is refused, not converted. A literal has no dtype yet and takes the one that is
written, if it is of its kind: 0.5 may be a float64, 7 an int64, but 7 is no float.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from tilekit.errors import KernelTypeError, TilekitError
from tilekit.ir.annotations import ArrayAnnotation, TileAnnotation
from tilekit.ir.context import fail
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile
from tilekit.ir.literals import adopt
from tilekit.ir.operands import constant, describe, is_weak
from tilekit.ir.parameters import closure_variables, evaluated, parse_annotation
from tilekit.ir.types import DType, ScalarType, float32, int32


class Declaration:
    """A function with the types of its parameters and of its result.

    The annotations of a module's function are read at the first call, when all of its names exist; those of a function
    inside another one at once, while ``variables``, what that one's names mean, are at hand.
    """

    def __init__(self, function: FunctionType, variables: Mapping[str, Any] | None = None) -> None:
        self.function = function
        self.gradient: FunctionType | None = None
        """Its own gradient, declared by ``@tk.func_grad``."""
        self.replay: FunctionType | None = None
        """What computes its results where a gradient needs them again, declared by ``@tk.func_replay``."""
        self.called = False
        """Whether a kernel has called it, which then knows what was declared until then."""
        self._variables: Mapping[str, Any] = variables or {}
        if variables is not None and variables is not function.__globals__:
            self.says_nothing  # noqa: B018
        self._variables = {}

    def __str__(self) -> str:
        return f"({', '.join(f'{name}: {_shown(type)}' for name, type in self.parameters.items())})"

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @functools.cached_property
    def parameters(self) -> dict[str, Any]:
        """The annotations of the parameters; None where kernels cannot have such a parameter yet."""
        return {
            name: self._meaning(parameter.annotation, name)
            for name, parameter in self.signature.parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

    @functools.cached_property
    def returns(self) -> Any:
        """The annotation of the result, for a tuple those of its items; None where there is none to check."""
        given, known = self.signature.return_annotation, self._known
        if isinstance(given, str):
            try:
                given = evaluated(given, self.function.__globals__, known, "the result")
            except TilekitError:
                return None
        items = typing.get_args(given)
        if typing.get_origin(given) is tuple and Ellipsis not in items:
            return tuple(self._meaning(item, "return") for item in items)
        return self._meaning(given, "return")

    @functools.cached_property
    def says_nothing(self) -> bool:
        """Whether nothing is declared that could be checked."""
        types = self.returns if isinstance(self.returns, tuple) else (self.returns,)
        return all(type is None or type is Any for type in (*self.parameters.values(), *types))

    @property
    def is_custom(self) -> bool:
        """Whether it has a gradient or a replay of its own."""
        return self.gradient is not None or self.replay is not None

    @property
    def _known(self) -> dict[str, Any]:
        return {**self._variables, **closure_variables(self.function)}

    def _meaning(self, annotation: Any, name: str) -> Any:
        try:
            return parse_annotation(annotation, self.function.__globals__, self._known, name, optional=True)
        except TilekitError:
            return None

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments | None:
        """The arguments by the names of their parameters; None where they are too few or too many."""
        try:
            return self.signature.bind(*args, **kwargs)
        except TypeError:
            return None

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments of a call, literals in the dtypes of their parameters.

        Raises:
            KernelTypeError: one has another type than its parameter.
        """
        given = self.bound(args, kwargs)
        if given is None:  # the call itself raises the error
            return args, kwargs
        for name, value in given.arguments.items():
            wanted = self.parameters.get(name)
            if wanted is not None and not fits(wanted, value, exact=False):
                raise fail(self._mismatch(f"parameter {name!r}", wanted, f"gets {describe(value)}", repr(name)))
            given.arguments[name] = adopted(wanted, value)
        return given.args, given.kwargs

    def result(self, value: Any) -> Any:
        """What a call returns, literals in the dtypes that are declared for them.

        Raises:
            KernelTypeError: it has another type.
        """
        wanted = self.returns
        if isinstance(wanted, tuple):
            if isinstance(value, tuple) and len(value) == len(wanted):
                items = zip(wanted, value, strict=True)
                return tuple(self._item(type, item, f"item {i} of the result") for i, (type, item) in enumerate(items))
            raise fail(self._mismatch("the result", wanted, f"is {describe(value)}", "the result"))
        return self._item(wanted, value, "the result")

    def _item(self, wanted: Any, value: Any, what: str) -> Any:
        if wanted is not None and not fits(wanted, value, exact=False):
            raise fail(self._mismatch(what, wanted, f"is {describe(value)}", "the result"))
        return adopted(wanted, value)

    def _mismatch(self, what: str, wanted: Any, found: str, name: str) -> KernelTypeError:
        instead = f"convert it, as in tk.{wanted.name}(...), or " if isinstance(wanted, DType) else ""
        return KernelTypeError(
            f"{self.function.__name__}(): {what} is declared {_shown(wanted)} but {found}; {instead}declare {name} Any"
        )


def fits(annotation: Any, value: Any, exact: bool) -> bool:
    """Whether a value has a declared type; not ``exact``, also whether a literal can take it."""
    if annotation is Any:
        return True
    if isinstance(annotation, ArrayAnnotation):
        return value is None or (isinstance(value, Array) and annotation.accepts(value.dtype, value.ndim))
    if isinstance(annotation, TileAnnotation):
        return isinstance(value, Tile) and annotation.accepts(value.dtype, value.shape)
    if not isinstance(annotation, DType):
        return False
    if isinstance(value, Scalar):
        weak = not exact and is_weak(value.type) and annotation.kind != "b"
        return value.dtype == annotation or (weak and value.dtype.is_float == annotation.is_float)
    number = None if isinstance(value, Tile | Array) else constant(value)
    if number is None:
        return False
    if not number.type.weak:
        return number.type.dtype == annotation
    if number.type.dtype.is_float:
        return annotation is float32 if exact else annotation.is_float
    return annotation is int32 if exact else annotation.is_integer and annotation.holds(int(value))


def adopted(annotation: Any, value: Any) -> Any:
    """A literal in its declared dtype; anything else as it is."""
    if not isinstance(annotation, DType):
        return value
    if isinstance(value, Scalar) and is_weak(value.type):
        adopt(value.datum, ScalarType(annotation))  # fixes the literal's dtype from here on
        return OPERATORS["cast"].record({"a": value.datum}, {"dtype": annotation})  # type: ignore[attr-defined]
    return annotation(value) if type(value) in (int, float) else value


def _shown(annotation: Any) -> str:
    if annotation is None:
        return "..."
    if isinstance(annotation, tuple):
        return f"tuple[{', '.join(map(_shown, annotation))}]"
    return annotation.name if isinstance(annotation, DType) else "Any" if annotation is Any else repr(annotation)
