"""The NVIDIA driver as asked through its C interface; a stand-in answers where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from tilekit.runtime import nvidia


class FakeDriver:
    """What ``libcuda`` would answer; arguments are the objects that ``byref`` wraps."""

    def __init__(self, init: int = 0, count: int = 1) -> None:
        self.init, self.count = init, count

    def cuDriverGetVersion(self, out: Any) -> int:
        out._obj.value = 13020
        return 0

    def cuInit(self, flags: int) -> int:
        return self.init

    def cuDeviceGetCount(self, out: Any) -> int:
        out._obj.value = self.count
        return 0

    def cuDeviceGet(self, out: Any, index: int) -> int:
        out._obj.value = index
        return 0

    def cuDeviceGetName(self, buffer: Any, length: int, device: Any) -> int:
        buffer.value = b"NVIDIA H200"
        return 0

    def cuDeviceTotalMem_v2(self, out: Any, device: Any) -> int:
        out._obj.value = 140 << 30
        return 0

    def cuDeviceGetAttribute(self, out: Any, attribute: int, device: Any) -> int:
        out._obj.value = {75: 9, 76: 0}[attribute]
        return 0

    def cuGetErrorName(self, code: int, out: Any) -> int:
        out._obj.value = b"CUDA_ERROR_NO_DEVICE" if code == 100 else None
        return 0 if code == 100 else 1


def test_devices() -> None:
    driver = nvidia._ask(FakeDriver(count=2))  # type: ignore[arg-type]
    assert driver.cuda == (13, 2)
    assert driver.reason == ""
    assert [gpu.device for gpu in driver.gpus] == ["cuda:0", "cuda:1"]
    assert driver.gpus[1] == nvidia.Gpu(1, "NVIDIA H200", (9, 0), 140 << 30)


@pytest.mark.parametrize(
    ("fake", "reason"),
    [
        (FakeDriver(init=100), "the NVIDIA driver offers no device (CUDA_ERROR_NO_DEVICE)"),
        (FakeDriver(init=999), "the NVIDIA driver offers no device (error 999)"),
        (FakeDriver(count=0), "the NVIDIA driver offers no device"),
    ],
)
def test_a_driver_without_devices(fake: FakeDriver, reason: str) -> None:
    driver = nvidia._ask(fake)  # type: ignore[arg-type]
    assert (driver.gpus, driver.reason) == ((), reason)


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "LIBRARY", "libthat-nobody-has.so.1")
    assert nvidia.find_driver().reason == "no NVIDIA driver is installed"


@pytest.mark.gpu
def test_this_machines_driver() -> None:
    driver = nvidia.find_driver()
    assert driver.gpus, driver.reason
    assert driver.gpus[0].capability >= (5, 0)
    assert driver.gpus[0].memory > 1 << 28
