"""The first launch of a specialisation: trace the kernel, and compile it or prepare it for the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.types import ArrayType, ScalarType
from tilekit.passes.uniformity import observes_lanes
from tilekit.runtime.arguments import ByBlockDim, Entry, types_of
from tilekit.runtime.array_view import AlignmentClass
from tilekit.runtime.cpu import compile_cpu, cpu_target
from tilekit.runtime.interpreter import compile_eager, stands_in
from tilekit.runtime.placement import INTERPRET

Types = Mapping[str, ArrayType | ScalarType | None]
Classes = Sequence[AlignmentClass]


def compile_for(
    kernel: Kernel,
    key: tuple[Any, ...],
    form: LaunchForm,
    entries: Sequence[Entry],
    device: str,
    classes: Classes | None,
) -> Any:
    """The form of a kernel that a launch with this key runs, made unless another thread just has.

    Raises:
        CompileError: the compiler refused the code.
        DeviceError: there is no such device.
    """
    on_cuda = device.startswith("cuda")
    lanes = form.block_dim or 1
    with kernel.lock:
        known = kernel.cache.get(key)
        found = known.get(lanes) if isinstance(known, ByBlockDim) else known
        if found is None:
            types = types_of(kernel, entries)
            if on_cuda:
                found, function = _on_cuda(kernel, types, form, device, classes or ())
            elif device == INTERPRET or stands_in():
                found, function = _interpreted(kernel, types, form)
            else:
                found, function = _compiled(kernel, types, form)
            if kernel.capture_key() != key[-1]:  # a captured value changed meanwhile: nobody knows which one was traced
                return found
            if on_cuda or observes_lanes(function, form.tiled):  # on a GPU, block_dim is how many threads there are
                kernel.cache.setdefault(key, ByBlockDim())[lanes] = found
            else:
                kernel.cache[key] = found
        return found


def _compiled(kernel: Kernel, types: Types, form: LaunchForm) -> tuple[Any, Function]:
    """A kernel compiled for the CPU, and its function as traced."""
    function = kernel.trace(types, form)
    return compile_cpu(function, cpu_target(form), kernel.options.get("module_options") or {}), function


def _interpreted(kernel: Kernel, types: Types, form: LaunchForm) -> tuple[Any, Function]:
    """A kernel that runs as Python, and its function as traced."""
    found = compile_eager(kernel, types, form)
    return found, found.function


def _on_cuda(kernel: Kernel, types: Types, form: LaunchForm, device: str, classes: Classes) -> tuple[Any, Function]:
    """A kernel compiled for a GPU, and its function as traced."""
    from tilekit.runtime.cuda.loading import array_class, compile_cuda

    function = kernel.trace(types, form)
    arrays = [(name, type.ndim) for name, type in types.items() if isinstance(type, ArrayType)]
    known = {name: array_class(found, ndim) for (name, ndim), found in zip(arrays, classes, strict=True)}
    return compile_cuda(function, form, known, device, kernel.options), function
