"""The driver's functions and the devices behind them."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from tests.runtime.cuda.fake_driver import FakeLibrary, fake as fake
from tilekit.errors import DeviceError
from tilekit.runtime import nvidia
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cuda import driver
from tilekit.runtime.cuda.buffers import Buffer
from tilekit.runtime.cuda.devices import current_ordinal, device, opened
from tilekit.runtime.cuda.slots import ARGUMENTS, Slot


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "LIBRARY", "libthat-nobody-has.so.1")
    driver.driver.cache_clear()
    with pytest.raises(DeviceError, match="no NVIDIA driver is installed, so kernels run on 'cpu'"):
        driver.driver()


def test_a_driver_that_is_too_old() -> None:
    with pytest.raises(DeviceError, match="the NVIDIA driver is too old: it has no cuInit; update it"):
        driver.Driver(SimpleNamespace())


def test_failures_name_what_failed(fake: FakeLibrary) -> None:
    found = device(0).driver
    fake.fails["cuMemAlloc_v2"] = 2
    with pytest.raises(DeviceError, match=r"^cuMemAlloc_v2: CUDA_ERROR_2 \(words\)$"):
        found.pointer("cuMemAlloc_v2", 100)
    fake.fails["cuMemAlloc_v2"] = 3
    with pytest.raises(DeviceError, match="cannot be used in a process forked from one that uses it"):
        found.pointer("cuMemAlloc_v2", 100)


def test_devices_are_opened_once(fake: FakeLibrary) -> None:
    first, second = device(0), device(1)
    assert device(1) is second and opened() == [first, second]
    assert (first.name, second.name, first.context != second.context) == ("cuda:0", "cuda:1", True)
    assert first.capability == (9, 0) and first.max_shared == 227 << 10
    assert repr(second) == "<Device cuda:1, compute capability 9.0>"


def test_the_current_device(fake: FakeLibrary) -> None:
    assert current_ordinal() == 0
    with device(1).current():
        assert current_ordinal() == 1
        with device(0).current():
            assert current_ordinal() == 0
        assert current_ordinal() == 1


def test_arguments_made_beforehand_reach_c_whole() -> None:
    """The functions of every launch have no types to make them by."""
    for letters in map(driver.FUNCTIONS.get, driver.MADE_BEFOREHAND):
        assert letters is not None and set(letters) == {"P"}
    slot, number = Slot(64), (1 << 64) - 3
    copy = ctypes.CDLL(None).memcpy  # as the driver's: without types
    copy(slot.config, ctypes.byref(ctypes.c_uint64(number)), 8)
    assert slot.words[0] == number
    slot.words[ARGUMENTS // 8] = number - 1
    copy(slot.parameters, ctypes.c_void_p.from_param(slot.arguments), 8)
    assert slot.words[ARGUMENTS // 8 - 1] == number - 1
    copy(slot.context_place, ctypes.byref(ctypes.c_uint64(number)), 8)
    assert slot.context.value == number


def test_the_mode_of_captures_is_given_back(fake: FakeLibrary) -> None:
    modes: list[int] = []

    def exchange(mode: int) -> int:
        modes.append(ctypes.c_int.from_address(mode).value)
        ctypes.c_int.from_address(mode).value = 1
        return 0

    found = device(0).driver
    found.functions["cuThreadExchangeStreamCaptureMode"] = lambda mode: exchange(ctypes.addressof(mode._obj))
    with pytest.raises(ValueError, match="inside"), found.relaxed():
        raise ValueError("inside")
    assert modes == [2, 1]


def test_buffers(fake: FakeLibrary) -> None:
    data = np.arange(6, dtype=np.float16).reshape(2, 3).T
    buffer = Buffer(data, 1)
    view = view_of(buffer)
    assert (view.shape, view.strides, view.device, view.owner) == ((3, 2), (4, 2), "cuda:1", buffer)
    assert np.array_equal(buffer.numpy(), data)
    assert len(fake.memory) == 1
    del buffer, view
    assert not fake.memory
    assert Buffer(np.zeros((0, 3)), 0).numpy().shape == (0, 3)
