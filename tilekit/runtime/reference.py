"""A whole launch through the IR interpreter: what a kernel means, against which compiled forms are tested."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError, TilekitError, counted
from tilekit.frontend.kernel import Kernel
from tilekit.ir.annotations import ArrayAnnotation
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.float_state import ieee_state
from tilekit.ir.interpret import Machine, interpret
from tilekit.ir.nesting import nesting, room_for
from tilekit.ir.program import Program
from tilekit.ir.types import ArrayType, DType, ScalarType, as_dtype, to_numpy_scalar
from tilekit.ir.verify import verify, verify_program
from tilekit.passes.activity import written_positions
from tilekit.passes.form_lanes import form_lanes
from tilekit.passes.mask_missing_lanes import mask_missing_lanes
from tilekit.passes.uniformity import check_lanes, runs_lanes
from tilekit.runtime.arguments import scalar_value
from tilekit.runtime.arrays import view_of
from tilekit.runtime.grids import form_of
from tilekit.runtime.interpreter import data_of
from tilekit.runtime.programs import ProgramKernel, forms_of
from tilekit.runtime.scratch import HostMemory


def run_reference(
    kernel: Kernel | Function | Program,
    dim: int | tuple[int, ...],
    arguments: Mapping[str, Any] | Sequence[Any],
    block_dim: int = 256,
    tiled: bool = True,
) -> None:
    """Run every block of a launch in NumPy, in order; arrays among the arguments are written in place.

    Args:
        kernel: A kernel, which is traced for the arguments, or a function that was, or a program of several.
        dim: The grid.
        arguments: NumPy arrays (None for an array that is not given) and numbers, by name or in order.
        block_dim: Lanes of a block.
        tiled: As ``launch_tiled``, one block a point of the grid; else as ``launch``, one lane a point.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> @tk.kernel
        ... def twice(a: tk.array1d[float]):
        ...     tk.tile_store(a, 2.0 * tk.tile_load(a, shape=2))
        >>> a = np.ones(3, np.float32)
        >>> run_reference(twice, 1, [a])
        >>> a
        array([2., 2., 1.], dtype=float32)
    """
    grid = dim if isinstance(dim, tuple) else (dim,)
    form = form_of(tiled, grid, block_dim)
    if isinstance(kernel, Program):
        given = dict(arguments) if isinstance(arguments, Mapping) else dict(zip(kernel.params, arguments, strict=True))
        interpreted(kernel, form).run(_values(kernel, given), grid, math.prod(grid))
        return
    names = kernel.parameters if isinstance(kernel, Kernel) else kernel.params
    given = dict(arguments) if isinstance(arguments, Mapping) else dict(zip(names, arguments, strict=True))
    function = kernel.trace(argument_types(kernel, given), form) if isinstance(kernel, Kernel) else kernel
    data = {name: _datum(given[name], value.type) for name, value in function.params.items()}
    run_function(function, data, grid, block_dim, tiled)


def run_function(
    function: Function, data: Mapping[str, Any], grid: tuple[int, ...], block_dim: int, tiled: bool
) -> None:
    """Run every block of a launch of a traced function; ``data`` are NumPy arrays and scalars by name."""
    lanes = block_dim if runs_lanes(function, tiled) else None
    with room_for(nesting(function.body)):
        lowered = _lowered(function, lanes, form_of(tiled, grid, block_dim))
        run_blocks(lowered, data, grid, block_dim, tiled, lanes)


class FunctionKernel:
    """A traced function that is ready to run in NumPy, as a compiled kernel is."""

    def __init__(self, function: Function, form: LaunchForm) -> None:
        self.name = function.name
        self.types = {name: value.type for name, value in function.params.items()}
        self.written = written_positions(function)
        """Which of its arrays it may write."""
        self.form = form
        self._lanes = (form.block_dim or 1) if runs_lanes(function, form.tiled) else None
        with room_for(nesting(function.body)):
            self._lowered = _lowered(function, self._lanes, form)

    def run(self, values: Sequence[Any], grid: tuple[int, ...], points: int) -> None:
        """Run over ``grid``; ``values`` are pointers, shapes, strides and numbers in order.

        Raises:
            TilekitError: a check failed; the message names the function.
        """
        data = data_of(self.types, values)
        form = self.form
        with room_for(nesting(self._lowered.body)), ieee_state():
            try:
                run_blocks(self._lowered, data, grid, form.block_dim or 1, form.tiled, self._lanes)
            except TilekitError as error:
                error.message += f", in kernel {self.name!r}"
                raise


def interpreted(program: Program, form: LaunchForm) -> FunctionKernel | ProgramKernel:
    """A program that is ready to run in NumPy.

    Scratch memory that is not zeroed holds NaN, or -1, so that a read before any write shows.

    Raises:
        VerificationError: the program is malformed.
    """
    verify_program(program)
    pairs = zip(program.launches, forms_of(program, form), strict=True)
    kernels = [FunctionKernel(launch.function, own) for launch, own in pairs]
    return kernels[0] if program.is_kernel else ProgramKernel(program, kernels, HostMemory(poisoned=True))


def _values(program: Program, given: Mapping[str, Any]) -> list[Any]:
    """What a launch packs of NumPy arrays and numbers."""
    values: list[Any] = []
    for name, value in program.params.items():
        if isinstance(value.type, ArrayType):
            view = view_of(given[name])
            values += (view.pointer, *view.shape, *view.strides)
        else:
            assert isinstance(value.type, ScalarType)
            values.append(scalar_value(given[name], value.type.dtype))
    return values


def _lowered(function: Function, lanes: int | None, form: LaunchForm) -> Function:
    if lanes is not None:
        check_lanes(function, form.whole)
        function = mask_missing_lanes(function, lanes) if form.ragged else function
    lowered = form_lanes(function, lanes, form.ragged, form.whole)
    verify(lowered)
    return lowered


def run_blocks(
    lowered: Function,
    data: Mapping[str, Any],
    grid: tuple[int, ...],
    block_dim: int,
    tiled: bool,
    lanes: int | None,
) -> None:
    """Run every block of a function without lanes of its own, as ``form_lanes`` leaves it."""
    if tiled or lanes is None:
        for block in np.ndindex(*grid):
            interpret(lowered, data, Machine(block, grid, block_dim, points=not tiled))
        return
    for start in range(0, math.prod(grid), lanes):
        present = min(math.prod(grid) - start, lanes)
        interpret(lowered, data, Machine((start // lanes,), grid, block_dim, points=True, present=present))


def argument_types(kernel: Kernel, given: Mapping[str, Any]) -> dict[str, ArrayType | ScalarType | None]:
    """The parameter types for NumPy arrays and numbers."""
    types: dict[str, ArrayType | ScalarType | None] = {}
    for name, annotation in kernel.parameters.items():
        value = given[name]
        if isinstance(value, np.ndarray):
            dtype = as_dtype(value.dtype)
            if isinstance(annotation, ArrayAnnotation) and not annotation.accepts(dtype, value.ndim):
                raise KernelTypeError(
                    f"{name!r} expects {annotation}, got {dtype.name} with {counted(value.ndim, 'dimension')}"
                )
            types[name] = ArrayType(dtype, value.ndim)
        elif value is None:
            types[name] = None
        else:
            types[name] = ScalarType(annotation if isinstance(annotation, DType) else as_dtype(type(value)))
    return types


def _datum(value: Any, type: Any) -> Any:
    return to_numpy_scalar(value, type.dtype) if isinstance(type, ScalarType) else value
