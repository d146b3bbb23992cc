"""Launches like an earlier one on a GPU: described in memory beforehand, but for addresses, numbers and the stream."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tilekit.errors import KernelTypeError
from tilekit.ir.types import ScalarType
from tilekit.runtime.cpu import format_of
from tilekit.runtime.cuda import failures
from tilekit.runtime.cuda.mailbox import report_earlier
from tilekit.runtime.cuda.slots import ARGUMENTS, LAUNCH_BYTES, STREAM, Slot
from tilekit.runtime.cuda.streams import handle_of
from tilekit.runtime.warm import Again, Like

if TYPE_CHECKING:
    from tilekit.runtime.cuda.kernel import CudaKernel

_WORD = 8
"""Bytes of an address, an extent, a stride, and the place of a number."""
_FIRST = (ARGUMENTS + LAUNCH_BYTES) // _WORD
"""The word of the first value."""


def prepare(
    kernel: CudaKernel, fill: Callable[[Slot], None], like: Like, current: Callable[[int], int | None]
) -> Again:
    """Launches over one grid, with arrays of fixed shapes and strides. They raise as :meth:`CudaKernel.run`.

    A function with variables of its own: they are read faster than the attributes of an object.

    Args:
        fill: Writes the whole description into a slot.
        current: The stream of a device where none is given, or None for the long way.
    """
    device, function, size = kernel.device, kernel.function_argument, kernel.size
    reporting, recent, context, ordinal = device.reporting, device.recent, device.context, device.ordinal
    functions = device.driver.functions
    submit, context_of = functions["cuLaunchKernelEx"], functions["cuCtxGetCurrent"]
    put, put_numbers = _putter(tuple(like.places)), _number_putter(kernel.name, like)
    slots: list[Slot] = []

    def launch(pointers: Sequence[int], numbers: Sequence[Any], stream: Any) -> bool:
        chosen = current(ordinal) if stream is None else handle_of(stream)
        if chosen is None:
            return False
        if reporting:
            report_earlier(device)
        try:
            slot = slots.pop()
        except IndexError:
            slot = Slot(size)
            fill(slot)
        try:
            put(slot.words, chosen, pointers)
            if numbers:
                put_numbers(slot, numbers)
            context_of(slot.context_place)
            if slot.context.value == context:
                code = submit(slot.config, function, slot.parameters, None)
            else:
                with device.current():
                    code = submit(slot.config, function, slot.parameters, None)
        finally:
            slots.append(slot)
        if code:
            raise failures.of_launch(kernel, code)
        recent.append(kernel)
        return True

    return launch


@lru_cache(maxsize=256)
def _putter(places: tuple[int, ...]) -> Callable[[memoryview, int, Sequence[int]], None]:
    """What puts a stream and addresses into the words of a slot: Python code for these places, which takes half as long
    as a loop."""
    targets = "".join(f"words[{_FIRST + place}], " for place in places)
    names: dict[str, Any] = {}
    exec(f"def put(words, stream, pointers):\n words[{STREAM}] = stream\n {targets} = pointers", names)
    return names["put"]  # type: ignore[no-any-return]


def _number_putter(name: str, like: Like) -> Callable[[Slot, Sequence[Any]], None]:
    ways = [
        ((_FIRST + place) * _WORD, struct.Struct(format_of(ScalarType(dtype))).pack_into)
        for place, dtype in like.numbers
    ]

    def put(slot: Slot, numbers: Sequence[Any]) -> None:
        try:
            for (offset, pack_into), number in zip(ways, numbers, strict=True):
                pack_into(slot.memory, offset, number)
        except (struct.error, TypeError, OverflowError) as error:
            raise KernelTypeError(f"kernel {name!r}: {error}") from None

    return put
