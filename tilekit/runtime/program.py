"""What a kernel or a program becomes, without launching it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tilekit.builtins.grid import dimensions
from tilekit.codegen.architectures import arch_name
from tilekit.codegen.target import ArrayClass
from tilekit.errors import CompileError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.float_state import in_ieee_state
from tilekit.ir.program import Program
from tilekit.ir.types import ArrayType, ScalarType
from tilekit.ir.verify import verify_program
from tilekit.runtime.compiled import Compiled, How
from tilekit.runtime.compiled_part import CompiledPart
from tilekit.runtime.cpu import cpu_target, generate
from tilekit.runtime.cuda import generate as cuda
from tilekit.runtime.grids import form_of
from tilekit.runtime.programs import forms_of
from tilekit.runtime.scratch import scratch_classes
from tilekit.runtime.spec import assumption, dense_class

Types = Mapping[str, ArrayType | ScalarType | None]


@in_ieee_state
def compile_kernel(
    kernel: Kernel,
    types: Types | None = None,
    ndim: int | None = None,
    block_dim: int = 256,
    tiled: bool = True,
    device: str = "cpu",
    arch: object = "",
    arrays: Mapping[str, ArrayClass] | None = None,
    grid: tuple[int, ...] | None = None,
) -> Compiled:
    """Trace a kernel, run the passes and emit its source.

    Args:
        kernel: The kernel.
        types: The type of each parameter that its annotation leaves open, or None for an array that is not given;
            types that the annotations state may be left out.
        ndim: Dimensions of the grid; by default as many as ``tk.tid()`` is unpacked into.
        block_dim: Lanes of a block.
        tiled: The form of ``launch_tiled``, else that of ``launch``.
        device: ``"cpu"`` or ``"cuda"``.
        arch: The architecture of the GPU, such as 90 or ``"90a"``.
        arrays: The class of each array parameter of which something is known; others are taken to be dense.
        grid: Of the launch, where it is known.

    Returns:
        What the kernel became.

    Raises:
        TilekitError: the kernel is wrong; the error carries the place in its source.
        KernelTypeError: a type is missing, or names no parameter.
        KernelValueError: its tiles do not fit the architecture.
        CompileError: ``device`` is not one that compiles kernels.

    Example:
        >>> import tilekit as tk
        >>> @tk.kernel
        ... def double(a: tk.array1d[float]):
        ...     i = tk.tid()
        ...     tk.tile_store(a, 2.0 * tk.tile_load(a, shape=4, offset=4 * i), offset=4 * i)
        >>> compiled = compile_kernel(double)
        >>> list(compiled.stages)[0], compiled.arena_bytes
        ('trace', 64)
    """
    if device not in ("cpu", "cuda"):
        raise CompileError(f"kernels are compiled for the devices 'cpu' and 'cuda', not for {device!r}")
    kernel.capture_key()  # refuses what a launch does
    form = LaunchForm(tiled, ndim, block_dim) if grid is None else form_of(tiled, grid, block_dim)
    form, function = _trace(kernel, types, form)
    return compile_program(Program.of(function), form, device, arch, arrays, grid, kernel.options, kernel)


@in_ieee_state
def compile_program(
    program: Program,
    form: LaunchForm,
    device: str = "cpu",
    arch: object = "",
    arrays: Mapping[str, ArrayClass] | None = None,
    grid: tuple[int, ...] | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
    kernel: Kernel | None = None,
) -> Compiled:
    """Run the passes over each launch of a program and emit its source.

    Args:
        program: The program, such as what ``differentiate`` makes.
        form: Of the user's launch.
        device, arch, arrays, grid: As for :func:`compile_kernel`.
        options: The kernel's own, for every launch.
        kernel: What the program is of.

    Raises:
        TilekitError: as :func:`compile_kernel`.
        VerificationError: the program is malformed.

    Example:
        >>> import tilekit as tk
        >>> @tk.kernel
        ... def double(a: tk.array1d[float]):
        ...     i = tk.tid()
        ...     tk.tile_store(a, 2.0 * tk.tile_load(a, shape=4, offset=4 * i), offset=4 * i)
        >>> form = LaunchForm(tiled=True, ndim=1, block_dim=32)
        >>> compiled = compile_program(Program.of(double.trace(double.default_types(), form)), form)
        >>> compiled, [str(launch.blocks) for launch in compiled.launches]
        (<tilekit program double, tk.launch_tiled, compiled for the CPU>, ['dim[0]'])
    """
    if device not in ("cpu", "cuda"):
        raise CompileError(f"kernels are compiled for the devices 'cpu' and 'cuda', not for {device!r}")
    verify_program(program)
    stages: dict[str, dict[str, str]] = {}

    def observe(name: str, fn: Function) -> None:
        stages.setdefault(name, {})[fn.name] = str(fn)

    classes, assumptions = ({}, ()) if device == "cpu" else _classes(program, arrays or {})
    parts = []
    for launch, own in zip(program.launches, forms_of(program, form), strict=True):
        if device == "cpu":
            target = cpu_target(own)
            generated = generate(launch.function, target, observe)
        else:
            taken = {name: classes[name] for name in launch.function.params if name in classes}
            target = cuda.cuda_target(own, arch_name(arch), taken)
            generated = cuda.generate(launch.function, target, observe, options)
            target = replace(target, threads=generated.threads)
        parts.append(CompiledPart(launch, own, grid, target, generated, options))
    after = iter(parts)
    lowered = program.map(lambda function: next(after).function)
    texts = {name: "\n".join(found.values()) for name, found in stages.items()}
    how = How(program, arch, arrays or {}, options)
    return Compiled(kernel, device, form, grid, lowered, tuple(parts), texts, assumptions, how)


def _trace(kernel: Kernel, types: Types | None, form: LaunchForm) -> tuple[LaunchForm, Function]:
    """The function as traced, and the form with the grid's dimensions known."""
    found = kernel.default_types(types)
    function = kernel.trace(found, form)
    if form.ndim is None:  # again, so that every use of tid() is held to the same number
        form = replace(form, ndim=dimensions(function))
        function = kernel.trace(found, form)
    return form, function


def _classes(program: Program, known: Mapping[str, ArrayClass]) -> tuple[dict[str, ArrayClass], tuple[str, ...]]:
    """The class of each array of a program, and what is assumed of those that are given, in words."""
    classes, texts = scratch_classes(program), []
    for name, value in program.params.items():
        if isinstance(value.type, ArrayType):
            classes[name] = known.get(name) or dense_class(value.type.ndim)
            texts.append(assumption(name, value.type, classes[name], name in known))
    return classes, tuple(texts)
