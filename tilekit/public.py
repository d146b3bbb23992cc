"""The names of ``tilekit`` that are not written out in its ``__init__``: builtins, and Warp's host functions."""

from __future__ import annotations

import difflib
import sys
from typing import Any

from tilekit import builtins
from tilekit.errors import KernelAttributeError
from tilekit.runtime import warp_arrays, warp_names


def _functions() -> dict[str, Any]:
    """Public functions of the builtin families: those that a group documents."""
    return builtins.public_names()


def _creators() -> list[str]:
    """Functions that make arrays."""
    return [
        name
        for name, value in vars(warp_arrays).items()
        if getattr(value, "__module__", "") == warp_arrays.__name__ and not name.startswith("_") and callable(value)
    ]


def find(name: str) -> Any:
    """The public object of that name.

    Raises:
        KernelAttributeError: there is none; the message suggests similar names.
    """
    if name.startswith("_"):
        raise AttributeError(f"module 'tilekit' has no attribute {name!r}")
    found = _functions().get(name)
    if found is None and name in _creators():
        found = getattr(warp_arrays, name)
    if found is None:
        if name not in warp_names.names():
            known = [*_functions(), *warp_names.names(), *vars(sys.modules["tilekit"])]
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean `{close[0]}`?" if close else ""
            raise KernelAttributeError(f"tilekit has no {name!r}{hint}")
        found = warp_names.lookup(name)
    setattr(sys.modules["tilekit"], name, found)
    return found


def listed() -> list[str]:
    return [*_functions(), *_creators(), *warp_names.names()]
