"""From a Python function to IR: run its rewritten form on handles and keep what it records."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError, Location, TilekitError
from tilekit.frontend import joins
from tilekit.frontend.calls import rewritten
from tilekit.frontend.messages import function_at, translate
from tilekit.frontend.source import locate, outermost
from tilekit.frontend.support import Tracing
from tilekit.ir.context import Builder, LaunchForm, using
from tilekit.ir.core import Function, Value
from tilekit.ir.float_state import ieee_state
from tilekit.ir.handles import Array, Scalar
from tilekit.ir.literals import Key, Literals
from tilekit.ir.operands import describe
from tilekit.ir.types import ArrayType, DType, ScalarType

ATTEMPTS = 8


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
    decided: Mapping[Key, DType] = {}
    for _ in range(ATTEMPTS):
        literals = Literals(decided)
        if (found_joins := joins.current()) is not None:
            found_joins.restart(decided)
        found = _trace(function, types, name, options, form, literals)
        settled = literals.settle()
        if settled is None:
            return found
        decided = settled
    raise KernelTypeError("no dtypes fit all uses of the literals in this kernel; cast them", found.location)


def _trace(
    function: FunctionType,
    types: Mapping[str, ArrayType | ScalarType | None],
    name: str | None,
    options: Mapping[str, Any] | None,
    form: LaunchForm | None,
    literals: Literals,
) -> Function:
    source = rewritten(function)
    params = {name: Value(type, name) for name, type in types.items() if type is not None}
    builder = Builder(locate=locate, form=form, literals=literals)
    values = {name: _handle(name, params[name]) if name in params else None for name in types}
    arguments, named = split(function, values)
    kernel = source.bind(function, Tracing())
    try:
        with using(builder), ieee_state(), np.errstate(all="ignore"):  # constants wrap as run-time values do
            result = kernel(*arguments, **named)
    except Exception as error:
        raise translate(error, builder.dropped, _end(source)) from _cause(error)
    if result is not None:
        message = f"kernel {function.__name__!r} returns {describe(result)}; store it in an output array"
        raise KernelTypeError(message, _return(_end(source)))
    return Function(name or function.__name__, params, builder.block(()), _end(source), dict(options or {}))


outermost(trace)


def _handle(name: str, value: Value) -> Array | Scalar:
    return Array(value, name) if isinstance(value.type, ArrayType) else Scalar(value)


def split(function: FunctionType, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """A kernel's arguments by position, and by name those that its signature wants so: what a wrapper passes on."""
    parameters = inspect.signature(function).parameters
    named = {name: value for name, value in values.items() if parameters[name].kind is inspect.Parameter.KEYWORD_ONLY}
    return [value for name, value in values.items() if name not in named], named


def _return(place: Location) -> Location:
    """Where the function at a place returns a value."""
    for node in ast.walk(function_at(place) or ast.Pass()):
        if isinstance(node, ast.Return) and node.value is not None:
            end = node.end_col_offset if node.end_lineno == node.lineno else 0
            return Location(place.file, node.lineno, node.col_offset, end or 0, place.function)
    return place


def _end(source: Any) -> Location:
    found: Location = source.source.location(source.source.node)
    return found


def _cause(error: BaseException) -> BaseException | None:
    """Python's own error, where its traceback says more than the message."""
    return None if isinstance(error, TilekitError | NameError | AttributeError | TypeError) else error
