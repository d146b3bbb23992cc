"""Where the gradients of a tape's arrays are.

A Warp array that was made with ``requires_grad=True`` has its gradient in ``grad``. For other arrays the store keeps
one of its own, for the whole memory that an array is part of: so views of an array share its gradient as they share its
elements, and a gradient has its array's strides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tilekit.errors import KernelNotImplementedError, KernelValueError, Location
from tilekit.runtime.array_view import ArrayView, byte_range, overlaps
from tilekit.runtime.arrays import library_of, view_of
from tilekit.runtime.gradient_arrays import add, assign, dense, fill, like_owner, zeros

if TYPE_CHECKING:
    from tilekit.runtime.records import LaunchRecord


class Storage:
    """A stretch of memory that arrays are in, and where its gradient is."""

    __slots__ = ("active", "delta", "device", "dtype", "high", "lost", "low", "owner", "sample")

    def __init__(self, view: ArrayView, low: int, high: int, delta: int | None) -> None:
        self.low, self.high = low, high
        self.device, self.dtype = view.device, view.dtype
        self.delta = delta
        """From the address of an element to that of its gradient; None until there is one."""
        self.owner: Any = None
        """What keeps the gradient alive, where the store has made it."""
        self.sample = view
        """One of the arrays."""
        self.active = False
        """Whether a gradient is to flow to it."""
        self.lost: str | None = None
        """What wrote it, from arrays that require grad, and has no gradient for it."""

    def meets(self, view: ArrayView, low: int, high: int) -> bool:
        """Whether an array in the bytes from ``low`` to before ``high`` has memory here."""
        if low == high:  # it has none
            return (self.low, self.high, self.device, self.dtype) == (low, high, view.device, view.dtype)
        return self.device == view.device and self.low < high and low < self.high

    def make(self) -> None:
        """Make a gradient of zeros."""
        count = -(-(self.high - self.low) // self.dtype.itemsize)
        self.owner = zeros(self.sample, count, self.dtype)
        self.delta = view_of(self.owner).pointer - self.low


def wants_gradient(array: Any, warp_alone: bool = False) -> bool:
    """Whether an array of floats has a gradient of its own; with ``warp_alone`` only Warp's can."""
    library = library_of.get(type(array))
    if library in ("warp", "torch"):
        return bool(array.requires_grad) and (library == "warp" or not warp_alone)
    return not warp_alone


