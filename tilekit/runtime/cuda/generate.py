"""From a traced function to CUDA C++, and to a kernel that is ready to launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilekit.codegen.cuda import emit_cuda
from tilekit.codegen.target import ArrayClass, Target
from tilekit.config import config
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.passes import Observer, run_pipeline
from tilekit.passes.uniformity import runs_lanes
from tilekit.runtime.array_view import AlignmentClass
from tilekit.runtime.cpu import Generated
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.cuda.build import build
from tilekit.runtime.cuda.devices import device as device_of
from tilekit.runtime.cuda.kernel import CudaKernel
from tilekit.runtime.dump import Dump

WARP = 32


def array_class(found: AlignmentClass, ndim: int) -> ArrayClass:
    """What a kernel may assume of an array, from what was found of it."""
    unit, zeros, aligned, wide = found
    return ArrayClass(unit, aligned, tuple(axis in zeros for axis in range(ndim)), wide)


def dense_class(ndim: int) -> ArrayClass:
    """The class of a row-major array that begins at a multiple of 16 bytes, with rows that do as well."""
    return ArrayClass(ndim - 1, True, (False,) * ndim, False)


def cuda_target(form: LaunchForm, arch: str, arrays: Mapping[str, ArrayClass]) -> Target:
    """A GPU of an architecture such as ``"90a"`` under the options in force.

    Bounds are checked with the option ``checked`` only: a GPU has no way to stop at the first fault cheaply.
    """
    lanes = form.block_dim or 1
    threads = -(-lanes // WARP) * WARP
    options = (config.checked, config.checked, config.line_directives)
    return Target("cuda", arch, lanes, form.tiled, form.ndim or 1, *options, threads=threads, arrays=arrays)


def generate(function: Function, target: Target, observe: Observer = lambda name, fn: None) -> Generated:
    """Run the passes and emit CUDA C++; ``observe`` sees the function after each pass."""
    dump = Dump(function.name)

    def seen(name: str, fn: Function) -> None:
        dump.observe(name, fn)
        observe(name, fn)

    lowered, storage = run_pipeline(function, target, seen)
    source, sites, shared_bytes = emit_cuda(lowered, storage, target)
    dump.emitted("cuda", "cu", source)
    lanes = target.block_dim if runs_lanes(function, target.tiled) else None
    return Generated(lowered, source, shared_bytes, tuple(sites), False, lanes)


def compile_cuda(
    function: Function, form: LaunchForm, arrays: Mapping[str, ArrayClass], where: str, options: Mapping[str, Any]
) -> CudaKernel:
    """Generate, compile and load a kernel.

    Args:
        function: As traced.
        form: Of the launch.
        arrays: The class of each array parameter.
        where: The device, ``"cuda:N"``.
        options: The kernel's own.

    Raises:
        DeviceError: there is no such device, or the driver is too old, or the kernel too large for it.
        CompileError: NVRTC refused the code.
        MissingPackageError: NVRTC is not installed.
    """
    device = device_of(int(where.partition(":")[2]))
    nvrtc.check_driver(device.driver.number("cuDriverGetVersion"))
    target = cuda_target(form, nvrtc.arch_of(device.capability), arrays)
    generated = generate(function, target)
    cubin, _ = build(generated.source, function.name, target, options)
    return CudaKernel(generated, cubin, target, device)
