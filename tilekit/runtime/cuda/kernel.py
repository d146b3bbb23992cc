"""A kernel on one GPU: loaded once, then packed and launched."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from tilekit.codegen.shared_memory import check_shared_memory
from tilekit.codegen.target import Target
from tilekit.errors import DeviceError, KernelTypeError, KernelValueError
from tilekit.ir.sizes import point_blocks
from tilekit.passes.activity import written_positions
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.cpu import LAUNCH, format_of
from tilekit.runtime.cuda import failures
from tilekit.runtime.cuda.devices import Device
from tilekit.runtime.cuda.mailbox import Mailbox, report_earlier
from tilekit.runtime.cuda.nvrtc import Cubin
from tilekit.runtime.cuda.prepared import prepare
from tilekit.runtime.cuda.slots import CONFIG, Slot
from tilekit.runtime.cuda.streams import choose, current_of, handle_of, is_capturing, order
from tilekit.runtime.warm import Again, Like

if TYPE_CHECKING:
    from tilekit.runtime.cpu import Generated

ENTRY = b"tk_launch"
_THREADS, _STATIC_SHARED, _LOCAL, _REGISTERS, _DYNAMIC_SHARED = 0, 1, 3, 4, 8
_MOST_BLOCKS = 2**31 - 1
_UNASKED_SHARED = 48 << 10
"""Bytes of shared memory that a kernel may have without asking for them."""


class CudaKernel:
    """A compiled kernel on one device: chooses the stream, packs arguments and launches."""

    def __init__(
        self, generated: Generated, cubin: Cubin, target: Target, device: Device, entry: bytes = ENTRY
    ) -> None:
        self.generated = generated
        self.entry = entry
        self.name = generated.function.name
        self.cubin = cubin
        self.device = device
        self.block_dim = target.block_dim
        self.written = written_positions(generated.function)
        """Which of its arrays it may write."""
        self.mailbox = Mailbox(device, generated) if generated.sites else None
        self._report = self.mailbox.address if self.mailbox else 0
        self._waits = target.checked or (self.mailbox is not None and self.mailbox.prints)
        """Whether a launch is waited for: its prints come out, and its errors are known to be its own."""
        self._watched = self._waits or self.mailbox is not None
        self._threads = generated.threads
        self._gathers = generated.lanes is not None and not target.tiled
        """Whether a block is ``block_dim`` consecutive points."""
        self._single = target.runs_points(generated.function)
        """Whether each thread is a point."""
        self.types = {name: value.type for name, value in generated.function.params.items()}
        layout = struct.Struct(CONFIG + LAUNCH + "".join(map(format_of, self.types.values())))
        self._pack_into, self.size = layout.pack_into, layout.size
        self._head = (1, 1, generated.threads, 1, 1, generated.arena)
        self._tail = (*(1,) * (4 - target.ndim), target.ndim, target.block_dim)
        self._slots = [Slot(self.size)]
        functions = device.driver.functions
        self._launch, self._context_of = functions["cuLaunchKernelEx"], functions["cuCtxGetCurrent"]
        self._load()

    def _load(self) -> None:
        """Load the code. While a graph is being captured this must not disturb the capture."""
        driver = self.device.driver
        with driver.relaxed(), self.device.current():
            module = ctypes.c_void_p()
            code = driver.functions["cuModuleLoadData"](ctypes.addressof(module), self.cubin.code)
            if code:
                raise failures.of_launch(self, code)
            self.function = driver.pointer("cuModuleGetFunction", module, self.entry)
            self.function_argument = ctypes.c_void_p.from_param(self.function)
            self.registers = self._attribute(_REGISTERS)
            self.local_bytes = self._attribute(_LOCAL)
            self._check_limits()
            if self.generated.arena + self._attribute(_STATIC_SHARED) > _UNASKED_SHARED:
                driver.call("cuFuncSetAttribute", self.function, _DYNAMIC_SHARED, self.generated.arena)

    def _attribute(self, number: int) -> int:
        return self.device.driver.number("cuFuncGetAttribute", number, self.function)

    def _check_limits(self) -> None:
        where = failures.location_of(self.generated.function)
        shared = self.generated.arena + self._attribute(_STATIC_SHARED)
        limit = self.device.max_shared
        check_shared_memory(self.generated.function, self.generated.storage, shared, limit, self.device.name)
        if self._threads > (most := self._attribute(_THREADS)):
            raise DeviceError(
                f"kernel {self.name!r} needs {self.registers} registers a thread, so that a block can have {most} "
                f"threads, not {self._threads}; launch with a smaller block_dim, or use smaller tiles",
                where,
            )

    def run(
        self, values: Sequence[Any], grid: tuple[int, ...], points: int, views: Sequence[ArrayView], stream: Any
    ) -> None:
        """Launch over ``grid``; ``values`` are pointers, shapes, strides and numbers in order.

        Raises:
            DeviceError: the driver refused, or an earlier launch has failed.
            TilekitError: a check of this kernel, or of one that was launched before, has failed.
        """
        if self.device.reporting:
            report_earlier(self.device)
        blocks = self._blocks(points)
        if not blocks:
            return
        if stream is None:
            chosen, others = choose(views, self.device)
        else:
            chosen, others = handle_of(stream), ()
        if others or self._watched:
            self._run_watched(values, grid, blocks, chosen, others)
        else:
            self._submit(values, grid, blocks, chosen)

    def _blocks(self, points: int) -> int:
        if self._gathers:
            blocks = -(-points // self.block_dim)
        else:
            blocks = point_blocks(points, self._threads, self.generated.together) if self._single else points
        if blocks > _MOST_BLOCKS:
            raise KernelValueError(
                f"kernel {self.name!r}: {blocks} blocks are more than the {_MOST_BLOCKS} that a launch on a GPU has; "
                "launch over parts of the grid"
            )
        return blocks

    def again(self, like: Like) -> Again | None:
        """Launches that differ in addresses and numbers; they leave to the long way those of arrays from several
        libraries whose streams differ."""
        libraries = [library for library in like.libraries if library is not None]
        if len(libraries) < len(like.libraries):
            return None
        current = current_of(libraries)
        if not self._watched:
            fill = partial(self._fill, like.values, like.grid, self._blocks(like.points), 0)
            return prepare(self, fill, like, current)

        def launch(pointers: Sequence[int], numbers: Sequence[Any], stream: Any) -> bool:
            chosen = current(self.device.ordinal) if stream is None else stream
            if chosen is not None:
                self.run(like.with_others(pointers, numbers), like.grid, like.points, (), chosen)
            return chosen is not None

        return launch

    def _fill(self, values: Sequence[Any], grid: tuple[int, ...], blocks: int, stream: int, slot: Slot) -> None:
        """Describe a launch in a slot."""
        self._pack_into(
            slot.memory, 0, blocks, *self._head, stream, 0, 0, slot.arguments, *grid, *self._tail, self._report, *values
        )

    def _submit(self, values: Sequence[Any], grid: tuple[int, ...], blocks: int, stream: int) -> None:
        try:
            slot = self._slots.pop()
        except IndexError:
            slot = Slot(self.size)
        try:
            self._fill(values, grid, blocks, stream, slot)
            self._context_of(slot.context_place)
            if slot.context.value == self.device.context:
                code = self._launch(slot.config, self.function_argument, slot.parameters, None)
            else:
                with self.device.current():
                    code = self._launch(slot.config, self.function_argument, slot.parameters, None)
        except (struct.error, TypeError, OverflowError) as error:
            raise KernelTypeError(f"kernel {self.name!r}: {error}") from None
        finally:
            self._slots.append(slot)
        if code:
            raise failures.of_launch(self, code)
        self.device.recent.append(self)

    def _run_watched(
        self, values: Sequence[Any], grid: tuple[int, ...], blocks: int, stream: int, others: Sequence[int]
    ) -> None:
        """A launch that must be ordered with other streams, or that can report."""
        mailbox = self.mailbox
        with self.device.current(), mailbox.lock if mailbox is not None and self._waits else nullcontext():
            for other in others:
                order(self.device, other, stream)
            if mailbox is not None:
                mailbox.expect((blocks,) if self._gathers else grid)
            self._submit(values, grid, blocks, stream)
            for other in others:
                order(self.device, stream, other)
            if not self._watched:
                return
            if is_capturing(self.device, stream):
                if mailbox is not None:
                    mailbox.captured = True
            elif self._waits:
                self._wait(stream)

    def _wait(self, stream: int) -> None:
        """Wait for a launch; what it reported is then complete."""
        code = self.device.driver.functions["cuStreamSynchronize"](stream)
        if code:
            raise failures.of_kernel(self, code)
        if self.mailbox is not None:
            self.mailbox.deliver(finished=True)
