"""Streams, strides and lifetimes of other libraries' arrays; devices; what is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.cases.everywhere import everywhere, launch
from tests.nvrtc import needs_nvrtc
from tests.on_gpu import GPUS
from tests.runtime.cuda.fake_driver import FakeLibrary, fake as fake
from tests.runtime.cuda.test_cuda_launch import pair
from tilekit.errors import DeviceError
from tilekit.runtime.cuda import nvrtc

ROOT = Path(__file__).parents[2]
needs_a_gpu = pytest.mark.skipif(not GPUS, reason="needs a CUDA device")


@tk.kernel
def halved(a: tk.array4d[float], out: tk.array4d[float]):
    n, c, y, x = tk.tid()
    out[n, c, y, x] = 0.5 * a[n, c, y, x]


@tk.kernel
def halved_tiles(a: tk.array4d[float], out: tk.array4d[float]):
    n, y = tk.tid()
    tk.tile_store(out, 0.5 * tk.tile_load(a, shape=(1, 4, 1, 8), offset=(n, 0, y, 0)), offset=(n, 0, y, 0))


@everywhere
@pytest.mark.parametrize("tiled", [True, False])
def test_images_in_another_order(tiled: bool, device: str) -> None:
    """Permuted input, an output that keeps its strides, and a copy that nobody else holds."""
    images = np.arange(2 * 5 * 7 * 3, dtype=np.float32).reshape(2, 5, 7, 3).transpose(0, 3, 1, 2)
    for a in (images, images[:, ::-1, :, 1:], np.ascontiguousarray(images)):
        out = np.zeros_like(a)  # which keeps the order of the axes
        dim = (a.shape[0], a.shape[2]) if tiled else a.shape
        launch(halved_tiles if tiled else halved, device, [np.array(a, order="K")], [out], dim=dim, tiled=tiled)
        np.testing.assert_array_equal(out, a / 2)


@tk.kernel
def add_to(x: tk.array1d[float], y: tk.array1d[float]):
    i = tk.tid()
    y[i] = y[i] + x[i]


def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return found


@pytest.mark.gpu
@needs_a_gpu
def test_arrays_that_die_while_a_stream_uses_them() -> None:
    """A thousand times: a slow kernel before, then a launch on an array that nobody holds any longer."""
    t = torch()
    side, y = t.cuda.Stream(), t.zeros(1 << 12, device="cuda")
    t.cuda.synchronize()
    with t.cuda.stream(side):
        for step in range(1000):
            t.cuda._sleep(20_000)
            tk.launch(add_to, dim=len(y), inputs=[t.full((1 << 12,), float(step % 7), device="cuda")], outputs=[y])
            t.full((1 << 12,), 1e6, device="cuda")  # in the same memory, if that was let go too early
    side.synchronize()
    assert bool((y == sum(step % 7 for step in range(1000))).all())


@pytest.mark.gpu
@needs_a_gpu
def test_a_launch_on_the_default_stream_while_pytorch_captures() -> None:
    """PyTorch's streams do not wait for the default one: the launch runs at once, and is not part of the graph."""
    t = torch()
    x, y = t.ones(64, device="cuda"), t.zeros(64, device="cuda")
    tk.launch(add_to, dim=64, inputs=[x], outputs=[y])
    t.cuda.synchronize()
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        tk.launch(add_to, dim=64, inputs=[x], outputs=[y])
        tk.launch(add_to, dim=64, inputs=[x], outputs=[y], stream=t.cuda.default_stream())
    t.cuda.synchronize()
    assert bool((y == 2).all())
    graph.replay()
    t.cuda.synchronize()
    assert bool((y == 3).all())


@pytest.mark.gpu
@needs_a_gpu
def test_a_launch_on_the_default_stream_while_one_that_waits_for_it_is_captured() -> None:
    """In a process of its own: the driver ends the capture. The message says where to launch instead."""
    pytest.importorskip("cupy")
    code = """
        import cupy, tilekit as tk
        from tests.cases.test_interop_cases import add_to
        from tilekit.errors import DeviceError
        x, y = cupy.ones(64, dtype="float32"), cupy.zeros(64, dtype="float32")
        tk.launch(add_to, dim=64, inputs=[x], outputs=[y])
        stream = cupy.cuda.Stream()
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
        try:
            tk.launch(add_to, dim=64, inputs=[x], outputs=[y], stream=cupy.cuda.Stream.null)
        except DeviceError as error:
            print(error)
        try:
            stream.end_capture()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            print("the capture:", error)
        print("ended")
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True)
    assert "launch on that one (stream=...)" in run.stdout, run.stdout + run.stderr
    assert "ended" in run.stdout


@needs_nvrtc
def test_a_launch_that_a_capture_forbids_says_so(fake: FakeLibrary) -> None:
    a, out = pair()
    fake.fails["cuLaunchKernelEx"] = 906
    with pytest.raises(DeviceError, match=r"the default stream cannot be used .* launch on that one \(stream=\.\.\.\)"):
        tk.launch(add_to, dim=4, inputs=[a], outputs=[out])


@needs_nvrtc
def test_each_device_has_code_of_its_own(fake: FakeLibrary) -> None:
    """One process, several GPUs: what was loaded on one is never launched on another."""
    for ordinal in (1, 0, 1, 0):
        a, out = pair(ordinal)
        tk.launch(add_to, dim=4, inputs=[a], outputs=[out])
    contexts = [launched.context for launched in fake.launches]
    assert contexts[0] == contexts[2] != contexts[1] == contexts[3]
    assert len(contexts) == 4
    assert [call[0] for call in fake.calls].count("cuModuleLoadData") == 2


@pytest.mark.gpu
@pytest.mark.skipif(GPUS < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("visible", ["0,1", "1,0", "1"])
def test_two_gpus_in_any_order(visible: str) -> None:
    code = """
        import numpy as np, tilekit as tk
        from tests.cases.test_interop_cases import add_to
        from tests.on_gpu import GPUS
        from tilekit.runtime.cuda.buffers import Buffer
        for ordinal in (*range(GPUS), *reversed(range(GPUS))):
            x, y = (Buffer(np.full(100, ordinal + 1, np.float32), ordinal) for _ in range(2))
            tk.launch(add_to, dim=100, inputs=[x], outputs=[y])
            assert (y.numpy() == 2 * ordinal + 2).all()
        print(GPUS, "right")
    """
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": visible}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.stdout.split() == [str(len(visible.split(","))), "right"], run.stdout + run.stderr


def test_a_newer_compiler_than_the_driver_gives_code_the_driver_can_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code, never PTX that the driver may not know; across major versions a message names both."""
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 5))
    nvrtc.check_driver(13000)
    with pytest.raises(DeviceError) as raised:
        nvrtc.check_driver(12080)
    text = str(raised.value)
    assert "NVRTC 13.5" in text and "CUDA 12.8" in text and ("update the driver" in text or "install" in text)
