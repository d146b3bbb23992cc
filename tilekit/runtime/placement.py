"""Where a launch runs: where it is told to, else where its arrays are."""

from __future__ import annotations

import re
from typing import Any

from tilekit.config import config
from tilekit.errors import KernelTypeError, KernelValueError, shown

INTERPRET = "interpret"
_NAMES = re.compile(rf"cpu|{INTERPRET}|cuda(:\d+)?")
_HOST = ("cpu", INTERPRET)


def place(given: Any, found: str | None) -> str:
    """The device of a launch.

    Args:
        given: What the launch said, a device of any spelling, or None.
        found: Where its arrays are: ``"cpu"`` or ``"cuda:N"``, or None where it has none.

    Returns:
        ``"cpu"``, ``"interpret"`` or ``"cuda:N"``.

    Raises:
        KernelTypeError, KernelValueError: no device, or the arrays are elsewhere.
        DeviceError: ``"cuda"`` is asked for and there is no GPU.

    Example:
        >>> place(None, "cuda:1"), place("interpret", "cpu"), place("cuda", "cuda:1")
        ('cuda:1', 'interpret', 'cuda:1')
    """
    if given is None:
        given = config.device
        if given is None:
            return found or "cpu"
        if found is not None and given != INTERPRET:
            return found
    where = given if given == found and type(given) is str else name_of(given)  # the common case, for speed
    if where in (found, INTERPRET):
        return where
    if where == "cuda":
        if found is None:
            return _current()
        if found != "cpu":
            return found
    if found is not None:
        raise KernelValueError(
            f"the launch is on {where!r}, but the kernel's arrays are on {found!r}; {_advice(where)}"
        )
    return where


def name_of(given: Any) -> str:
    """The name of a device: ``"cpu"``, ``"interpret"``, ``"cuda"`` for the current GPU, or ``"cuda:N"``.

    Takes names, the number of a GPU, and the devices of Warp, PyTorch, CuPy and cuda-core.

    Raises:
        KernelTypeError, KernelValueError: no device that kernels run on.

    Example:
        >>> name_of("cuda:1"), name_of(0)
        ('cuda:1', 'cuda:0')
    """
    if isinstance(given, bool):
        raise KernelTypeError(f"device must be a device or its name, got {given!r}")
    if isinstance(given, int):
        text = f"cuda:{shown(given)}"
    elif isinstance(given, str):
        text = given
    else:
        number = getattr(given, "id", getattr(given, "device_id", None))  # CuPy's and cuda-core's
        text = f"cuda:{number}" if type(number) is int and not hasattr(given, "alias") else str(given)
    if text.count(".") == 1 and text.startswith("cuda:"):  # a further context of Warp's on a device, as cuda:0.1
        text = text.partition(".")[0]
    if not _NAMES.fullmatch(text):
        kind = KernelValueError if isinstance(given, str | int) else KernelTypeError
        raise kind(
            f"device must be 'cpu', 'cuda', 'cuda:N' or {INTERPRET!r}, or a device of a library, got {shown(given)}"
        )
    return text


def _current() -> str:
    from tilekit.runtime.cuda.devices import current_ordinal

    return f"cuda:{current_ordinal()}"


def _advice(where: str) -> str:
    if where in _HOST:
        return "leave out device=, or pass arrays in host memory"
    return f"leave out device=, or make the arrays there, as in tk.array(x, device={where!r})"
