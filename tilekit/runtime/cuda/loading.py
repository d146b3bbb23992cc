"""From a traced function to a kernel that is ready to launch on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilekit.codegen.target import ArrayClass
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.cuda.build import build
from tilekit.runtime.cuda.devices import device as device_of
from tilekit.runtime.cuda.generate import cuda_target, generate
from tilekit.runtime.cuda.kernel import CudaKernel


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
    generated = generate(function, target, options=options)
    cubin, _ = build(generated.source, function.name, target, options, generated.units)
    return CudaKernel(generated, cubin, target, device)
