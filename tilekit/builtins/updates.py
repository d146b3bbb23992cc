"""The updates of one element that count each, whatever other lanes and blocks do to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Update:
    """What ``t[i] += x`` and its kin do to an element."""

    name: str
    """As in ``tk.atomic_add``."""
    native: str
    """The function of ``native/scalar.h`` that gives the new value."""
    kinds: str
    """The kinds of dtypes that it is for."""
    combine: Callable[[Any, Any], Any]
    """The new value, in NumPy."""

    def atomic(self, pointer: str, value: str) -> str:
        """A call of the function of ``native/atomic.h``."""
        if self.name == "sub":
            return f"tk::atomic_add({pointer}, tk::neg({value}))"
        return f"tk::atomic_{self.name}({pointer}, {value})"


UPDATES: Mapping[str, Update] = {
    "+": Update("add", "add", "iuf", np.add),
    "-": Update("sub", "sub", "iuf", np.subtract),
    "&": Update("and", "bit_and", "biu", np.bitwise_and),
    "|": Update("or", "bit_or", "biu", np.bitwise_or),
    "^": Update("xor", "bit_xor", "biu", np.bitwise_xor),
}
"""By operator: those that Warp makes atomic."""
