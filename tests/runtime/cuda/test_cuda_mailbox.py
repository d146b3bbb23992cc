"""What kernels leave in their mailbox: the test writes as the GPU would."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import pytest

import tilekit as tk
from tests.runtime.cuda.fake_driver import FakeLibrary, Launched, fake as fake
from tilekit.codegen.refs import Site
from tilekit.codegen.target import Target
from tilekit.errors import KernelAssertionError, KernelIndexError, Location
from tilekit.ir.context import LaunchForm
from tilekit.runtime.cpu import Generated
from tilekit.runtime.cuda.devices import device
from tilekit.runtime.cuda.kernel import CudaKernel
from tilekit.runtime.cuda.mailbox import HEAD, RING_BYTES
from tilekit.runtime.cuda.nvrtc import Cubin
from tilekit.runtime.faults import Record


def shown(address: int) -> str:
    """The text of an int32 and, 4 bytes after its address, an int64."""
    first, second = (ctypes.c_void_p * 2).from_address(address)
    low = ctypes.c_int32.from_address(first or 0).value
    return f"{low} {ctypes.c_int64.from_address((second or 0) + 4).value}\n"


HERE = Location("kernels.py", 7)
PRINT = Site("", HERE, shown, ((0, 4), (4, 8)))
SHOWN = Site("assertion", HERE, shown, ((0, 4), (4, 8)))
PLAIN = Site("too many", HERE)
INDEX = Site("index {index} is outside axis {axis} of {extent}", HERE)


@tk.kernel
def nothing(n: int):
    tk.tile_zeros(shape=n) if False else None


def kernel(*sites: Site, ordinal: int = 0, ndim: int = 1) -> CudaKernel:
    function = nothing.trace(nothing.default_types(), LaunchForm(True, ndim, 32))
    target = Target("cuda", "90a", 32, ndim=ndim)
    return CudaKernel(Generated(function, "", 0, sites, False, threads=32), Cubin(b"", ""), target, device(ordinal))


def fails(kind: int, site: int, block: int = 0, **fields: int) -> Callable[[Launched], None]:
    def write(launched: Launched) -> None:
        record = Record.from_address(launched.report)
        record.kind, record.site, record.block = kind, site, block
        for name, value in fields.items():
            setattr(record, name, value)

    return write


def counter(launched: Launched, number: int) -> ctypes.c_uint32:
    """``written``, ``capacity`` or ``lost``."""
    return ctypes.c_uint32.from_address(launched.report + HEAD - 16 + 4 * number)


def prints(*entries: tuple[int, int, int, int]) -> Callable[[Launched], None]:
    """Records of (site, block, an int32, an int64)."""

    def write(launched: Launched) -> None:
        data = b"".join(struct.pack("iiqi4xq", site, 16, block, low, high) for site, block, low, high in entries)
        ctypes.memmove(launched.report + HEAD, data, len(data))
        counter(launched, 0).value += len(data)

    return write


def run(given: CudaKernel, grid: tuple[int, ...] = (4,), stream: Any = None) -> None:
    points = 1
    for extent in grid:
        points *= extent
    given.run([5], grid, points, [], stream)


def test_prints_come_in_the_order_of_blocks(fake: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    given = kernel(PRINT)
    fake.on_launch = prints((0, 2, 20, 1 << 40), (0, 0, 1, -1), (0, 2, 21, 3))
    run(given)
    assert capsys.readouterr().out == f"1 -1\n20 {1 << 40}\n21 3\n"
    fake.on_launch = lambda launched: None
    run(given)
    assert capsys.readouterr().out == ""
    assert not device(0).reporting


def test_prints_that_do_not_fit(fake: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    def overflow(launched: Launched) -> None:
        prints((0, 0, 1, 2), (-1, 0, 0, 0))(launched)
        counter(launched, 0).value = RING_BYTES + 100
        counter(launched, 2).value = 3

    fake.on_launch = overflow
    run(kernel(PRINT))
    found = capsys.readouterr().out
    assert found == f"1 2\n... 3 prints of kernel 'nothing' are lost: {RING_BYTES} bytes of values fit a launch\n"


def test_an_assertion_is_raised_by_the_next_launch(fake: FakeLibrary) -> None:
    given, other = kernel(PLAIN, ndim=2), kernel()
    fake.on_launch = fails(2, 0, block=5)
    run(given, (2, 3))
    assert "cuStreamSynchronize" not in fake.names()
    fake.on_launch = lambda launched: None
    with pytest.raises(KernelAssertionError, match=r"kernels.py:7: too many, in block \(1, 2\) of kernel 'nothing'"):
        run(other)
    run(other)
    tk.synchronize()


def test_synchronize_raises_what_was_found(fake: FakeLibrary) -> None:
    fake.on_launch = fails(1, 0, index=9, extent=4, axis=1, lane=3)
    run(kernel(INDEX, ordinal=1))
    with pytest.raises(KernelIndexError, match="index 9 is outside axis 1 of 4, in block 0, lane 3 of kernel"):
        tk.synchronize()
    tk.synchronize()
    assert not device(1).reporting


def test_launches_over_different_grids(fake: FakeLibrary) -> None:
    """Which of them failed is not known, so the block is given by its number."""
    given = kernel(PLAIN, ndim=2)
    run(given, (2, 3))
    fake.on_launch = fails(2, 0, block=5)
    run(given, (6, 1))
    with pytest.raises(KernelAssertionError, match="in block 5, counted row by row, of kernel"):
        tk.synchronize()


def test_an_assertion_that_shows_values(fake: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    def both(launched: Launched) -> None:
        prints((1, 3, 30, 31), (0, 0, 1, 2), (1, 1, 10, 11))(launched)
        fails(2, 1, block=1)(launched)

    fake.on_launch = both
    with pytest.raises(KernelAssertionError, match="10 11"):
        run(kernel(PRINT, SHOWN))
    assert capsys.readouterr().out == "1 2\n"


def test_an_error_while_printing_leaves_the_mailbox_empty(fake: FakeLibrary) -> None:
    def broken(address: int) -> str:
        raise OSError("closed")

    given = kernel(Site("", HERE, broken, ()))
    fake.on_launch = prints((0, 0, 1, 2))
    with pytest.raises(OSError, match="closed"):
        run(given)
    fake.on_launch = lambda launched: None
    run(given)


def test_under_capture_nothing_is_waited_for(fake: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    fake.capturing.add(9)
    fake.on_launch = prints((0, 0, 1, 2))
    given = kernel(PRINT)
    run(given, stream=9)
    assert "cuStreamSynchronize" not in fake.names()
    tk.synchronize()
    assert capsys.readouterr().out == "1 2\n"
    prints((0, 0, 3, 4))(fake.launches[0])  # as when the graph is replayed
    tk.synchronize()
    assert capsys.readouterr().out == "3 4\n"
