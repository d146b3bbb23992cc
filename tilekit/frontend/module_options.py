"""Warp's module options: what is set for all kernels of a Python module, whether declared before or after."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol
from weakref import WeakSet

from tilekit.errors import KernelTypeError, TilekitError
from tilekit.ir.attributes import suggestion
from tilekit.ir.notices import calling_place
from tilekit.ir.operands import describe
from tilekit.options import MODULE_OPTIONS, OPTIONS, Option

__all__ = ["get_module_options", "set_module_options"]


class Declared(Protocol):
    """A kernel, as far as this module knows it."""

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Take options where the kernel has none of its own, from the next launch on."""


_options: dict[str, dict[str, Any]] = {}
_kernels: dict[str, WeakSet[Declared]] = {}


def check_keywords(options: Mapping[str, Any], table: Mapping[str, Option], taker: str) -> None:
    """Refuse keywords of a decorator that it does not know, and values that they do not take.

    Args:
        options: The keywords.
        table: Those that it knows.
        taker: The decorator.

    Raises:
        KernelTypeError: an unknown name, or module options that are no dict.
        KernelValueError: a value of the wrong type.
    """
    _check(options, table, f"{taker}() has no keyword", "it takes")
    if options.get("module_options") is not None:
        check_module_options(options["module_options"])


def check_module_options(options: Any) -> None:
    """Refuse options that modules and kernels do not have, and values that they do not take.

    Raises:
        KernelTypeError: an unknown name, or no dict.
        KernelValueError: a value of the wrong type.
    """
    if not isinstance(options, Mapping):
        raise KernelTypeError(
            f"module options must be a dict of values by name, got {describe(options)}",
            calling_place("module_options"),
        )
    _check(options, MODULE_OPTIONS, "there is no module option", "module options are")


def _check(options: Mapping[Any, Any], table: Mapping[str, Option], unknown: str, introduced: str) -> None:
    for name, value in options.items():
        if name not in table:
            raise KernelTypeError(f"{unknown} {name!r}{_hint(name, table, introduced)}", calling_place(str(name)))
        try:
            table[name].check(value)
        except TilekitError as error:
            raise error.at(calling_place(name)) from None


def _hint(name: Any, table: Mapping[str, Option], introduced: str) -> str:
    if table is MODULE_OPTIONS and name in {option.name for option in OPTIONS}:
        return f", only tk.config.{name}, which holds for all kernels"
    if "module_options" in table and name in MODULE_OPTIONS:
        return f"; write module_options={{{name!r}: ...}}"
    # Warp's options have no effect, so they are not suggested.
    known = [option.name for option in table.values() if option.effective or table is not MODULE_OPTIONS]
    return f"{suggestion(str(name), table)}; {introduced} {', '.join(known)}"


def declare(kernel: Declared, module: str) -> None:
    """Let a kernel follow the options of the module that declares it."""
    _kernels.setdefault(module, WeakSet()).add(kernel)
    if module in _options:
        kernel.set_defaults(_options[module])


def set_module_options(options: Mapping[str, Any], module: ModuleType | str | None = None) -> None:
    """Set options for all kernels of a module, as Warp does; a kernel's own ``module_options`` go before them.

    Args:
        options: ``max_unroll``, ``fast_math``, ``mode`` on the CPU, ``lineinfo`` on GPUs, for products there ``gemm``,
            ``require_gemm`` and ``enable_mathdx_gemm``, for gradients ``deterministic``, each as in ``tk.config``,
            which None leaves it to; ``enable_backward`` and Warp's others are accepted without meaning.
        module: The module or its name; the calling one where it is left out.

    Raises:
        KernelTypeError: there is no such option, or ``options`` is no dict.
        KernelValueError: a value of the wrong type.

    Example:
        >>> import tilekit as tk
        >>> tk.set_module_options({"enable_backward": False})
        >>> tk.get_module_options()["enable_backward"]
        False
    """
    name = _name_of(module)
    check_module_options(options)
    _options[name] = {**_options.get(name, {}), **options}
    for kernel in list(_kernels.get(name, ())):
        kernel.set_defaults(_options[name])


def get_module_options(module: ModuleType | str | None = None) -> dict[str, Any]:
    """The options that were set for a module.

    Args:
        module: The module or its name; the calling one where it is left out.

    Returns:
        A new dict of them by name.

    Example:
        >>> import math, tilekit as tk
        >>> tk.get_module_options(math)
        {}
    """
    return dict(_options.get(_name_of(module), {}))


def _name_of(module: ModuleType | str | None) -> str:
    if module is None:
        return str(sys._getframe(2).f_globals.get("__name__"))
    name = module if isinstance(module, str) else getattr(module, "__name__", getattr(module, "name", None))
    if not isinstance(name, str):
        raise KernelTypeError(f"module must be a module or its name, got {describe(module)}", calling_place())
    return name
