"""Which stream a launch runs on: the one asked for, else the current one of the library that the arrays are from.

PyTorch's is taken before CuPy's, and that before Warp's. Where arrays are from several libraries whose current streams
differ, events put the launch after what the others were told before, and before what they are told next. No library is
imported here: one that the program has not imported has given no array.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.runtime.array_view import ArrayView, StreamView
from tilekit.runtime.arrays import library_of
from tilekit.runtime.cuda.devices import Device

PRECEDENCE = ("torch", "cupy", "warp")
DEFAULT = 0
_DISABLE_TIMING = 2


def handle_of(stream: Any) -> int:
    """The driver's handle of a stream of any library, or of a number that is one.

    Raises:
        KernelTypeError: it is no stream.
    """
    if isinstance(stream, int) and not isinstance(stream, bool) and 0 <= stream < 1 << 64:
        return stream
    for name in ("cuda_stream", "ptr"):  # Warp's and PyTorch's; CuPy's
        found = getattr(stream, name, False)
        if found is None or (isinstance(found, int) and found is not False):
            return found or DEFAULT
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None and not isinstance(stream, type):
        return int(protocol()[1])
    raise KernelTypeError(
        f"stream must be a stream of Warp, PyTorch, CuPy or cuda-core, or its handle, got {type(stream).__name__}"
    )


def choose(views: Sequence[ArrayView], device: Device) -> tuple[int, Sequence[int]]:
    """The stream of a launch that names none, and the other streams that its arrays are used on."""
    kind = type(views[0].owner) if views else None
    for view in views:
        if type(view.owner) is not kind:
            return _choose_among(views, device)
    library = library_of.get(kind)  # type: ignore[arg-type]
    return _choose_among(views, device) if library is None else (CURRENT[library](device.ordinal), ())


def _choose_among(views: Sequence[ArrayView], device: Device) -> tuple[int, Sequence[int]]:
    libraries = {library_of.get(type(view.owner)) for view in views}
    found = [CURRENT[name](device.ordinal) for name in PRECEDENCE if name in libraries]
    chosen = found[0] if found else _of_warp(device.ordinal)
    others = {*found, *(view.stream for view in views if isinstance(view, StreamView))} - {chosen}
    return chosen, tuple(others)


def _of_torch(ordinal: int) -> int:
    torch: Any = sys.modules["torch"]
    try:
        found: int = torch._C._cuda_getCurrentRawStream(ordinal)
    except AttributeError:
        found = torch.cuda.current_stream(ordinal).cuda_stream
    return found


def current_of(libraries: Sequence[str]) -> Callable[[int], int | None]:
    """What gives the current stream of libraries on a device; None where they differ.

    For PyTorch it is what PyTorch's own generated code and Triton call; the public way makes a Stream, which takes ten
    times as long, and is taken where the other is missing.
    """
    ways = [CURRENT[library] for library in libraries]
    if "torch" in libraries:
        core = getattr(sys.modules["torch"], "_C", None)
        ways[libraries.index("torch")] = getattr(core, "_cuda_getCurrentRawStream", _of_torch)
    if len(ways) == 1:
        return ways[0]

    def current(ordinal: int) -> int | None:
        first, *others = [way(ordinal) for way in ways]
        return first if all(other == first for other in others) else None

    return current


def _of_cupy(ordinal: int) -> int:
    cupy: Any = sys.modules["cupy"]
    found: int = cupy.cuda.get_current_stream(ordinal).ptr
    return found


_warp_devices: dict[int, Any] = {}


def _of_warp(ordinal: int) -> int:
    """Warp's current stream, or the default one where Warp is not used or does not see the device."""
    device = _warp_devices.get(ordinal)
    if device is None:
        if "warp" not in sys.modules:
            return DEFAULT
        from tilekit.runtime.warp_names import import_warp

        try:
            device = import_warp().get_device(f"cuda:{ordinal}")
        except Exception:  # Warp without CUDA, or older than the driver allows
            return DEFAULT
        _warp_devices[ordinal] = device
    return device.stream.cuda_stream or DEFAULT


CURRENT: dict[str, Callable[[int], int]] = {"torch": _of_torch, "cupy": _of_cupy, "warp": _of_warp}


_REFUSED = -1


def _capture_state(device: Device, stream: int) -> int:
    """0 where nothing is captured; ``_REFUSED`` for the default stream while another one is."""
    status = ctypes.c_int()
    code = device.driver.functions["cuStreamIsCapturing"](stream, ctypes.addressof(status))
    return _REFUSED if code else status.value


def is_capturing(device: Device, stream: int) -> bool:
    """Whether what is launched on the stream is recorded for a graph, or would disturb what is."""
    return _capture_state(device, stream) != 0


def order(device: Device, first: int, then: int) -> None:
    """Let everything on one stream so far come before what follows on the other.

    Nothing is done where just one of them is being captured: what is recorded cannot wait for what is not.
    """
    state = _capture_state(device, first)
    if state == _REFUSED or state != _capture_state(device, then):
        return
    try:
        event = device.events.pop()
    except IndexError:
        event = device.driver.pointer("cuEventCreate", _DISABLE_TIMING)
    try:
        device.driver.call("cuEventRecord", event, first)
        device.driver.call("cuStreamWaitEvent", then, event, 0)
    finally:
        device.events.append(event)
