"""What is done to gradients on a GPU, element by element. Arrays of fewer dimensions come with leading ones."""

from __future__ import annotations

from typing import Any

from tilekit.builtins.grid import tid
from tilekit.frontend.kernel import kernel
from tilekit.ir.annotations import array4d


@kernel
def copied(source: array4d[Any], target: array4d[Any]) -> None:
    """Copy, rounding to the target's dtype."""
    i, j, k, n = tid()
    target[i, j, k, n] = target.dtype(source[i, j, k, n])


@kernel
def filled(value: float, target: array4d[Any]) -> None:
    i, j, k, n = tid()
    target[i, j, k, n] = target.dtype(value)


@kernel
def added(source: array4d[Any], target: array4d[Any]) -> None:
    """Add in the source's dtype, and round once."""
    i, j, k, n = tid()
    target[i, j, k, n] = target.dtype(source.dtype(target[i, j, k, n]) + source[i, j, k, n])
