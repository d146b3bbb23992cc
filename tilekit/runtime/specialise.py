"""The first launch of a specialisation: trace the kernel, and compile it or prepare it for the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilekit.config import config
from tilekit.errors import CompileError
from tilekit.frontend.guards import GuardedForms, Guards
from tilekit.frontend.kernel import Kernel
from tilekit.frontend.reads import recording
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.types import ArrayType, ScalarType
from tilekit.passes.uniformity import observes_lanes
from tilekit.runtime.arguments import ByBlockDim, types_of
from tilekit.runtime.cpu import compile_cpu, cpu_target
from tilekit.runtime.interpreter import INTERPRET, compile_eager, stands_in

Types = Mapping[str, ArrayType | ScalarType | None]


def compile_for(kernel: Kernel, key: Any, form: LaunchForm, device: str, options: Mapping[str, Any]) -> Any:
    """What a launch with this key runs, made under the options that the key stands for unless another thread just has.

    Raises:
        CompileError: there is no such device, or the compiler refused the code.
    """
    if device not in ("cpu", INTERPRET):
        raise CompileError(f"device {device!r} is not supported yet; use 'cpu' or {INTERPRET!r}")
    with kernel.lock, config.scoped(**options):
        known = kernel.cache.get(key)
        known = known.get(form.block_dim or 1) if isinstance(known, ByBlockDim) else known
        found = known.current() if isinstance(known, GuardedForms) else known
        if found is None:
            build = _interpreted if device == INTERPRET or stands_in() else _compiled
            reads = kernel.recorder()
            with recording(reads):
                found, function = build(kernel, types_of(kernel, key[0]), form)
            guards = reads.guards()
            # Where a captured value has changed meanwhile, nobody knows which one was traced.
            if kernel.capture_key() == key[-1] and guards.hold():
                kernel.guarded(guards)
                _keep(
                    kernel.cache, key, form.block_dim if observes_lanes(function, form.tiled) else None, guards, found
                )
        return found


def _keep(cache: dict[Any, Any], key: Any, block_dim: int | None, guards: Guards, form: Any) -> None:
    """Let the next launch with this key find the form, for this ``block_dim`` only where that is given."""
    if block_dim is not None:
        cache = cache.setdefault(key, ByBlockDim())
        key = block_dim
    if guards.found:
        forms = cache.setdefault(key, GuardedForms())
        forms.forms = ((guards, form), *forms.forms)
    else:
        cache[key] = form


def _compiled(kernel: Kernel, types: Types, form: LaunchForm) -> tuple[Any, Function]:
    """A kernel compiled for the CPU, and its function as traced."""
    function = kernel.trace(types, form)
    return compile_cpu(function, cpu_target(form), kernel.options.get("module_options") or {}), function


def _interpreted(kernel: Kernel, types: Types, form: LaunchForm) -> tuple[Any, Function]:
    """A kernel that runs as Python, and its function as traced."""
    found = compile_eager(kernel, types, form)
    return found, found.function
