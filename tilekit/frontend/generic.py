"""``overload``: Warp's way to say beforehand for which types a generic kernel will be launched."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.operands import describe

__all__ = ["overload"]


def overload(kernel: Kernel | Callable[..., Any], arg_types: Mapping[str, Any] | Sequence[Any] | None = None) -> Kernel:
    """Name types that a generic kernel will be launched with; accepted from Warp without need.

    A kernel is compiled for the types of a launch when they first come, so that this returns the kernel itself, which
    takes others as well.

    Args:
        kernel: A kernel; or, as a decorator, a function without a body that has the name and the parameters of one.
        arg_types: The types of all parameters in order, or of some by name.

    Raises:
        KernelTypeError: there is no such kernel or parameter, or the types are too few or too many.

    Example:
        >>> import tilekit as tk
        >>> from typing import Any
        >>> @tk.kernel
        ... def scale(x: tk.array1d[Any], by: Any):
        ...     x[tk.tid()] *= by
        >>> tk.overload(scale, {"by": tk.float64}) is scale
        True
    """
    if isinstance(kernel, Kernel):
        _check(kernel, list(kernel.parameters) if arg_types is None else arg_types)
        return kernel
    if not isinstance(kernel, FunctionType):
        raise KernelTypeError(f"overload() needs a kernel or a function of a kernel's name, got {describe(kernel)}")
    name = kernel.__name__
    found = sys._getframe(1).f_locals.get(name, kernel.__globals__.get(name))
    if not isinstance(found, Kernel):
        raise KernelTypeError(f"overload() found no kernel named {name!r} here")
    _check(found, dict.fromkeys(inspect.signature(kernel).parameters))
    return found


def _check(kernel: Kernel, types: Mapping[str, Any] | Sequence[Any]) -> None:
    known = list(kernel.parameters)
    unknown = [name for name in types if name not in known] if isinstance(types, Mapping) else []
    if unknown:
        raise KernelTypeError(
            f"kernel {kernel.key!r} has no parameter {unknown[0]!r}; its parameters are {', '.join(known)}"
        )
    if not isinstance(types, Mapping) and len(types) != len(known):
        raise KernelTypeError(f"kernel {kernel.key!r} has {len(known)} parameters, got {len(types)} types")
