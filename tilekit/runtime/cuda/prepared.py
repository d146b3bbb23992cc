"""Launches like an earlier one on a GPU: described in memory beforehand, but for addresses, numbers and the stream."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilekit.errors import KernelTypeError
from tilekit.ir.types import ScalarType
from tilekit.runtime.cpu import format_of
from tilekit.runtime.cuda import failures
from tilekit.runtime.cuda.mailbox import report_earlier
from tilekit.runtime.cuda.slots import ARGUMENTS, LAUNCH_BYTES, STREAM, Slot
from tilekit.runtime.cuda.streams import handle_of
from tilekit.runtime.warm import Like

if TYPE_CHECKING:
    from tilekit.runtime.cuda.kernel import CudaKernel

_WORD = 8
"""Bytes of an address, an extent, a stride, and the place of a number."""


class Prepared:
    """A launch over one grid, with arrays of fixed shapes and strides."""

    def __init__(
        self,
        kernel: CudaKernel,
        fill: Callable[[Slot], None],
        like: Like,
        current: Callable[[int], int | None],
    ) -> None:
        """``fill`` writes the whole description into a slot, and ``current`` gives the stream of a device."""
        first = (ARGUMENTS + LAUNCH_BYTES) // _WORD
        self._kernel = kernel
        self._fill = fill
        self._places = [first + place for place in like.places]
        self._numbers = [
            ((first + place) * _WORD, struct.Struct(format_of(ScalarType(dtype))).pack_into)
            for place, dtype in like.numbers
        ]
        self._current = current
        self._device = kernel.device
        self._slots: list[Slot] = []
        functions = kernel.device.driver.functions
        self._launch, self._context_of = functions["cuLaunchKernelEx"], functions["cuCtxGetCurrent"]

    def launch(self, pointers: Sequence[int], numbers: Sequence[Any], stream: Any) -> bool:
        """Launch, unless no stream is given and there are several; raises as :meth:`CudaKernel.run`."""
        device = self._device
        chosen = self._current(device.ordinal) if stream is None else handle_of(stream)
        if chosen is None:
            return False
        if device.reporting:
            report_earlier(device)
        try:
            slot = self._slots.pop()
        except IndexError:
            slot = Slot(self._kernel.size)
            self._fill(slot)
        try:
            words = slot.words
            words[STREAM] = chosen
            for place, pointer in zip(self._places, pointers, strict=True):
                words[place] = pointer
            if numbers:
                self._put(slot, numbers)
            self._context_of(slot.context_address)
            if slot.context.value == device.context:
                code = self._launch(slot.config, self._kernel.function, slot.parameters, None)
            else:
                with device.current():
                    code = self._launch(slot.config, self._kernel.function, slot.parameters, None)
        finally:
            self._slots.append(slot)
        if code:
            raise failures.of_launch(self._kernel, code)
        device.recent.append(self._kernel)
        return True

    def _put(self, slot: Slot, numbers: Sequence[Any]) -> None:
        try:
            for (offset, pack_into), number in zip(self._numbers, numbers, strict=True):
                pack_into(slot.memory, offset, number)
        except (struct.error, TypeError, OverflowError) as error:
            raise KernelTypeError(f"kernel {self._kernel.name!r}: {error}") from None
