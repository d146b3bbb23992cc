"""Warp's module options: what is set for all kernels of a Python module, whether declared before or after."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol
from weakref import WeakSet

from tilekit.errors import KernelValueError
from tilekit.ir.attributes import suggestion

__all__ = ["get_module_options", "set_module_options"]


MODULE_OPTIONS = (
    "max_unroll", "enable_backward", "fast_math", "lineinfo", "gemm", "require_gemm", "enable_mathdx_gemm",
)  # fmt: skip
"""Those that have a meaning."""
WITHOUT_MEANING = (
    "block_dim", "compile_time_trace", "cpu_compiler_flags", "cuda_output", "default_grid_stride", "deterministic",
    "deterministic_max_records", "enable_mathdx_fft", "enable_mathdx_solver", "extra_build_options", "fuse_fp", "mode",
    "optimization_level", "strip_hash",
)  # fmt: skip
"""Warp's others."""


class Declared(Protocol):
    """A kernel, as far as this module knows it."""

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Take options where the kernel has none of its own, from the next launch on."""


_options: dict[str, dict[str, Any]] = {}
_kernels: dict[str, WeakSet[Declared]] = {}


def declare(kernel: Declared, module: str) -> None:
    """Let a kernel follow the options of the module that declares it."""
    _kernels.setdefault(module, WeakSet()).add(kernel)
    if module in _options:
        kernel.set_defaults(_options[module])


def check_module_options(options: Mapping[str, Any]) -> None:
    """Refuse what is no module option: one that is misspelt would have no effect."""
    known = (*MODULE_OPTIONS, *WITHOUT_MEANING)
    if unknown := [name for name in options if name not in known]:
        raise KernelValueError(
            f"there is no module option {unknown[0]!r}{suggestion(str(unknown[0]), known)}; they are "
            f"{', '.join(MODULE_OPTIONS)}, and Warp's {', '.join(WITHOUT_MEANING)}, which have no meaning here"
        )


def set_module_options(options: Mapping[str, Any], module: ModuleType | None = None) -> None:
    """Set options for all kernels of a module, as Warp does; a kernel's own ``module_options`` go before them.

    Args:
        options: ``max_unroll``, ``enable_backward``, ``fast_math``, ``lineinfo``, and for products on GPUs ``gemm``,
            ``require_gemm`` and ``enable_mathdx_gemm``; Warp's others are accepted without meaning.
        module: The module; the calling one where it is left out.

    Raises:
        KernelValueError: a name that is no module option.

    Example:
        >>> import tilekit as tk
        >>> tk.set_module_options({"enable_backward": False})
        >>> tk.get_module_options()["enable_backward"]
        False
    """
    check_module_options(options)
    name = _name_of(module)
    _options[name] = {**_options.get(name, {}), **options}
    for kernel in list(_kernels.get(name, ())):
        kernel.set_defaults(_options[name])


def get_module_options(module: ModuleType | None = None) -> dict[str, Any]:
    """The options that were set for a module.

    Args:
        module: The module; the calling one where it is left out.

    Returns:
        A new dict of them by name.

    Example:
        >>> import math, tilekit as tk
        >>> tk.get_module_options(math)
        {}
    """
    return dict(_options.get(_name_of(module), {}))


def _name_of(module: ModuleType | None) -> str:
    found = sys._getframe(2).f_globals.get("__name__") if module is None else module.__name__
    return str(found)
