"""Waiting for every GPU, and what kernels have reported until then."""

from __future__ import annotations

import sys

__all__ = ["synchronize"]


def synchronize() -> None:
    """Wait until all GPUs have done what they were told; print what kernels printed, and raise what their checks found.

    Includes what Warp and PyTorch launched on those GPUs. On the CPU a launch is over when it returns.

    Raises:
        TilekitError: a check failed in a kernel that was launched before.
        DeviceError: a kernel made an illegal access, or the GPU reports another failure.

    Example:
        >>> import tilekit as tk
        >>> tk.synchronize()
    """
    if "tilekit.runtime.cuda.devices" in sys.modules:  # else nothing was launched
        from tilekit.runtime.cuda.devices import opened

        devices = opened()
        for device in devices:
            device.synchronize()
        for device in devices:
            for mailbox in list(device.reporting):
                mailbox.deliver(finished=True)
    if "warp" in sys.modules:
        from tilekit.runtime.warp_names import import_warp

        import_warp().synchronize()
