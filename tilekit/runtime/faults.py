"""What running kernels report: failed checks become Python exceptions, prints go through ``sys.stdout``."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilekit.codegen.refs import Site
from tilekit.errors import (
    KernelAssertionError,
    KernelIndexError,
    KernelValueError,
    TilekitError,
    UninitializedError,
)

if TYPE_CHECKING:
    from tilekit.runtime.cpu import Generated

_KINDS: dict[int, type[TilekitError]] = {
    1: KernelIndexError, 2: KernelAssertionError, 3: KernelValueError, 4: UninitializedError,
}  # fmt: skip


class Record(ctypes.Structure):
    """``tk::Error`` of native/base.h."""

    _fields_ = [
        ("kind", ctypes.c_int32), ("line", ctypes.c_int32), ("block", ctypes.c_int64), ("index", ctypes.c_int64),
        ("extent", ctypes.c_int64), ("axis", ctypes.c_int32), ("site", ctypes.c_int32), ("lane", ctypes.c_int32),
        ("claimed", ctypes.c_int32),
    ]  # fmt: skip


class Fault:
    """A record that kernels write to, its address, and what happened where they called back."""

    __slots__ = ("address", "error", "message", "record", "sites")

    def __init__(self, sites: Sequence[Site] = ()) -> None:
        self.record = Record()
        self.address = ctypes.addressof(self.record)
        self.sites = sites
        self.message = ""
        """The text of a failed assertion that shows values."""
        self.error: BaseException | None = None
        """What printing raised first."""

    def halt(self) -> None:
        """Let the kernel end: its outermost loops end with the iterations that run."""
        self.record.kind = _STOP

    @property
    def interrupted(self) -> bool:
        """Whether a signal has ended this launch, by an exception that nobody has raised yet."""
        return self.record.kind == _STOP and bool(interrupts)

    def take(self) -> Record:
        """A copy of the record, which is empty afterwards."""
        copy = Record.from_buffer_copy(self.record)
        ctypes.memset(self.address, 0, ctypes.sizeof(Record))
        return copy


def current() -> Fault:
    """This thread's record: a launch that calls nothing back can share it with the ones before."""
    if answering():  # inside a kernel that has it
        return Fault()
    try:
        return _current.fault  # type: ignore[no-any-return]
    except AttributeError:
        fault: Fault = Fault()
        _current.fault = fault
        return fault


def raise_error(fault: Fault, generated: Generated, grid: tuple[int, ...]) -> None:
    """Raise what a kernel recorded, or what was raised where it called back. ``grid`` is empty where unknown."""
    if fault.interrupted:
        raise interrupts.pop()
    if fault.error is not None:
        raise fault.error
    record = fault.take()
    site = generated.sites[record.site]
    where = f"block {_point(record.block, grid)}" if grid else f"block {record.block}, counted row by row,"
    if record.lane:
        where += f", lane {record.lane}" if grid else f" lane {record.lane}"
    if site.render is not None:
        message = fault.message
    else:
        message = site.text.format(index=record.index, extent=record.extent, axis=record.axis)
    raise _KINDS[record.kind](f"{message}, in {where} of kernel {generated.function.name!r}", site.location)


def _point(block: int, grid: tuple[int, ...]) -> Any:
    point = []
    for extent in reversed(grid):
        point.append(block % extent)
        block //= extent
    return point[0] if len(point) == 1 else tuple(reversed(point))


interrupts: list[BaseException] = []
"""What handlers of signals raised while a kernel ran on the main thread, until the launch raises it."""


def _breaths() -> Generator[int]:
    """Answers whether a kernel is to end, each time after Python had the chance to answer signals.

    Python does so as soon as it runs anything: of a function before its first line, where nothing could catch what is
    raised; of a generator inside the statement that it goes on from.
    """
    answer = 0
    while True:
        try:
            yield answer
            answer = 0
        except GeneratorExit:
            return
        except BaseException as error:
            interrupts.append(error)
            answer = 1


_breathing: Any = _breaths()
_breath = ctypes.CFUNCTYPE(ctypes.c_int)(_breathing.__next__)
_breath()
_BREATH = ctypes.cast(_breath, ctypes.c_void_p).value


def answering() -> bool:
    """Whether a handler of a signal runs inside a kernel, and what it launches runs there too."""
    return _breathing.gi_running  # type: ignore[no-any-return]


def breath_of_thread() -> int | None:
    """What kernels on this thread call now and then while they run: only the main thread answers signals, one at a
    time."""
    return _BREATH if threading.current_thread() is threading.main_thread() and not answering() else None


_STOP = -1
"""The kind that lets a kernel begin no other block, and no other iteration."""

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)
_current = threading.local()


def _report(site: int, block: int, values: int) -> None:
    fault: Fault = _current.reporting
    if fault.error is not None:  # the block runs on to its end
        return
    try:
        text = fault.sites[site].render(values)
        if fault.sites[site].text:
            fault.message = text
        else:
            print(text, end="")
    except BaseException as error:  # must not pass through the kernel's frames
        fault.error = error
        fault.record.kind = _STOP


_callback = _Callback(_report)
_ADDRESS = ctypes.cast(_callback, ctypes.c_void_p).value or 0


@contextmanager
def reporting(sites: Sequence[Site]) -> Iterator[tuple[int, Fault]]:
    """The address that kernels call to print, valid inside the block, and the record of this launch alone: what is
    called may itself launch kernels that print."""
    outer = getattr(_current, "reporting", None)
    fault = _current.reporting = Fault(sites)
    try:
        yield _ADDRESS, fault
    finally:
        _current.reporting = outer
