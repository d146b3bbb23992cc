"""From a Python function to IR: run its rewritten form on handles and keep what it records."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from tilekit.errors import (
    KernelAttributeError,
    KernelIndexError,
    KernelNameError,
    KernelNotImplementedError,
    KernelTypeError,
    KernelValueError,
    Location,
    TilekitError,
)
from tilekit.frontend.calls import rewritten
from tilekit.frontend.source import locate, locate_error
from tilekit.frontend.support import Tracing
from tilekit.ir.context import Builder, LaunchForm, using
from tilekit.ir.core import Function, Value
from tilekit.ir.handles import Array, Scalar
from tilekit.ir.types import ArrayType, ScalarType

_TRANSLATED: dict[type[BaseException], type[TilekitError]] = {
    NameError: KernelNameError,
    AttributeError: KernelAttributeError,
    TypeError: KernelTypeError,
    IndexError: KernelIndexError,
    KeyError: KernelIndexError,
    ValueError: KernelValueError,
    ZeroDivisionError: KernelValueError,
    OverflowError: KernelValueError,
    RecursionError: KernelNotImplementedError,
}


def trace(
    function: FunctionType,
    types: Mapping[str, ArrayType | ScalarType | None],
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    form: LaunchForm | None = None,
) -> Function:
    """The IR of a kernel for parameters of these types; None is an array that is not given.

    Raises:
        TilekitError: the kernel is wrong; the error carries the place in its source.
    """
    source = rewritten(function)
    params = {name: Value(type, name) for name, type in types.items() if type is not None}
    builder = Builder(locate=locate, form=form)
    arguments = {name: _handle(name, params[name]) if name in params else None for name in types}
    kernel = source.bind(function, Tracing())
    try:
        with using(builder):
            result = kernel(**arguments)
    except Exception as error:
        raise translate(error) from _cause(error)
    if result is not None:
        raise KernelTypeError(
            f"kernel {function.__name__!r} returns a value; store it in an output array", _end(source)
        )
    return Function(name or function.__name__, params, builder.block(()), _end(source), dict(options or {}))


def _handle(name: str, value: Value) -> Array | Scalar:
    return Array(value, name) if isinstance(value.type, ArrayType) else Scalar(value)


def _end(source: Any) -> Location:
    found: Location = source.source.location(source.source.node)
    return found


def translate(error: BaseException) -> BaseException:
    """A Python error that arose while a kernel was traced, as tilekit's error at the place in the kernel."""
    place = locate_error(error.__traceback__)
    if isinstance(error, TilekitError):
        return error.at(place)
    found = next((_TRANSLATED[kind] for kind in type(error).__mro__ if kind in _TRANSLATED), None)
    if found is None:
        return error
    return found(_message(error), place)


def _message(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, NameError) and error.name and "not defined" not in text:
        return (
            f"{error.name!r} has no value here on some path: it is only assigned inside a branch or loop that may not "
            "run; give it a value before"
        )
    if isinstance(error, RecursionError):
        return "the kernel recurses without end; kernels cannot recurse"
    return text


def _cause(error: BaseException) -> BaseException | None:
    return None if isinstance(error, TilekitError | NameError | AttributeError) else error
