"""Reads the annotations of a function's parameters, also those that are strings."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from tilekit.errors import KernelNameError, KernelNotImplementedError, KernelTypeError, Location, TilekitError
from tilekit.ir.annotations import (
    LATER,
    Annotation,
    ArrayAnnotation,
    ArrayMeta,
    TileAnnotation,
    array_annotation,
    compound_name,
    element_dtype,
    root_package,
)
from tilekit.ir.types import find_dtype

_WARP_ARRAY_CLASSES = {"array": None, "array1d": 1, "array2d": 2, "array3d": 3, "array4d": 4}
_WRITE = "write, for example, x: tk.array2d[float] for an array or x: float for a number"


def parse_parameters(
    function: Callable[..., Any],
    kind: str = "kernel",
    variables: Mapping[str, Any] | None = None,
    locate: Callable[[str], Location | None] = lambda name: None,
) -> dict[str, Annotation]:
    """The annotation of each parameter of ``function``, in order.

    ``kind`` is ``"kernel"`` or ``"function"``; a function's parameters may lack annotations. String annotations are
    evaluated with the function's globals, its closure and ``variables``: the local variables of the scope that defines
    it, because a closure does not keep names that only annotations use.
    ``locate`` tells where a parameter stands.

    Example:
        >>> def scale(x: float, n: "int"): ...
        >>> parse_parameters(scale)
        {'x': float32, 'n': int32}

    Raises:
        KernelTypeError: a missing or wrong annotation, ``*args`` or ``**kwargs``.
        KernelNameError: a string annotation with a name that is not defined.
        KernelNotImplementedError: vectors, matrices and structs.
    """
    known = {**(variables or {}), **closure_variables(function)}
    parsed = {}
    for name, parameter in inspect.signature(function).parameters.items():
        try:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
                raise KernelTypeError(
                    f"{kind} '{function.__name__}' has a parameter {stars}{name}; name each parameter"
                )
            owner = f"{kind} '{function.__name__}'"
            annotation = parameter.annotation
            parsed[name] = parse_annotation(annotation, function.__globals__, known, name, owner, kind == "function")
        except TilekitError as error:
            raise error.at(locate(name)) from error.__cause__
    return parsed


def closure_variables(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables of enclosing functions that ``function`` uses and that are bound by now."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet, as for a function that refers to itself
            continue
    return found


def parse_annotation(
    annotation: Any,
    global_names: Mapping[str, Any],
    local_names: Mapping[str, Any],
    parameter: str,
    owner: str = "kernel",
    optional: bool = False,
) -> Annotation:
    """What the annotation of ``parameter`` means: ArrayAnnotation, TileAnnotation, DType or ``Any``.

    ``owner`` names the kernel or function in messages. With ``optional``, a missing annotation and ``Callable`` mean
    ``Any``, as fits a function that is inlined.

    Raises:
        KernelTypeError, KernelNameError, KernelNotImplementedError: as for :func:`parse_parameters`.
    """
    where = f"parameter '{parameter}' of {owner}"
    if annotation is inspect.Parameter.empty:
        if optional:
            return Any
        raise KernelTypeError(f"{where} has no type annotation; {_WRITE.replace('x:', f'{parameter}:')}")
    for _ in range(2):  # a quoted annotation under `from __future__ import annotations` is a string in a string
        if not isinstance(annotation, str):
            break
        annotation = evaluated(annotation, global_names, local_names, where)
    try:
        found = _meaning(annotation)
        if found is None and optional and _is_callable(annotation):
            return Any
    except TilekitError as error:
        raise type(error)(f"{where}: {error.message}") from None
    if found is None:
        raise KernelTypeError(f"{where} is annotated {_text(annotation)}, which is not a type for kernels; {_WRITE}")
    return found


def evaluated(text: str, global_names: Mapping[str, Any], local_names: Mapping[str, Any], where: str) -> Any:
    """What an annotation that is a string means; ``where`` names its place in errors."""
    try:
        return eval(text, {**global_names, **local_names})
    except NameError as error:
        raise KernelNameError(
            f"{where} is annotated {text!r}, but {error}; an annotation that is a string can use the module's globals "
            "and the variables of the functions around it that exist when the decorator runs"
        ) from None
    except TilekitError as error:
        raise type(error)(f"{where}: {error.message}") from None
    except Exception as error:
        raise KernelTypeError(
            f"{where} is annotated {text!r}, which fails with {type(error).__name__}: {error}"
        ) from error


def _meaning(annotation: Any) -> Annotation | None:
    """The annotation without its spelling, or None for what is no annotation."""
    if annotation is Any or isinstance(annotation, (ArrayAnnotation, TileAnnotation)):
        return annotation
    if isinstance(annotation, ArrayMeta):
        return ArrayAnnotation(Any, annotation.fixed_ndim)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        choices = [choice for choice in typing.get_args(annotation) if choice is not type(None)]
        return _meaning(choices[0]) if len(choices) == 1 else None
    found = find_dtype(annotation)
    if found is not None:
        return found
    return _warp_meaning(annotation)


def _warp_meaning(annotation: Any) -> Annotation | None:
    """Warp's annotations, which are objects with a dtype and a rank, bare array classes and compound types."""
    if isinstance(annotation, type):
        name = annotation.__name__
        if annotation.__module__.partition(".")[0] == "warp" and name in _WARP_ARRAY_CLASSES:
            return ArrayAnnotation(Any, _WARP_ARRAY_CLASSES[name])
    if isinstance(annotation, typing.TypeVar):
        element_dtype(annotation)
    compound = compound_name(annotation)
    if compound is not None:
        raise KernelNotImplementedError(f"{compound} parameters: this type {LATER}")
    if root_package(annotation) != "warp":
        return None
    kind = type(annotation).__name__.strip("_")
    if kind in ("array", "ArrayAnnotation"):
        return array_annotation(annotation.dtype, None if annotation.ndim is Any else annotation.ndim)
    if kind == "tile":
        shape = annotation.shape
        return TileAnnotation(element_dtype(annotation.dtype), None if shape is Any else tuple(shape))
    raise KernelNotImplementedError(f"Warp's {kind} is not supported; use a plain array")


def _is_callable(annotation: Any) -> bool:
    origin = typing.get_origin(annotation) or annotation
    return origin in (collections.abc.Callable, typing.Callable)


def _text(annotation: Any) -> str:
    return getattr(annotation, "__qualname__", None) or repr(annotation)
