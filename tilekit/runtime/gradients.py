"""Launches that a gradient would have to flow through. Until they have one, asking for it is an error, never zeros."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from tilekit.errors import FallbackWarning, KernelNotImplementedError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.notices import calling_place, warn_at
from tilekit.runtime.arguments import with_defaults
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import library_of


class _Untaped:
    """Stands for Warp where it has no tape that is known of."""

    tape = None


@cache
def warps_state() -> Any:
    """Where Warp, which the program has loaded and initialised, keeps the active tape: an object with ``tape``.

    That place is not public. A Warp that has none there is told of once.
    """
    found = getattr(sys.modules.get("warp._src.context"), "runtime", None)
    if hasattr(found, "tape"):
        return found
    version = getattr(sys.modules.get("warp"), "__version__", "of an unknown version")
    text = (
        f"Warp {version} keeps its active tape in a place that is not known; no tape records launches of tilekit's "
        "kernels, so gradients through them are zero; with Warp 1.19 they are an error"
    )
    warn_at(FallbackWarning, text, None)
    return _Untaped


def active_tape() -> Any:
    """Warp's tape that records now, or None."""
    if "warp" not in sys.modules:
        return None
    context = sys.modules.get("warp._src.context")
    if context is not None and getattr(context, "runtime", context) is None:  # not initialised yet
        return None
    return warps_state().tape


def grad_mode() -> bool:
    """Whether PyTorch, which the program has loaded, records now."""
    return bool(sys.modules["torch"].is_grad_enabled())


def looked_at() -> bool:
    """Whether a launch with a tensor that requires grad is refused or recorded now."""
    return grad_mode() or active_tape() is not None


def check_tensors(kernel: Kernel, names: Sequence[str], views: Sequence[ArrayView], taped: bool) -> None:
    """Refuse PyTorch's tensors whose gradient would be lost: PyTorch records no launch of a kernel.

    Args:
        names: Of the parameters that the arrays are for.
        taped: Whether an active tape records the launch.

    Raises:
        KernelNotImplementedError: a tensor requires grad, grad mode is on, and no tape records.
    """
    for name, view in zip(names, views, strict=True):
        tensor: Any = view.owner
        if library_of.get(type(tensor)) == "torch" and tensor.requires_grad and grad_mode():
            if taped and active_tape() is not None:
                return
            raise KernelNotImplementedError(
                f"argument {name!r} of kernel {kernel.key!r}: the tensor requires grad, but gradients of kernels come "
                f"with a later release, so none would flow through this launch; pass {name}.detach(), or launch under "
                "torch.no_grad()"
            )


def _may_want_one(value: Any) -> bool:
    """Whether backward may ask for an argument's gradient; of Warp's arrays it says so itself, as late as then."""
    library = library_of.get(type(value))
    return library == "warp" or (library == "torch" and value.requires_grad)


def record(kernel: Kernel, arguments: Sequence[Any]) -> None:
    """Let the active tape, where there is one, refuse to go backward through a launch that has just run."""
    tape = active_tape()
    if tape is None:
        return
    given = zip(kernel.parameters, with_defaults(kernel, arguments), strict=True)
    kept = {name: value for name, value in given if _may_want_one(value)}
    if not kept:
        return
    code, place = kernel.function.__code__, calling_place()

    def backward() -> None:
        wanted = [name for name, value in kept.items() if value.requires_grad]
        if wanted:
            raise KernelNotImplementedError(
                f"the tape has no gradient of kernel {kernel.key!r} ({code.co_filename}:{code.co_firstlineno}), "
                f"launched here with arrays that require grad ({', '.join(wanted)}); gradients of kernels come with a "
                "later release; if none is to flow through this launch, give it record_tape=False",
                place,
            )

    tape.record_func(backward, [])
