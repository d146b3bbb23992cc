"""From traced functions to kernels that are ready to launch on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tilekit.codegen.target import ArrayClass
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.cuda.build import build
from tilekit.runtime.cuda.devices import device as device_of
from tilekit.runtime.cuda.generate import cuda_target, generate
from tilekit.runtime.cuda.kernel import CudaKernel
from tilekit.runtime.parallel import in_parallel


def compile_cuda(
    functions: Sequence[Function],
    forms: Sequence[LaunchForm],
    arrays: Mapping[str, ArrayClass],
    where: str,
    options: Mapping[str, Any],
) -> list[CudaKernel]:
    """Generate, compile and load kernels, one for each function.

    Args:
        functions: As traced.
        forms: Of their launches.
        arrays: The class of each array parameter, by its name.
        where: The device, ``"cuda:N"``.
        options: The kernel's own, for all of them.

    Raises:
        DeviceError: there is no such device, or the driver is too old, or the kernel too large for it.
        CompileError: NVRTC refused the code.
        MissingPackageError: NVRTC is not installed.
    """
    device = device_of(int(where.partition(":")[2]))
    nvrtc.check_driver(device.driver.number("cuDriverGetVersion"))
    arch = nvrtc.arch_of(device.capability)
    classes = [{name: arrays[name] for name in function.params if name in arrays} for function in functions]
    targets = [cuda_target(form, arch, known) for form, known in zip(forms, classes, strict=True)]
    generated = [generate(*pair, options=options) for pair in zip(functions, targets, strict=True)]
    told = zip(generated, targets, strict=True)
    cubins = in_parallel(
        [partial(build, item.source, item.function.name, target, options, item.units) for item, target in told]
    )
    made = zip(generated, cubins, targets, strict=True)
    return [CudaKernel(item, cubin, target, device) for item, (cubin, _), target in made]
