"""Runs programs of several launches in the interpreter, one block after another, in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilekit.ir.interpret import Machine, interpret
from tilekit.ir.program import Program
from tilekit.ir.sizes import evaluate
from tilekit.ir.types import bfloat16, to_numpy_scalar
from tilekit.ir.verify import verify


def run_program(
    program: Program, arguments: Mapping[str, Any], dims: tuple[int, ...], rng: np.random.Generator | None = None
) -> None:
    """Run every launch; arrays are written in place. ``rng`` shuffles the blocks of each."""
    shapes = {name: value.shape for name, value in arguments.items() if isinstance(value, np.ndarray)}
    scalars = {name: int(value) for name, value in arguments.items() if not isinstance(value, np.ndarray)}
    held = dict(arguments)
    for name, scratch in program.scratch.items():
        shape = tuple(evaluate(size, dims, shapes, scalars) for size in scratch.shape)
        dtype = scratch.value.type.dtype
        stored = np.dtype(np.uint16) if dtype is bfloat16 else dtype.numpy
        held[name] = np.zeros(shape, stored) if scratch.zeroed else np.full(shape, 0xFF, stored)
    for name, number in program.computed.items():
        held[name] = to_numpy_scalar(evaluate(number.size, dims, shapes, scalars), number.value.type.dtype)
    for launch in program.launches:
        verify(launch.function)
        grid = dims if launch.grid is None else tuple(evaluate(size, dims, shapes, scalars) for size in launch.grid)
        blocks = list(np.ndindex(*grid))
        for number in range(len(blocks)) if rng is None else rng.permutation(len(blocks)):
            given = {name: held[name] for name in launch.function.params}
            interpret(launch.function, given, Machine(block=blocks[number], grid=grid))
