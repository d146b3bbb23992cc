"""What a tape keeps of a function that it calls when it goes backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilekit.ir.notices import calling_place
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.gradient_store import GradientStore


class FunctionRecord:
    """A function without arguments, and the arrays whose gradients it uses."""

    def __init__(self, function: Callable[[], Any], arrays: Sequence[ArrayView]) -> None:
        self.function = function
        self.arrays = arrays
        self.place = calling_place()

    @property
    def title(self) -> str:
        """What drawings call it."""
        return str(getattr(self.function, "__name__", "function"))

    def floats(self) -> dict[str, ArrayView]:
        """Its arrays, by number."""
        return {str(number): view for number, view in enumerate(self.arrays)}

    def may_write(self, view: ArrayView) -> bool:
        """Whether it may have written an array: nobody knows what it stands for."""
        return True

    def spread(self, store: GradientStore) -> None:
        """Note that its arrays have gradients."""
        for view in self.arrays:
            store.activate(view)

    def backward(self, store: GradientStore) -> None:
        """Call it."""
        store.begun = True
        self.function()
