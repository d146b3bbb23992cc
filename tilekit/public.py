"""The names of ``tilekit`` that are loaded at their first use: kernels, launches, builtins, Warp's host functions."""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import importlib.util
import inspect
import os
import re
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tilekit.errors import KernelAttributeError
from tilekit.ir import annotations as array_types
from tilekit.ir.operators import PYTHONS_OWN
from tilekit.runtime import warp_names

_FRONTEND = ("kernel", "generic", "module_options", "custom_gradients", "gradient_calls")
_RUNTIME = (
    "launch", "compile", "explain", "spec", "cuda.waiting", "native_functions", "gradcheck", "jacobian", "tape",
)  # fmt: skip
API = (
    *(f"tilekit.frontend.{name}" for name in _FRONTEND),
    *(f"tilekit.runtime.{name}" for name in _RUNTIME),
)
"""The modules whose ``__all__`` is public as it stands."""


MODULES = {"torch": "tilekit.interop.torch"}
"""Public modules by name; each imports its library where it is used."""

_LATE = ("tilekit.builtins", "tilekit.runtime.specialise", "tilekit.runtime.program", "tilekit.runtime.warp_arrays",
         "numpy.ma", "importlib.metadata", "email.parser")  # fmt: skip
"""What a first launch imports, and what that imports as it runs."""


def _before_fork() -> None:
    """Import what a launch may need where other threads may be importing it: a child that is forked meanwhile would
    wait for ever for the lock of a module that no thread there goes on to import."""
    if "tilekit.frontend.kernel" not in sys.modules or threading.active_count() == 1:
        return
    for name in (*API, *_LATE, *(name for name in ("warp",) if name in sys.modules)):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


@functools.cache
def _guard_forks() -> None:
    """See to it that :func:`_before_fork` is called; before the first module of a launch is imported."""
    # What is registered last is called first, and logging holds its lock from when it is called on.
    importlib.import_module("logging")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork)


def _families() -> Any:
    # Not `from tilekit import builtins`: that would ask `find` for the name first.
    return importlib.import_module("tilekit.builtins")


def _functions() -> dict[str, Any]:
    """What the API modules and the builtin families offer."""
    _guard_forks()
    modules = map(importlib.import_module, API)
    offered = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {**_families().public_names(), **offered}


def _creators() -> dict[str, Any]:
    """Functions that make arrays; a program that asks for none does not load them."""
    module = importlib.import_module("tilekit.runtime.warp_arrays")
    return {
        name: value
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_") and callable(value)
    }


def _construct(*given: Any, **options: Any) -> Any:
    """``array(data)`` before anything else has loaded what makes arrays, which then takes this function's place."""
    _creators()
    assert array_types.construct_hook is not None and array_types.construct_hook is not _construct
    return array_types.construct_hook(*given, **options)


array_types.set_construct_hook(_construct)


def find(name: str) -> Any:
    """The public object of that name.

    Raises:
        KernelAttributeError: there is none; the message suggests similar names.
    """
    if name == "__version__":
        return importlib.import_module("tilekit.runtime.cache").tilekit_version()
    if name.startswith("_"):
        raise AttributeError(f"module 'tilekit' has no attribute {name!r}")
    found = importlib.import_module(MODULES[name]) if name in MODULES else _functions().get(name)
    if found is None:
        found = _creators().get(name)
    if found is None:
        found = PYTHONS_OWN.get(name)
    if found is None:
        if name not in warp_names.names():
            if in_warp(name):
                raise KernelAttributeError(f"tilekit does not have Warp's {name!r} yet")
            here = [name for name, value in vars(sys.modules["tilekit"]).items() if not isinstance(value, ModuleType)]
            known = [*_functions(), *warp_names.names(), *here]
            close = importlib.import_module("difflib").get_close_matches(name, known, 1)
            hint = f"; did you mean `{close[0]}`?" if close else ""
            raise KernelAttributeError(f"tilekit has no {name!r}{hint}")
        found = warp_names.lookup(name)
    setattr(sys.modules["tilekit"], name, found)
    return found


