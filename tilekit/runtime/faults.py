"""What running kernels report: failed checks become Python exceptions, prints go through ``sys.stdout``."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilekit.codegen.emitter import Site
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
    1: KernelIndexError, 2: KernelAssertionError, 3: UninitializedError, 4: KernelValueError,
}  # fmt: skip


class Record(ctypes.Structure):
    """``tk::Error`` of native/base.h."""

    _fields_ = [
        ("kind", ctypes.c_int32), ("line", ctypes.c_int32), ("block", ctypes.c_int64), ("index", ctypes.c_int64),
        ("extent", ctypes.c_int64), ("axis", ctypes.c_int32), ("site", ctypes.c_int32), ("lane", ctypes.c_int32),
        ("claimed", ctypes.c_int32),
    ]  # fmt: skip


class Fault:
    """A record that kernels write to, and its address."""

    __slots__ = ("address", "record")

    def __init__(self) -> None:
        self.record = Record()
        self.address = ctypes.addressof(self.record)

    def take(self) -> Record:
        """A copy of the record, which is empty afterwards."""
        copy = Record.from_buffer_copy(self.record)
        ctypes.memset(self.address, 0, ctypes.sizeof(Record))
        return copy


def current() -> Fault:
    """This thread's record: a launch that calls nothing back can share it with the ones before."""
    try:
        return _current.fault  # type: ignore[no-any-return]
    except AttributeError:
        fault: Fault = Fault()
        _current.fault = fault
        return fault


def raise_error(record: Record, generated: Generated, grid: tuple[int, ...]) -> None:
    """Raise what a kernel recorded."""
    site = generated.sites[record.site]
    where = f"block {_point(record.block, grid)}"
    if record.lane:
        where += f", lane {record.lane}"
    if site.render is not None:
        message = _current.message
    else:
        message = site.text.format(index=record.index, extent=record.extent, axis=record.axis)
    raise _KINDS[record.kind](f"{message}, in {where} of kernel {generated.function.name!r}", site.location)


def _point(block: int, grid: tuple[int, ...]) -> Any:
    point = []
    for extent in reversed(grid):
        point.append(block % extent)
        block //= extent
    return point[0] if len(point) == 1 else tuple(reversed(point))


_Callback = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)
_current = threading.local()


def _report(site: int, block: int, values: int) -> None:
    sites: Sequence[Site] = _current.sites
    try:
        text = sites[site].render(values)
        if sites[site].text:
            _current.message = text
        else:
            print(text, end="")
    except BaseException as error:  # must not pass through the kernel's frames
        _current.error = error


_callback = _Callback(_report)
_ADDRESS = ctypes.cast(_callback, ctypes.c_void_p).value or 0


@contextmanager
def reporting(sites: Sequence[Site]) -> Iterator[int]:
    """The address that kernels call to print, valid inside the block; raises what printing raised."""
    outer = getattr(_current, "sites", ())
    _current.sites = sites
    _current.error, _current.message = None, "assertion failed"
    try:
        yield _ADDRESS
    finally:
        _current.sites = outer
    if _current.error is not None:
        raise _current.error
