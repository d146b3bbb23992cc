"""Formats of arrays, and how far results in them may be from float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tilekit as tk

Pair = tuple[Any, Any]
"""A result in float64, and what its error in a narrower dtype is relative to, element by element."""


@dataclass(frozen=True)
class Format:
    """A dtype of arrays; sums are float32."""

    dtype: Any
    unit: float
    """The largest relative error of rounding to it."""


FORMATS = {"fp32": Format(tk.float32, 2.0**-24), "bf16": Format(tk.bfloat16, 2.0**-8)}
ARITHMETIC = 2e-5
"""The error of float32's sums and functions, relative to the second of a :data:`Pair`; what is right is far below."""


def largest_error(results: Sequence[Any], exact: Sequence[Pair], unit: float, arithmetic: float = ARITHMETIC) -> float:
    """The largest error of an element, as a fraction of what is allowed there; NaNs are infinitely wrong.

    Args:
        results: Arrays of NumPy's or tensors of PyTorch's.
        exact: A pair for each.
        unit: The largest relative error of rounding to the dtype of the results.
        arithmetic: The largest error before that.

    Example:
        >>> import numpy as np
        >>> exact = [(np.array([1.0, 2.0]), np.array([1.0, 1.0]))]
        >>> largest_error([np.array([1.0, 2.25])], exact, unit=0.125, arithmetic=0.25)
        0.5
    """
    found = []
    for x, (wanted, size) in zip(results, exact, strict=True):
        bound = abs(wanted) * unit + size * arithmetic + 1e-300  # so that no error of zero is divided by zero
        found.append(float((abs(x - wanted) / bound).max()))
    return max(each if each == each else float("inf") for each in found)
