"""What a launch runs, made when first needed: the kernel is traced, and compiled or prepared for the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tilekit.codegen.target import ArrayClass
from tilekit.config import config
from tilekit.frontend.guards import GuardedForms, Guards
from tilekit.frontend.kernel import Kernel
from tilekit.frontend.reads import recording
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.program import Program
from tilekit.ir.types import ArrayType, ScalarType
from tilekit.ir.verify import verify_program
from tilekit.passes.heavy_tiles import heavy_tiles
from tilekit.passes.uniformity import observes_lanes, runs_lanes
from tilekit.runtime.arguments import ByBlockDim, types_of
from tilekit.runtime.array_view import AlignmentClass, array_class
from tilekit.runtime.cpu import compile_cpu
from tilekit.runtime.interpreter import compile_eager, stands_in
from tilekit.runtime.placement import INTERPRET
from tilekit.runtime.programs import ProgramKernel, forms_of
from tilekit.runtime.reference import interpreted
from tilekit.runtime.scratch import HostMemory, scratch_classes

Types = Mapping[str, ArrayType | ScalarType | None]
Classes = Sequence[AlignmentClass]
Make = Callable[[Kernel, Types, LaunchForm, str, Classes], tuple[Any, Function]]
"""What runs a kernel whose parameters are of these types on a device, and its function as traced."""


def compile_for(
    kernel: Kernel, key: Any, form: LaunchForm, options: Mapping[str, Any], make: Make | None = None
) -> Any:
    """What a launch with this key runs, made under the options that the key stands for unless another thread just has.

    Args:
        make: What makes it, where that is not the kernel itself.

    Raises:
        CompileError: the compiler refused the code.
        DeviceError: there is no such device.
    """
    entries, _, _, device, _, classes, captures = key[:7]
    on_cuda = device.startswith("cuda")
    make = make or _make
    with kernel.lock, config.scoped(**options):
        known = kernel.cache.get(key)
        known = known.get(known.key(form)) if isinstance(known, ByBlockDim) else known
        found = known.current() if isinstance(known, GuardedForms) else known
        if found is None:
            types, reads = types_of(kernel, entries), kernel.recorder()
            with recording(reads):
                found, function = make(kernel, types, form, device, classes)
            guards = reads.guards()
            # Where a captured value has changed meanwhile, nobody knows which one was traced.
            if kernel.capture_key() == captures and guards.hold():
                kernel.guarded(guards)
                kept = kernel.cache
                kept.may_save |= form.tiled and next(heavy_tiles(function), None) is not None
                if on_cuda or observes_lanes(function, form.tiled):  # on a GPU it is the number of threads
                    kept = kept.setdefault(key, ByBlockDim())
                    kept.in_blocks |= not form.tiled and runs_lanes(function, form.tiled)
                    key = kept.key(form)
                _keep(kept, key, guards, found)
        return found


def _keep(cache: dict[Any, Any], key: Any, guards: Guards, form: Any) -> None:
    """Let the next launch with this key find the form."""
    if guards.found:
        forms = cache.setdefault(key, GuardedForms())
        forms.forms = ((guards, form), *forms.forms)
    else:
        cache[key] = form


def _make(kernel: Kernel, types: Types, form: LaunchForm, device: str, classes: Classes) -> tuple[Any, Function]:
    """What runs a kernel on a device, and its function as traced."""
    if device.startswith("cuda"):
        return _on_cuda(kernel, types, form, device, classes)
    if device == INTERPRET or stands_in():
        return _interpreted(kernel, types, form)
    return _compiled(kernel, types, form)


def _compiled(kernel: Kernel, types: Types, form: LaunchForm) -> tuple[Any, Function]:
    """A kernel compiled for the CPU, and its function as traced."""
    function = kernel.trace(types, form)
    return compile_cpu([function], [form], kernel.options.get("module_options") or {})[0], function


def _interpreted(kernel: Kernel, types: Types, form: LaunchForm) -> tuple[Any, Function]:
    """A kernel that runs as Python, and its function as traced."""
    found = compile_eager(kernel, types, form)
    return found, found.function


def _on_cuda(kernel: Kernel, types: Types, form: LaunchForm, device: str, classes: Classes) -> tuple[Any, Function]:
    """A kernel compiled for a GPU, and its function as traced."""
    from tilekit.runtime.cuda.loading import compile_cuda

    function = kernel.trace(types, form)
    return compile_cuda([function], [form], _named(types, classes), device, kernel.options)[0], function


def _named(types: Mapping[str, Any], classes: Classes) -> dict[str, ArrayClass]:
    """The class of each array by its parameter's name."""
    arrays = [(name, type.ndim) for name, type in types.items() if isinstance(type, ArrayType)]
    return {name: array_class(found, ndim) for (name, ndim), found in zip(arrays, classes, strict=True)}


def program_for(
    program: Program,
    form: LaunchForm,
    device: str,
    classes: Classes = (),
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """What runs a program, compiled under the options in force. Nothing is kept: that is left to the caller.

    Args:
        program: The program, such as the adjoint of a kernel.
        form: Of the user's launch, whose grid its sizes depend on.
        device: ``"cpu"``, ``"cuda:N"`` or ``"interpret"``.
        classes: On a GPU the class of each array among the program's parameters, in order.
        options: The kernel's own, for every launch.

    Returns:
        What has ``run(values, grid, points)``, on a GPU ``run(values, grid, points, views, stream)``; ``written``,
        which of the arrays it may write; and ``again(like)``, for launches that are alike, except in the interpreter.
        For a program that is one launch over the user's grid it is that launch's kernel.

    Raises:
        VerificationError: the program is malformed.
        CompileError: the compiler refused the code.
        DeviceError: there is no such device.
    """
    if device == INTERPRET or (device == "cpu" and stands_in()):
        return interpreted(program, form)
    verify_program(program)
    forms = forms_of(program, form)
    functions = [launch.function for launch in program.launches]
    if device == "cpu":
        kernels: Sequence[Any] = compile_cpu(functions, forms, options.get("module_options") or {})
        return kernels[0] if program.is_kernel else ProgramKernel(program, kernels, HostMemory())
    from tilekit.runtime.cuda.loading import compile_cuda
    from tilekit.runtime.cuda.scratch import DeviceMemory

    types = {name: value.type for name, value in program.params.items()}
    known = {**_named(types, classes), **scratch_classes(program)}
    kernels = compile_cuda(functions, forms, known, device, options)
    return kernels[0] if program.is_kernel else ProgramKernel(program, kernels, DeviceMemory(kernels[0].device))
