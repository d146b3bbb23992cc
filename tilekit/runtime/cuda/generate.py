"""From a traced function to CUDA C++."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilekit.codegen.architectures import shared_limit
from tilekit.codegen.cuda import emit_cuda, points_together
from tilekit.codegen.shared_memory import check_shared_memory
from tilekit.codegen.target import ArrayClass, Target
from tilekit.config import config
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.nesting import nesting, room_for
from tilekit.passes import Observer, run_pipeline
from tilekit.passes.choose_block import choose_block
from tilekit.passes.uniformity import runs_lanes
from tilekit.runtime.cpu import Generated
from tilekit.runtime.dump import Dump
from tilekit.runtime.mathdx import providers


def cuda_target(form: LaunchForm, arch: str, arrays: Mapping[str, ArrayClass]) -> Target:
    """A GPU of an architecture such as ``"90a"`` under the options in force.

    Bounds are checked with the option ``checked`` only: a GPU has no way to stop at the first fault cheaply.
    """
    options = (config.checked, config.checked, config.line_directives)
    fixed = ("cuda", arch, form.block_dim or 1, form.tiled, form.ndim or 1)
    missing = providers.why_missing()
    return Target(*fixed, *options, arrays=arrays, no_mathdx=missing, ragged=form.ragged, whole=form.whole)


OF_PRODUCTS = ("gemm", "require_gemm", "enable_mathdx_gemm")
"""What a kernel's or module's own options may say of its products."""


def generate(
    function: Function,
    target: Target,
    observe: Observer = lambda name, fn: None,
    options: Mapping[str, Any] | None = None,
) -> Generated:
    """Run the passes and emit CUDA C++, under a kernel's own options; ``observe`` sees the function after each pass.

    Raises:
        CompileError: the options demand code that cannot serve a product.
        KernelValueError: its tiles need more shared memory than the architecture has.
    """
    own = (options or {}).get("module_options") or {}
    chosen = {name: own[name] for name in OF_PRODUCTS if own.get(name) is not None}
    with config.scoped(**chosen), room_for(nesting(function.body)):
        return _generate(function, target, observe)


def _generate(function: Function, target: Target, observe: Observer) -> Generated:
    dump = Dump(function.name)

    def seen(name: str, fn: Function) -> None:
        dump.observe(name, fn)
        observe(name, fn)

    target = choose_block(function, target)
    lowered, storage = run_pipeline(function, target, seen)
    source, sites = emit_cuda(lowered, storage, target)
    dump.emitted("cuda", "cu", source)
    check_shared_memory(lowered, storage, storage.size, shared_limit(target.arch), f"sm_{target.arch}")
    lanes = target.block_dim if runs_lanes(function, target.tiled) else None
    together = 1 if lanes else points_together(lowered, target, sites)
    how = lanes, storage, target.threads, together
    return Generated(lowered, source, storage.size, tuple(sites), False, *how)
