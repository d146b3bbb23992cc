"""Runs kernels and their adjoints in the interpreter, and compares gradients with central differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.passes.programs import run_program
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.interpret import Machine, interpret
from tilekit.ir.program import Program
from tilekit.ir.types import ArrayType, ScalarType, find_dtype
from tilekit.ir.verify import verify
from tilekit.passes.differentiate import differentiate

STEP = 1e-6


def traced(kernel: Kernel, arguments: Mapping[str, Any]) -> Function:
    """The IR of a kernel for these arguments."""
    types: dict[str, Any] = {}
    for name, value in arguments.items():
        dtype = find_dtype(np.asarray(value).dtype)
        types[name] = ArrayType(dtype, value.ndim) if isinstance(value, np.ndarray) else ScalarType(dtype)
    return kernel.trace(types, LaunchForm())


def run(fn: Function, arguments: Mapping[str, Any], grid: tuple[int, ...] = (1,)) -> None:
    """Run every block, in order; arrays are written in place."""
    for block in np.ndindex(*grid):
        interpret(fn, arguments, Machine(block=block, grid=grid))


def gradients(
    fn: Function,
    arguments: Mapping[str, Any],
    seeds: Mapping[str, Any],
    grid: tuple[int, ...],
    program: Program | None = None,
) -> Any:
    """The gradient of ``sum(seed * output)`` in each array."""
    program = differentiate(fn) if program is None else program
    found = {
        fresh: np.array(seeds[name]) if name in seeds else np.zeros_like(arguments[name])
        for name, fresh in program.gradients.items()
    }
    run_program(program, {**arguments, **found}, grid)
    return {name: found[fresh] for name, fresh in program.gradients.items()}


def check_gradient(
    kernel: Kernel, arguments: Mapping[str, Any], outputs: tuple[str, ...], grid: tuple[int, ...] = (1,)
) -> dict[str, Any]:
    """Compare a kernel's gradients with central differences; returns them."""
    fn = traced(kernel, arguments)
    verify(fn)
    found = compare_with_differences(fn, arguments, outputs, grid)
    assert found.keys() - set(outputs)
    return found


def compare_with_differences(
    fn: Function,
    arguments: Mapping[str, Any],
    outputs: tuple[str, ...],
    grid: tuple[int, ...] = (1,),
    program: Program | None = None,
) -> dict[str, Any]:
    """Compare the gradient of every float array that is no output, along one random direction each."""
    rng = np.random.default_rng(7)
    seeds = {name: rng.standard_normal(arguments[name].shape) for name in outputs}
    found: dict[str, Any] = gradients(fn, arguments, seeds, grid, program)
    inputs = [n for n, v in arguments.items() if isinstance(v, np.ndarray) and v.dtype.kind == "f" and n not in outputs]

    def loss(changed: Mapping[str, Any]) -> float:
        state = {**arguments, **{name: np.zeros_like(arguments[name]) for name in outputs}, **changed}
        run(fn, state, grid)
        return float(sum(np.sum(seeds[name] * state[name]) for name in outputs))

    for name in inputs:
        direction = rng.standard_normal(arguments[name].shape)
        ahead, behind = (loss({name: arguments[name] + sign * STEP * direction}) for sign in (1, -1))
        exact, numeric = float(np.sum(found[name] * direction)), (ahead - behind) / (2 * STEP)
        np.testing.assert_allclose(exact, numeric, rtol=1e-6, atol=1e-7, err_msg=name)
    return found
