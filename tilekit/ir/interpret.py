"""Runs ops in NumPy through their builtins' ``reference`` rules: whole functions, or one call at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilekit.errors import Location, TilekitError, VerificationError
from tilekit.ir.builtin import Builtin, set_eager
from tilekit.ir.context import Concrete
from tilekit.ir.core import Block, Const, Function, Op, Value, map_operand
from tilekit.ir.missing import on_present
from tilekit.ir.types import (
    DType,
    ScalarType,
    TileType,
    Type,
    bfloat16,
    convert_elements,
    round_bfloat16,
    to_numpy_scalar,
)

Data = Any


@dataclass
class Machine:
    """What a kernel can ask about where it runs, for one block (and lane) of a launch."""

    block: tuple[int, ...] = (0,)
    grid: tuple[int, ...] = (1,)
    block_dim: int = 1
    lane: int = 0
    points: bool = False
    """True for ``launch``: ``block`` is the point of one lane, not the coordinates of a block."""
    present: int | None = None
    """How many lanes the block has, where it lacks some."""
    write: Callable[[str], object] | None = None
    checks: dict[str, Any] = field(default_factory=dict)


HOST = Machine()


def from_memory(values: Data, dtype: DType) -> Data:
    """Elements as stored in an array, as the numbers tilekit computes with (bfloat16 is held in float32)."""
    if dtype is bfloat16 and values.dtype.itemsize == 2:
        return (np.asarray(values).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values


def to_memory(values: Data, dtype: DType, like: np.dtype[Any]) -> Data:
    """The inverse of ``from_memory`` for an array whose elements are stored as ``like``."""
    if dtype is bfloat16 and like.itemsize == 2:
        bits = np.ascontiguousarray(round_bfloat16(np.asarray(values, np.float32))).view(np.uint32) >> np.uint32(16)
        return bits.astype(np.uint16).view(like).reshape(np.shape(values))
    return values


def stored(values: Data, array: Data) -> Data:
    """Computed elements as ``array`` stores them, where it holds bfloat16 as bits."""
    is_bits = array.dtype.itemsize == 2 and values.dtype == np.float32
    return to_memory(values, bfloat16, array.dtype) if is_bits else values


def conform(data: Data, type: Type) -> Data:
    """``data`` in the dtype and shape that ``type`` says.

    Raises:
        VerificationError: a reference rule returned another shape than the result rule said.
    """
    if isinstance(type, ScalarType):
        return to_numpy_scalar(data, type.dtype) if np.ndim(data) == 0 else conform_elements(data, type.dtype)
    if isinstance(type, TileType):
        found = conform_elements(data, type.dtype)
        if found.shape != type.shape:
            raise VerificationError(f"a reference rule returned shape {found.shape} for a {type}")
        return found
    return data


def conform_elements(data: Data, dtype: DType) -> Data:
    return convert_elements(np.asarray(data), dtype)


def data_of(operand: Any) -> Data:
    """The NumPy data of a concrete operand; weak constants stay Python numbers, as NumPy treats those as weak too."""
    if isinstance(operand, Const):
        return operand.value if operand.type.weak else to_numpy_scalar(operand.value, operand.type.dtype)
    return operand.data


class Eager:
    """Computes each call at once."""

    eager = True
    team: Any = None
    """How a lane acts together with the others of its block, where they take turns."""

    def __init__(self, machine: Machine = HOST, locate: Callable[[], Location | None] | None = None) -> None:
        self.machine = machine
        self.locate = locate

    def location(self) -> Location | None:
        return self.locate() if self.locate is not None else None

    def apply(
        self,
        builtin: Builtin,
        operands: Mapping[str, Any],
        attrs: Mapping[str, Any],
        types: tuple[Type, ...],
        blocks: tuple[Block, ...] = (),
    ) -> tuple[Concrete, ...]:
        run = tuple(runner(block, {}, self.machine) for block in blocks)
        missing = False
        if self.machine.present is not None:
            operands, missing = on_present(builtin, operands, attrs, types, self.machine.present)
        data = {name: map_operand(operand, data_of) for name, operand in operands.items()}
        found = evaluate(builtin, data, attrs, types, run, self.machine)
        return tuple(Concrete(type, value, missing=missing) for type, value in zip(types, found, strict=True))


set_eager(Eager())


compiled_hook: Callable[[Builtin, Mapping[str, Data], DType], Data | None] | None = None
"""What an approximate function gives in compiled code, None where that is not known; the runtime sets it."""


def set_compiled_hook(hook: Callable[[Builtin, Mapping[str, Data], DType], Data | None] | None) -> None:
    global compiled_hook
    compiled_hook = hook


def evaluate(
    builtin: Builtin,
    data: Mapping[str, Data],
    attrs: Mapping[str, Any],
    types: tuple[Type, ...],
    blocks: tuple[Callable[..., Any], ...],
    machine: Machine,
) -> tuple[Data, ...]:
    """The results of one op, each conforming to its type."""
    if builtin.approximate and compiled_hook is not None:
        exact = compiled_hook(builtin, data, types[0].dtype)
        if exact is not None:
            return (conform(exact, types[0]),)
    with np.errstate(all="ignore"):
        found = builtin.apply("reference", data, attrs, machine=machine, blocks=blocks, types=types)
    results = () if found is None else found if isinstance(found, tuple) else (found,)
    return tuple(conform(result, type) for result, type in zip(results, types, strict=True))


def runner(block: Block, env: dict[Value, Data], machine: Machine) -> Callable[..., tuple[Data, ...]]:
    """A block as a function from its parameters to what it yields."""

    def run(*arguments: Data) -> tuple[Data, ...]:
        env.update(zip(block.params, arguments, strict=True))
        for op in block.ops:
            run_op(op, env, machine)
        return tuple(look_up(result, env) for result in block.results)

    return run


def look_up(operand: Any, env: Mapping[Value, Data]) -> Data:
    def read(item: Any) -> Data:
        return env[item] if isinstance(item, Value) else data_of(item)

    return map_operand(operand, read)


def run_op(op: Op, env: dict[Value, Data], machine: Machine) -> None:
    data = {name: look_up(operand, env) for name, operand in op.operands.items()}
    blocks = tuple(runner(block, env, machine) for block in op.blocks)
    try:
        results = evaluate(op.builtin, data, op.attrs, tuple(value.type for value in op.results), blocks, machine)
    except TilekitError as error:
        raise error.at(op.location) from error.__cause__
    env.update(zip(op.results, results, strict=True))


def interpret(fn: Function, arguments: Mapping[str, Data], machine: Machine = HOST) -> tuple[Data, ...]:
    """Run a function for one block; arrays among the arguments are written in place."""
    env: dict[Value, Data] = {value: arguments[name] for name, value in fn.params.items()}
    return runner(fn.body, env, machine)()
