"""Launches on a GPU as the driver sees them; a stand-in for the driver records them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.cuda.fake_driver import FakeLibrary, fake as fake
from tilekit.codegen.target import Target
from tilekit.errors import DeviceError, KernelTypeError, KernelValueError
from tilekit.ir.context import LaunchForm
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cpu import Generated
from tilekit.runtime.cuda.devices import device
from tilekit.runtime.cuda.kernel import CudaKernel
from tilekit.runtime.cuda.nvrtc import Cubin


@tk.kernel
def scaled(a: tk.array2d[float], factor: float, out: tk.array1d[tk.int64], flag: bool):
    if flag:
        out[tk.tid()] = tk.int64(factor * a[0, 0])


def made(
    tiled: bool = True, ordinal: int = 0, checked: bool = False, shared: int = 0, ndim: int = 1, **given: Any
) -> CudaKernel:
    function = scaled.trace(scaled.default_types(), LaunchForm(tiled, 1, 256))
    generated = Generated(function, "", shared, (), False, threads=224, **given)
    target = Target("cuda", "90a", 200, tiled, ndim, checked=checked)
    return CudaKernel(generated, Cubin(b"code", ""), target, device(ordinal))


def arguments(ordinal: int = 0) -> tuple[list[Any], list[ArrayView]]:
    views = [view_of(np.zeros((4, 6), np.float32)), view_of(np.zeros(8, np.int64))]
    for view in views:
        view.device = f"cuda:{ordinal}"
    a, out = views
    return [a.pointer, 4, 6, 24, 4, 2.5, out.pointer, 8, 8, True], views


def test_what_the_driver_is_told(fake: FakeLibrary) -> None:
    values, views = arguments()
    made(shared=512, ndim=2).run(values, (3, 5), 15, views, None)
    (launched,) = fake.launches
    assert (launched.grid, launched.block, launched.shared) == ((15, 1, 1), (224, 1, 1), 512)
    assert (launched.stream, launched.function) == (0, 0x88)
    dims = struct.unpack_from("4q2iP", launched.arguments)
    assert dims[:2] == (3, 5) and dims[-2:] == (200, 0)
    assert launched.values("P4qf4xP2q?7x") == tuple(values)


@pytest.mark.parametrize(
    ("tiled", "lanes", "points", "blocks"), [(True, None, 450, 450), (False, None, 450, 3), (False, 200, 400, 2)]
)
def test_the_grid(fake: FakeLibrary, tiled: bool, lanes: int | None, points: int, blocks: int) -> None:
    values, views = arguments()
    made(tiled, lanes=lanes).run(values, (points,), points, views, None)
    assert fake.launches[0].grid == (blocks, 1, 1)


def test_a_launch_without_points_is_none(fake: FakeLibrary) -> None:
    values, views = arguments()
    made().run(values, (0,), 0, views, None)
    assert not fake.launches


def test_more_blocks_than_a_grid_has(fake: FakeLibrary) -> None:
    values, views = arguments()
    with pytest.raises(KernelValueError) as caught:
        made().run(values, (65536, 65537), 65536 * 65537, views, None)
    assert str(caught.value) == (
        "kernel 'scaled': 4295032832 blocks are more than the 2147483647 that a launch on a GPU has; launch over parts "
        "of the grid"
    )
    assert made(False)._blocks(65536 * 65537) == -(-65536 * 65537 // 224)


def test_the_last_block_may_lack_lanes(fake: FakeLibrary) -> None:
    values, views = arguments()
    made(False, lanes=200).run(values, (300,), 300, views, None)
    assert fake.launches[0].grid == (2, 1, 1)


def test_a_warm_launch_asks_for_the_context_and_launches(fake: FakeLibrary) -> None:
    kernel = made()
    values, views = arguments()
    with device(0).current():
        fake.names()
        kernel.run(values, (1,), 1, views, None)
    assert fake.names()[:2] == ["cuCtxGetCurrent", "cuLaunchKernelEx"]


def test_the_device_is_current_whatever_was_before(fake: FakeLibrary) -> None:
    second = made(ordinal=1)
    values, views = arguments(1)
    second.run(values, (1,), 1, views, None)
    with device(0).current():
        second.run(values, (1,), 1, views, None)
    assert [launched.context for launched in fake.launches] == [device(1).context] * 2
    assert device(1).context != device(0).context


def test_loading_does_not_disturb_a_capture(fake: FakeLibrary) -> None:
    device(0)
    fake.names()
    made()
    names = fake.names()
    assert names[0] == names[-1] == "cuThreadExchangeStreamCaptureMode"
    assert "cuModuleLoadData" in names


def test_much_shared_memory_is_asked_for(fake: FakeLibrary) -> None:
    made(shared=48 << 10)
    assert "cuFuncSetAttribute" not in fake.names()
    made(shared=100 << 10)
    assert ("cuFuncSetAttribute", 0x88, 8, 100 << 10) in fake.calls
    with pytest.raises(KernelValueError, match="needs 300000 bytes of shared memory a block, but cuda:0 has 232448"):
        made(shared=300000)


def test_values_that_do_not_pack(fake: FakeLibrary) -> None:
    kernel = made()
    values, views = arguments()
    with pytest.raises(KernelTypeError, match="kernel 'scaled'"):
        kernel.run([*values[:-1], True, 1], (1,), 1, views, None)
    kernel.run(values, (1,), 1, views, None)
    assert len(fake.launches) == 1


def test_a_checked_launch_is_waited_for_and_named(fake: FakeLibrary) -> None:
    kernel = made(checked=True)
    values, views = arguments()
    kernel.run(values, (1,), 1, views, 7)
    assert ("cuStreamSynchronize", 7) in fake.calls
    fake.fails["cuStreamSynchronize"] = 700
    with pytest.raises(DeviceError, match=r"test_cuda_kernel.py:\d+: kernel 'scaled' failed on cuda:0: CUDA_ERROR_700"):
        kernel.run(values, (1,), 1, views, 7)


def test_a_capture_is_not_waited_for(fake: FakeLibrary) -> None:
    kernel = made(checked=True)
    values, views = arguments()
    fake.capturing.add(7)
    kernel.run(values, (1,), 1, views, 7)
    assert "cuStreamSynchronize" not in fake.names()


def test_a_lost_context_names_what_was_launched_last(fake: FakeLibrary) -> None:
    first, second = made(), made(tiled=False)
    second.name = "second"
    values, views = arguments()
    for kernel in (first, second, first):
        kernel.run(values, (1,), 1, views, None)
    fake.fails["cuLaunchKernelEx"] = 700
    with pytest.raises(DeviceError) as caught:
        second.run(values, (1,), 1, views, None)
    text = str(caught.value)
    assert text.index("'scaled' (") < text.index("'second' (")
    assert "tk.config.checked = True" in text and "start again" in text
    fake.fails["cuCtxSynchronize"] = 700
    with pytest.raises(DeviceError, match="a kernel failed on cuda:0"):
        tk.synchronize()


def test_a_refused_launch(fake: FakeLibrary) -> None:
    kernel = made()
    values, views = arguments()
    fake.fails["cuLaunchKernelEx"] = 701
    with pytest.raises(DeviceError, match="kernel 'scaled' cannot be launched on cuda:0: CUDA_ERROR_701"):
        kernel.run(values, (1,), 1, views, None)