class GradientStore:
    """The gradients of arrays, by the memory that these are in."""

    def __init__(self, warp_alone: bool = False) -> None:
        self.storages: list[Storage] = []
        self.retained: list[ArrayView] = []
        """Arrays whose gradients are kept when a launch that wrote them has taken them."""
        self.consumed: list[tuple[ArrayView, LaunchRecord]] = []
        self._kept: list[tuple[ArrayView, ArrayView]] = []
        """Gradients and copies of them, which they get back at the end."""
        self._warps: dict[int, Any] = {}
        """Warp's arrays that have gradients of their own."""
        self._running = False
        self.begun = self.broken = False
        """Whether going backward has changed gradients; whether it then failed, so that they are not whole."""
        self._warp_alone = warp_alone
        """Whether only Warp's arrays are asked for gradients, as on a tape of Warp's."""

    def see(self, records: Iterable[Any]) -> None:
        """Find out which arrays gradients are to flow to, from what was recorded in order."""
        records = list(records)
        for record in records:
            for view in record.floats().values():
                if wants_gradient(view.owner, self._warp_alone):
                    self.activate(view)
        for record in records:
            record.spread(self)

    def is_active(self, view: ArrayView) -> bool:
        """Whether a gradient is to flow to an array."""
        return self.storage(view).active

    def activate(self, view: ArrayView) -> None:
        """Let a gradient flow to an array."""
        self.storage(view).active = True

    def lose(self, view: ArrayView, what: str) -> None:
        """Note that an array depends on arrays that require grad, and that no gradient flows through what wrote it."""
        self.storage(view).lost = what

    def refuse_lost(self, view: ArrayView, name: str, place: Location) -> None:
        """Refuse to leave out a gradient that ought to flow through what wrote an array."""
        storage = self.storage(view)
        if storage.lost is not None and not storage.active:
            raise KernelNotImplementedError(
                f"{name} was written by {storage.lost} from arrays that require grad, but has no gradient of its own; "
                "make it with requires_grad=True",
                place,
            )

    def storage(self, view: ArrayView) -> Storage:
        """The memory that an array is in."""
        low, high, delta = _whole(view)
        if delta is not None:
            self._warps[id(view.owner)] = view.owner
        found = [s for s in self.storages if s.meets(view, low, high)]
        if not found:
            found = [Storage(view, low, high, delta)]
            self.storages.append(found[0])
        first = found[0]
        if len(found) > 1 or low < first.low or high > first.high:
            self._merge(found, low, high, delta)
        if first.delta is None:
            first.delta = delta
        if first.dtype is not view.dtype:
            raise KernelNotImplementedError(
                f"the tape has one array as {first.dtype.name} and, with the same memory, as {view.dtype.name}; it "
                "keeps no gradient for both"
            )
        return first

    def _merge(self, found: list[Storage], low: int, high: int, delta: int | None) -> None:
        """Make one of stretches that overlap; possible where their gradients are in one place."""
        places = {storage.delta for storage in found} | {delta}
        if len(places) > 1:
            raise KernelNotImplementedError(
                "arrays on the tape share a part of their memory, and their gradients do not; pass views of one array"
            )
        first = found[0]
        first.low, first.high = min(low, *(s.low for s in found)), max(high, *(s.high for s in found))
        first.active = any(storage.active for storage in found)
        self.storages = [storage for storage in self.storages if storage is first or storage not in found]

    def gradient(self, view: ArrayView, make: bool) -> ArrayView | None:
        """The gradient of an array; None where there is none yet and none is to be made."""
        storage = self.storage(view)
        if storage.delta is None:
            if not make:
                return None
            storage.make()
        assert storage.delta is not None
        owner = storage.owner if storage.owner is not None else view.owner
        place = view.pointer + storage.delta if view.size else 0
        return ArrayView(place, view.shape, view.strides, view.dtype, view.device, False, owner)

    def seed(self, view: ArrayView, given: ArrayView | float) -> None:
        """Set the gradient of an array, to that of another or to a number."""
        self.activate(view)
        target = self.gradient(view, make=True)
        assert target is not None
        if isinstance(given, ArrayView):
            assign(target, given)
        else:
            fill(target, given)

    def keep(self, view: ArrayView, record: LaunchRecord) -> None:
        """Save the gradient of an array that retains it, where a launch is about to take it for the first time.

        Raises:
            KernelNotImplementedError: a part of it has been saved already.
        """
        retained = any(overlaps(view, other) for other in self.retained) or _retains(view.owner)
        target = self.gradient(view, make=False) if retained else None
        if target is None or any(target.same_place(other) for other, _ in self._kept):
            return
        if any(overlaps(target, other) for other, _ in self._kept):
            raise KernelNotImplementedError(
                "retain_grad of an array whose parts launches wrote one over the other, as kernel "
                f"{record.kernel.key!r} did here; pass them arrays of their own",
                record.place,
            )
        self._kept.append((target, _copy(target)))

    def consume(self, view: ArrayView, record: LaunchRecord) -> None:
        """Note that the gradient of an array has gone on through the launch that wrote it."""
        if library_of.get(type(view.owner)) != "warp":
            self.consumed.append((view, record))

    def regain(self, view: ArrayView) -> None:
        """Note that the gradient of an array is now that of what it held before a launch wrote it."""
        self.consumed = [(other, record) for other, record in self.consumed if not overlaps(view, other)]

    @contextmanager
    def going_backward(self) -> Iterator[None]:
        """While records are gone through; at the end, arrays that retain their gradients have them back.

        What an earlier backward has left in those is set aside meanwhile: it must not flow again.
        """
        earlier = [(target, _copy(target)) for target, _ in self._kept]
        for target, _ in earlier:
            fill(target, 0.0)
        self._kept, self._running, self.begun = [], True, False
        try:
            yield
        except BaseException:
            self.broken = self.begun
            raise
        finally:
            self._running = False
            for target, copy in self._kept:
                assign(target, copy)
            for target, copy in earlier:
                add(target, copy)

    def zero(self) -> None:
        """Set all gradients to zero."""
        for array in self._warps.values():
            if array.grad is not None:
                array.grad.zero_()
        for storage in self.storages:
            if storage.owner is not None:
                fill(view_of(storage.owner), 0.0)
        self.consumed.clear()
        self._kept.clear()
        self.broken = False

    def of(self, array: Any) -> Any:
        """The gradient of an array, as an array of the same library; None where there is none.

        Raises:
            KernelValueError: it has gone on through the launch that wrote the array.
        """
        view = view_of(array)
        if library_of.get(type(array)) == "warp" and array.grad is not None:
            return array.grad
        storage = self.storage(view)
        if storage.delta is None:
            return None
        for other, record in () if self._running else self.consumed:
            if _inside(view, other) and not any(overlaps(other, kept) for kept in self.retained):
                raise KernelValueError(
                    f"the gradient of this array has gone on through kernel {record.kernel.key!r}, which wrote it; "
                    "call tape.retain_grad(array) before backward",
                    record.place,
                )
        return like_owner(array, view, storage.owner, view.pointer - storage.low)


def _copy(view: ArrayView) -> ArrayView:
    found = dense(view, view.dtype)
    assign(found, view)
    return found


def _inside(view: ArrayView, other: ArrayView) -> bool:
    (low, high), (first, last) = byte_range(view), byte_range(other)
    return first <= low and high <= last and overlaps(view, other)


def _retains(array: Any) -> bool:
    return library_of.get(type(array)) == "warp" and bool(array.retain_grad)


def _whole(view: ArrayView) -> tuple[int, int, int | None]:
    """The memory that an array is part of, as far as that is known, and how far its gradient is from it."""
    array: Any = view.owner
    library = library_of.get(type(array))
    if library == "torch":
        storage = array.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes(), None
    low, high = byte_range(view)
    if library == "warp":
        gradient = array.grad
        if gradient is not None:
            if tuple(gradient.strides) != view.strides:
                raise KernelNotImplementedError("the grad of an array of Warp's has other strides than the array")
            return low, high, gradient.ptr - view.pointer if view.size else None
        while getattr(array, "_ref", None) is not None and library_of.get(type(array._ref)) == "warp":
            array = array._ref
        return *byte_range(view_of(array)), None
    if isinstance(array, np.ndarray):
        while isinstance(array.base, np.ndarray):
            array = array.base
        start = array.__array_interface__["data"][0]
        steps = [stride * (extent - 1) for stride, extent in zip(array.strides, array.shape, strict=True) if extent]
        return (
            start + sum(step for step in steps if step < 0),
            start + sum(step for step in steps if step > 0) + (array.itemsize if math.prod(array.shape) else 0),
            None,
        )
    return low, high, None
