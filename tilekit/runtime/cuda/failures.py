"""What to say when a kernel was refused by the driver, or when one that ran before has broken its context."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilekit.errors import DeviceError, Location
from tilekit.ir.core import Function, walk
from tilekit.runtime.cuda.driver import is_lost

if TYPE_CHECKING:
    from tilekit.runtime.cuda.devices import Device
    from tilekit.runtime.cuda.kernel import CudaKernel

LOST = "CUDA allows nothing more on this device in this process: save what is on the host, and start again"


def location_of(function: Function) -> Location | None:
    """The first line of a kernel that does something."""
    return next((op.location for op in walk(function.body) if op.location is not None), None)


def of_launch(kernel: CudaKernel, code: int) -> DeviceError:
    """The exception for a launch that gave ``code``."""
    if is_lost(code):
        return of_device(kernel.device, code)
    what = f"kernel {kernel.name!r} cannot be launched on {kernel.device.name}"
    return DeviceError(kernel.device.driver.failure(code, what).message, location_of(kernel.generated.function))


def of_kernel(kernel: CudaKernel, code: int) -> DeviceError:
    """The exception for an error of a kernel that was waited for, so that it is known to be its own."""
    if not is_lost(code):
        return of_launch(kernel, code)
    found = kernel.device.driver.describe(code)
    text = f"kernel {kernel.name!r} failed on {kernel.device.name}: {found}. {LOST}"
    return DeviceError(text, location_of(kernel.generated.function))


def of_device(device: Device, code: int) -> DeviceError:
    """The exception for an error that some earlier launch has caused, with the kernels that it may have been."""
    found = device.driver.describe(code)
    if not is_lost(code):
        return DeviceError(f"{device.name}: {found}")
    kernels = list(dict.fromkeys(reversed(device.recent)))
    if len(kernels) == 1:
        return of_kernel(kernels[0], code)
    text = f"a kernel failed on {device.name}: {found}"
    if kernels:
        text += f". tilekit launched last, the latest first: {', '.join(_named(kernels))}"
        text += "; with tk.config.checked = True each launch is waited for, so that the message names the one"
    return DeviceError(f"{text}. {LOST}")


def _named(kernels: Iterable[CudaKernel]) -> list[str]:
    found = ((kernel.name, location_of(kernel.generated.function)) for kernel in kernels)
    return [f"{name!r} ({place})" if place else repr(name) for name, place in found]
