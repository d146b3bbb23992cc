"""Functions of elements on known numbers: where calls run at once and a function branches in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError
from tilekit.ir.context import Concrete, active
from tilekit.ir.core import Block, Const
from tilekit.ir.handles import Scalar, Tile, wrap
from tilekit.ir.interpret import data_of
from tilekit.ir.missing import has_missing
from tilekit.ir.operands import constant, describe
from tilekit.ir.types import ScalarType, TileType


def runs_at_once() -> bool:
    """Whether calls compute now, so that every number is known."""
    context = active()
    return context is None or context.eager


def steps(block: Block) -> bool:
    """Whether a block of single numbers must run for each element by itself, as it branches, reads memory or prints."""
    return any(op.blocks or not op.builtin.elementwise for op in block.ops)


def known_data(t: Tile) -> Any:
    """The NumPy data of a tile where calls run at once."""
    found = t.read()
    assert isinstance(found, Concrete)
    return found.data


def number_of(value: Any, name: str) -> Concrete:
    """What a function of elements returned, as a known number.

    Raises:
        KernelTypeError: it is none.
    """
    found = value.datum if isinstance(value, Scalar) else constant(value)
    if not isinstance(found, Const | Concrete):
        raise KernelTypeError(f"{name}(): op must return one number, got {describe(value)}")
    return Concrete(ScalarType(found.type.dtype), data_of(found))


def map_stepwise(function: Callable[..., Any], args: tuple[Any, ...], name: str) -> Tile:
    """Call a function for each element of the tiles among its arguments."""
    data = [known_data(arg) if isinstance(arg, Tile) else arg for arg in args]
    shape = next(arg.shape for arg in args if isinstance(arg, Tile))
    results: list[Concrete] = []
    for index in np.ndindex(*shape):
        given = [
            Scalar(Concrete(ScalarType(arg.dtype), values[index])) if isinstance(arg, Tile) else arg
            for arg, values in zip(args, data, strict=True)
        ]
        results.append(number_of(function(*given), name))
    dtypes = {result.type.dtype for result in results}
    if len(dtypes) > 1:
        listed = " and ".join(sorted(dtype.name for dtype in dtypes))
        raise KernelTypeError(f"{name}(): op returns {listed} depending on its argument; cast to one dtype")
    (dtype,) = dtypes
    values = np.array([result.data for result in results]).astype(dtype.numpy).reshape(shape)
    missing = any(has_missing(arg.read()) for arg in args if isinstance(arg, Tile))
    return wrap(Concrete(TileType(dtype, shape), values, missing=missing))  # type: ignore[no-any-return]


def combine_stepwise(function: Callable[..., Any], wide: ScalarType, name: str) -> Callable[[Any, Any], Any]:
    """A function of two numbers as one of two arrays."""

    def combine(a: Any, b: Any) -> Any:
        result = np.empty_like(a)
        for index in np.ndindex(*a.shape):
            found = number_of(function(*(Scalar(Concrete(wide, values[index])) for values in (a, b))), name)
            if found.type.dtype != wide.dtype:
                raise KernelTypeError(
                    f"{name}(): op takes two {wide.dtype.name} and must return one, got {found.type.dtype.name}"
                )
            result[index] = found.data
        return result

    return combine
