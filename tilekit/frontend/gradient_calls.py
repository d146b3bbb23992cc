"""``tk.grad(f)``: the gradient of a function where a kernel calls it."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.frontend.calls import resolve_call
from tilekit.frontend.overloads import Func, GradientOf
from tilekit.ir.builtin import Builtin
from tilekit.ir.context import Builder, Concrete, active, building, fail, using
from tilekit.ir.core import Block, Const, Value
from tilekit.ir.gradients import gradient_type
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile, wrap
from tilekit.ir.interpret import HOST, data_of, runner
from tilekit.ir.operands import constant, describe
from tilekit.ir.types import DType, ScalarType, TileType, float32

__all__ = ["grad"]


def grad(func: Any) -> GradientOf:
    """The gradient of a function of numbers and tiles, for use in kernels.

    Args:
        func: A ``@tk.func``, a builtin or a plain function that returns one float number or tile. A gradient that
            ``@tk.func_grad`` declares is used.

    Returns:
        A function of the same arguments. It returns the gradient of each of them, in its dtype and shape, as a tuple
        where there are several: of the result, or of the sum of its elements where it is a tile. That of an integer is
        0. It is made of ordinary operations, and has a gradient itself.

    Raises:
        KernelTypeError: ``func`` is no function; when called: an argument is an array, or the result is no float.
        KernelNotImplementedError: when called: an operation in it has no gradient.

    Example:
        >>> import tilekit as tk
        >>> @tk.func
        ... def f(x: float, y: float):
        ...     return x * x * y
        >>> tk.grad(f)(3.0, 2.0)
        (12.0, 9.0)
    """
    if not isinstance(func, Func | GradientOf | Builtin | FunctionType) and not hasattr(func, "key"):
        raise fail(KernelTypeError(f"grad(): func must be a function, got {describe(func)}"))
    return GradientOf(func)


grad.in_kernels = True  # type: ignore[attr-defined]
"""Kernels that call Warp's mean it."""


def gradients(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The gradients of a call's result: recorded while a kernel is traced, else computed at once."""
    given: dict[int | str, Any] = dict(enumerate(args))
    given.update(kwargs)
    context = active()
    if isinstance(context, Builder):
        found = _record(function, given, len(args))
    else:
        found = _compute(function, given, len(args))
    return found[0] if len(found) == 1 else tuple(found)


def _record(function: Any, given: Mapping[int | str, Any], count: int) -> list[Any]:
    """The gradients of all arguments, recorded in the active builder."""
    from tilekit.passes.block_gradients import block_gradients  # few programs need the passes to define kernels

    values = {key: _operand(function, value, given) for key, value in given.items()}
    traced = {key: value for key, value in values.items() if isinstance(value, Scalar | Tile)}
    params = {key: Value(_type(value)) for key, value in traced.items()}
    with building() as builder:
        handles = {**values, **{key: wrap(param) for key, param in params.items()}}
        found = resolve_call(function)(*(handles[i] for i in range(count)), **_named(handles))
        block = builder.block(tuple(params.values()), (_result(function, found),))
    data = [value.read() if isinstance(value, Tile) else value.datum for value in traced.values()]
    seed = _ones(block.results[0].type)
    grads = dict(zip(traced, block_gradients(block, data, seed), strict=True))
    return [_fitted(grads[key], traced[key].dtype) if key in grads else 0 for key in given]


def _compute(function: Any, given: Mapping[int | str, Any], count: int) -> list[Any]:
    """The same at once, outside kernels and in the interpreter."""
    context = active()
    machine = getattr(context, "machine", HOST)
    values = {key: _operand(function, value, given) for key, value in given.items()}
    known = {key: value for key, value in values.items() if isinstance(value, Scalar | Tile)}
    params = {key: Value(_type(value)) for key, value in known.items()}
    builder = Builder(locate=context.location if context is not None else None)
    with using(builder):
        found = _record(function, {**values, **{key: wrap(param) for key, param in params.items()}}, count)
        data = [item.read() if isinstance(item, Tile) else getattr(item, "datum", item) for item in found]
    places = [i for i, item in enumerate(data) if isinstance(item, Value | Const)]
    yielded: Any = tuple(data[i] for i in places)
    block = Block(tuple(params.values()), tuple(builder.ops), yielded)
    numbers = [data_of(v.read() if isinstance(v, Tile) else v.datum) for v in known.values()]
    results = dict(zip(places, runner(block, {}, machine)(*numbers), strict=True))
    return [wrap(Concrete(data[i].type, results[i])) if i in results else item for i, item in enumerate(data)]


def _named(handles: Mapping[int | str, Any]) -> dict[str, Any]:
    return {key: value for key, value in handles.items() if isinstance(key, str)}


def _operand(function: Any, value: Any, given: Mapping[int | str, Any]) -> Any:
    """An argument: a float as a handle, of the dtype of the others where it has none of its own."""
    if isinstance(value, Array):
        text = f"{GradientOf(function).name}: {describe(value)} has no gradient here; pass numbers and tiles"
        raise fail(KernelTypeError(f"{text}, or differentiate the kernel"))
    number = None if isinstance(value, Scalar | Tile) else constant(value)
    if number is None or not number.type.dtype.is_float:
        return value
    floats = [v.dtype for v in given.values() if isinstance(v, Scalar | Tile) and v.dtype.is_float]
    dtype = number.type.dtype if not number.type.weak else floats[0] if floats else float32
    return wrap(Const(ScalarType(dtype), number.value))  # type: ignore[arg-type]


def _type(value: Any) -> Any:
    return value.type if isinstance(value, Tile) else ScalarType(value.dtype)


def _result(function: Any, found: Any) -> Any:
    """The one float that the function returns, as an operand."""
    if not isinstance(found, Scalar | Tile) or not found.dtype.is_float:
        if not isinstance(found, float):
            text = f"{GradientOf(function).name}: it returns {describe(found)}; return one float number or tile"
            raise fail(KernelTypeError(text))
        return constant(found)
    return found.read() if isinstance(found, Tile) else found.datum


def _ones(type: Any) -> Any:
    wanted = gradient_type(type)
    if isinstance(wanted, TileType):
        return OPERATORS["full"](wanted.shape, 1, wanted.dtype)
    return wrap(Const(ScalarType(wanted.dtype), 1.0))  # type: ignore[arg-type]


def _fitted(gradient: Any, dtype: DType) -> Any:
    """A gradient in the dtype of its argument; 0 where that is no float."""
    if not dtype.is_float:
        return 0
    return gradient if gradient.dtype == dtype else OPERATORS["cast"](gradient, dtype)
