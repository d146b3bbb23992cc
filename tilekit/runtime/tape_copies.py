"""Copies of Warp's that Warp itself records nowhere, as one of the arrays has no gradient: a tape of tilekit's does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import ref

from tilekit.errors import KernelNotImplementedError, TilekitError
from tilekit.ir.notices import calling_place
from tilekit.runtime.array_view import ArrayView, overlaps
from tilekit.runtime.arrays import view_of
from tilekit.runtime.gradient_arrays import fill
from tilekit.runtime.gradient_store import GradientStore
from tilekit.runtime.gradients import watch
from tilekit.runtime.guards import note_writes

if TYPE_CHECKING:
    from tilekit.runtime.tape import Tape

WHAT = "a copy of Warp's"


@contextmanager
def copies_recorded(warp: Any, tape: Tape) -> Iterator[None]:
    """While inside, Warp's function ``copy`` tells the tape of what Warp does not."""
    original, inside = warp.copy, False

    @wraps(original)
    def copy(dest: Any, src: Any, *given: Any, **named: Any) -> Any:
        nonlocal inside
        if inside:  # Warp copies gradients in the same way
            return original(dest, src, *given, **named)
        inside = True
        try:
            found = original(dest, src, *given, **named)
        finally:
            inside = False
        if any(getattr(array, "grad", None) is None for array in (dest, src)):
            _record(tape, dest, src, whole=not given and not named)
        return found

    modules = [warp, sys.modules.get("warp._src.context")]
    patched = [module for module in modules if getattr(module, "copy", None) is original]
    for module in patched:
        module.copy = copy
    try:
        yield
    finally:
        for module in patched:
            module.copy = original


def _record(tape: Tape, dest: Any, src: Any, whole: bool) -> None:
    try:
        target, source = view_of(dest), view_of(src)
    except TilekitError:  # no plain array, of which launches and gradients know nothing
        return
    note_writes(watch.records, {"": target}, WHAT, "warp")
    if whole and target.size == source.size:
        tape.last_writes.see([target])
    else:
        tape.last_writes.tear(target, WHAT)
    if target.dtype.is_float:
        replaces = any(record.may_write(target) for record in tape.launches)
        tape.launches.append(CopyRecord(dest, src, replaces))


class CopyRecord:
    """A copy that Warp does not go backward through. It keeps no array alive."""

    title = WHAT
    written = frozenset({"dest"})

    def __init__(self, dest: Any, src: Any, replaces: bool) -> None:
        """``replaces``: whether something on the tape wrote the array before, to which no gradient flows now."""
        self._replaces = replaces
        self.place = calling_place(through="warp")
        self._arrays = {"dest": ref(dest), "src": ref(src)}

    def floats(self) -> dict[str, ArrayView]:
        """The arrays that are still there; no launch has used one that is gone."""
        found = ((name, array()) for name, array in self._arrays.items())
        return {name: view_of(array) for name, array in found if array is not None}

    def may_write(self, view: ArrayView) -> bool:
        """Whether it has written an array."""
        return any(overlaps(view, other) for name, other in self.floats().items() if name in self.written)

    def _depends(self, store: GradientStore) -> bool:
        views = self.floats()
        return "src" in views and store.is_active(views["src"])

    def spread(self, store: GradientStore) -> None:
        """Note that a gradient is lost here."""
        if self._depends(store) and (target := self.floats().get("dest")) is not None:
            store.lose(target, WHAT)

    def backward(self, store: GradientStore) -> None:
        """Cut the gradient of what the copy has overwritten.

        Raises:
            KernelNotImplementedError: a gradient ought to flow on to the source.
        """
        target = self.floats().get("dest")
        if target is None or not store.is_active(target):
            return
        if self._depends(store):
            raise KernelNotImplementedError(
                "Warp records no gradient of this copy, as one of its arrays has none of its own; make both with "
                "requires_grad=True",
                self.place,
            )
        if self._replaces and (gradient := store.gradient(target, make=False)) is not None:
            store.begun = True
            fill(gradient, 0.0)