def in_warp(name: str) -> bool:
    """Whether Warp, where it is installed, has that name; its stubs tell without importing it."""
    found = importlib.util.find_spec("warp")
    stubs = Path(found.origin).with_name("__init__.pyi") if found is not None and found.origin else None
    if stubs is None or not stubs.is_file():
        return False
    text = stubs.read_text(encoding="utf-8")
    return re.search(rf"^(?:def|class) {name}\b|^from \S+ import .*\b{name}$", text, re.MULTILINE) is not None


def listed() -> list[str]:
    return [*_functions(), *_creators(), *warp_names.names(), *MODULES]


@dataclass(frozen=True)
class Documented:
    """What documentation says of a builtin, of a function that stands beside the builtins, of a type or a constant."""

    name: str
    group: str
    parameters: inspect.Signature | None
    """None for a constant and for a type."""
    doc: str
    gradient: str = ""
    """Of a builtin, whether it has a gradient, and why where it has none."""

    @property
    def signature(self) -> str:
        """Name and parameters, without annotations: those name the compiler's types, not what a user passes."""
        if self.parameters is None:
            return self.name
        empty = inspect.Parameter.empty
        shown = [
            p.replace(annotation=empty, default=empty if p.default is empty else _Written(p.default))
            for p in self.parameters.parameters.values()
        ]
        return f"{self.name}{inspect.Signature(shown)}"

    @property
    def summary(self) -> str:
        """The first line of the text."""
        return self.doc.partition("\n")[0]


class _Written:
    """A default that prints as a user would write it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        if isinstance(self.value, enum.Enum):
            return f"{type(self.value).__name__}.{self.value.name}"
        if callable(self.value):
            return str(getattr(self.value, "__name__", self.value))
        return repr(self.value)


def documented() -> list[Documented]:
    """Everything that kernels can call, by group, each in the order of declaration.

    Example:
        >>> [entry.signature for entry in documented() if entry.name == "tile_zeros"]
        ["tile_zeros(shape, dtype=float32, storage='register')"]
    """
    groups: dict[str, list[Documented]] = {}
    named = _families().public_groups()
    for name, value in _families().public_names().items():
        groups.setdefault(named[name], []).append(_entry(name, named[name], value))
    return [entry for members in groups.values() for entry in members]


def on_the_host() -> list[Documented]:
    """What programs use outside of kernels, by group, but for what is Warp's own.

    Example:
        >>> [entry.group for entry in on_the_host() if entry.name in ("launch", "zeros", "array2d")]
        ['Kernels and launches', 'Arrays', 'Types']
    """
    offered = [(name, module) for module in map(importlib.import_module, API) for name in module.__all__]
    held = vars(sys.modules["tilekit"]).items()
    types = [name for name, value in held if inspect.isclass(value) and value.__module__.startswith("tilekit.ir.")]
    return [
        *(_entry(name, "Kernels and launches", getattr(module, name)) for name, module in offered),
        *(_entry(name, "Arrays", value) for name, value in _creators().items()),
        *(entry for name in MODULES for entry in _module_entries(name)),
        *(_entry(name, "Types", getattr(sys.modules["tilekit"], name)) for name in types),
    ]


def _module_entries(name: str) -> list[Documented]:
    """A public module, and what it offers."""
    module = find(name)
    doc = inspect.cleandoc(module.__doc__ or "")
    offered = [_entry(f"{name}.{member}", "Modules", getattr(module, member)) for member in module.__all__]
    return [Documented(name, "Modules", None, doc), *offered]


def _entry(name: str, group: str, value: Any) -> Documented:
    if inspect.isclass(value):  # made by other functions, or an annotation: how it is called says little
        return Documented(name, group, None, inspect.cleandoc(value.__doc__ or ""))
    if not callable(value):
        own = type(value).__module__.startswith("tilekit.")
        return Documented(name, group, None, inspect.cleandoc(value.__doc__ if own else f"The constant {value!r}."))
    parameters = getattr(value, "signature", None) or inspect.signature(value)
    return Documented(name, group, parameters, inspect.cleandoc(value.__doc__ or ""), _gradient(value))


def _gradient(value: Any) -> str:
    """What is said of a builtin's gradient; a function beside the builtins has those of what it calls."""
    if not hasattr(value, "no_adjoint"):
        return ""
    if value.has("adjoint"):
        return "yes"
    return f"none, because {value.no_adjoint}" if value.no_adjoint else "none: it gives no floats that depend on floats"
