"""Gradients of 16-bit arrays in their own dtype: summed in float32, and rounded once where they are added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilekit.builtins.grid import coordinate
from tilekit.builtins.memory import tile_load, tile_store
from tilekit.ir.array_parts import ArrayRoots
from tilekit.ir.context import building
from tilekit.ir.core import Function, Value, leaves, walk
from tilekit.ir.handles import OPERATORS, Array
from tilekit.ir.program import Launch, Program, Scratch
from tilekit.ir.sizes import CeilDiv, Extent, Size
from tilekit.ir.types import ArrayType

ROWS, COLUMNS = 8, 256
"""Of the tiles that are added."""


def summed_apart(program: Program) -> dict[str, Value]:
    """The gradient arrays that the program only adds to, in a wider dtype than the arrays'; each as one of theirs."""
    found = {}
    for name, fresh in program.gradients.items():
        if name not in program.params or fresh not in program.params:
            continue
        own, sum = program.params[name].type, program.params[fresh].type
        if own.dtype is not sum.dtype and isinstance(sum, ArrayType) and not _is_taken(program, fresh):
            found[fresh] = Value(ArrayType(own.dtype, sum.ndim), fresh)
    return found


def _is_taken(program: Program, fresh: str) -> bool:
    """Whether a launch reads or overwrites a gradient."""
    for launch in program.launches:
        fn = launch.function
        roots = ArrayRoots(fn.body)
        for op in walk(fn.body):
            arrays = (array for name in (*op.builtin.reads, *op.builtin.writes) for array in leaves(op.operands[name]))
            if any(fn.params.get(fresh) in roots.of(array) for array in arrays):
                return True
    return False


def round_gradients(program: Program, apart: Mapping[str, Value]) -> Program:
    """The program with some gradient arrays in the dtype of their arrays.

    Where it still adds to them in a wider one, it adds to scratch arrays, and at last those to the gradients.
    """
    scratch, launches, params = dict(program.scratch), list(program.launches), dict(program.params)
    for fresh, own in apart.items():
        wide, params[fresh] = program.params[fresh], own
        name: str | None = None
        if any(wide in launch.function.body.free for launch in launches):
            assert isinstance(wide.type, ArrayType)
            name = replace(program, scratch=scratch).free_name("sums")
            shape = tuple(Extent(fresh, axis) for axis in range(wide.type.ndim))
            scratch[name] = Scratch(wide, shape, zeroed=True)
            launches.append(_adding(f"{program.name}_{fresh}_rounded", fresh, own, name, wide))
        launches = [_renamed(launch, fresh, name, wide) for launch in launches]
    return replace(program, params=params, scratch=scratch, launches=tuple(launches))


def _renamed(launch: Launch, old: str, new: str | None, value: Value) -> Launch:
    """The launch with another name for a parameter, or without it."""
    fn = launch.function
    if fn.params.get(old) is not value:
        return launch
    names = {name: new if name == old else name for name in fn.params}
    params = {other: fn.params[name] for name, other in names.items() if other is not None}
    return replace(launch, function=replace(fn, params=params))


def _adding(name: str, fresh: str, own: Value, sums: str, wide: Value) -> Launch:
    """The launch that adds sums to an array of fewer bits, each rounded once."""
    assert isinstance(own.type, ArrayType) and isinstance(wide.type, ArrayType)
    ndim = own.type.ndim
    shape = (1,) * (ndim - 2) + (ROWS, COLUMNS)[-min(ndim, 2) :]
    with building() as builder:
        at = tuple(coordinate(axis) * extent for axis, extent in enumerate(shape))
        old = OPERATORS["cast"](tile_load(Array(own), shape, at), wide.type.dtype)
        more = tile_load(Array(wide), shape, at)
        tile_store(Array(own), OPERATORS["cast"](old + more, own.type.dtype), at)
    grid: tuple[Size, ...] = tuple(
        CeilDiv(Extent(fresh, axis), extent) if extent > 1 else Extent(fresh, axis) for axis, extent in enumerate(shape)
    )
    return Launch(Function(name, {fresh: own, sums: wide}, builder.block(())), grid)
