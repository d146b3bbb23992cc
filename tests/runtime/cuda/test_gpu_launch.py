"""Launches on a real GPU: results, streams, graphs, what kernels report, and other libraries' arrays."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS
from tilekit.errors import FallbackWarning, KernelAssertionError, KernelIndexError, KernelValueError
from tilekit.runtime.cuda.buffers import Buffer

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]


NOWHERE = 1 << 14
"""An address that neither a GPU nor the host maps: the first pages are nobody's."""


@tk.kernel
def axpy(a: float, x: tk.array1d[float], y: tk.array1d[float]):
    i = tk.tid()
    y[i] = a * x[i] + y[i]


@tk.kernel
def doubled(a: tk.array2d[float], out: tk.array2d[float]):
    i, j = tk.tid()
    tk.tile_store(out, 2.0 * tk.tile_load(a, shape=(8, 16), offset=(i * 8, j * 16)), offset=(i * 8, j * 16))


def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return found


def test_buffers_alone() -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    there = [Buffer(x, 0), Buffer(y, 0)]
    tk.launch(axpy, dim=1000, inputs=[2.0, there[0]], outputs=[there[1]])
    assert np.array_equal(there[1].numpy(), 2 * x + y)


def test_in_a_process_without_any_library() -> None:
    code = """
        import sys, numpy as np, tilekit as tk
        from tests.runtime.cuda.test_gpu_launch import Buffer, axpy
        y = Buffer(np.ones(5, np.float32), 0)
        tk.launch(axpy, dim=5, inputs=[2.0, y], outputs=[y])
        assert (y.numpy() == 3).all()
        assert not {"warp", "torch", "cupy"} & set(sys.modules), "a library was imported"
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("rows", "columns"), [(8, 16), (37, 53), (1, 1), (64, 1000)])
def test_tensors_of_any_layout(rows: int, columns: int) -> None:
    t = torch()
    base = t.arange(float(4 * (rows + 1) * (columns + 1)), device="cuda").reshape(2 * rows + 2, 2 * columns + 2)
    layouts = [
        base[:rows, :columns].contiguous(),
        base[1 : rows + 1, 1 : columns + 1],
        base[::2, ::2][:rows, :columns],
        base.T.contiguous().T[:rows, :columns],
        base[:1, :columns].expand(rows, columns),
    ]
    for a in layouts:
        out = t.full((rows, columns), -1.0, device="cuda")
        tk.launch_tiled(doubled, dim=(-(-rows // 8), -(-columns // 16)), inputs=[a], outputs=[out], block_dim=64)
        assert t.equal(out, 2 * a)
        across = t.full((columns, rows), -1.0, device="cuda").T
        tk.launch_tiled(doubled, dim=(-(-rows // 8), -(-columns // 16)), inputs=[a], outputs=[across], block_dim=64)
        assert t.equal(across, 2 * a)


def test_negative_strides() -> None:
    cupy = pytest.importorskip("cupy")
    a = cupy.arange(37 * 53, dtype=np.float32).reshape(37, 53)
    out = cupy.zeros_like(a)
    tk.launch_tiled(doubled, dim=(5, 4), inputs=[a[::-1, ::-1]], outputs=[out[::-1]], block_dim=64)
    assert bool((out == 2 * a[:, ::-1]).all())


def test_the_version_of_written_tensors() -> None:
    t = torch()
    x, y = t.ones(4, device="cuda"), t.ones(4, device="cuda")
    before = x._version, y._version
    tk.launch(axpy, dim=4, inputs=[1.0, x, y])
    assert (x._version, y._version) == (before[0], before[1] + 1)
    with t.inference_mode():
        z = t.ones(4, device="cuda")
        tk.launch(axpy, dim=4, inputs=[1.0, x], outputs=[z])
    assert z.tolist() == [2.0] * 4


def test_autograd_notices() -> None:
    t = torch()
    x = t.ones(4, device="cuda", requires_grad=True)
    y = t.ones(4, device="cuda")
    loss = (x * y).sum()
    tk.launch(axpy, dim=4, inputs=[1.0, t.ones(4, device="cuda"), y])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def busy(t: Any) -> None:
    """Keep the current stream at work for some milliseconds."""
    t.cuda._sleep(20_000_000)


def test_the_current_stream_of_pytorch() -> None:
    t = torch()
    x, y = t.zeros(1 << 16, device="cuda"), t.zeros(1 << 16, device="cuda")
    t.cuda.synchronize()
    side = t.cuda.Stream()
    with t.cuda.stream(side):
        busy(t)
        x.fill_(1.0)
        tk.launch(axpy, dim=len(x), inputs=[3.0, x], outputs=[y])
        y.add_(1.0)
    side.synchronize()
    assert bool((y == 4).all())


def test_a_stream_that_is_given() -> None:
    t = torch()
    x, y = t.zeros(1 << 16, device="cuda"), t.zeros(1 << 16, device="cuda")
    t.cuda.synchronize()
    side = t.cuda.Stream()
    with t.cuda.stream(side):
        busy(t)
        x.fill_(1.0)
    tk.launch(axpy, dim=len(x), inputs=[3.0, x], outputs=[y], stream=side)
    side.synchronize()
    assert bool((y == 3).all())


def test_two_libraries_on_two_streams() -> None:
    t, cupy = torch(), pytest.importorskip("cupy")
    y = t.zeros(1 << 16, device="cuda")
    with cupy.cuda.Stream(non_blocking=True) as other:
        x = cupy.zeros(1 << 16, dtype=np.float32)
        other.synchronize()
        with t.cuda.stream(t.cuda.ExternalStream(other.ptr)):
            busy(t)
        x += 1
        tk.launch(axpy, dim=len(x), inputs=[3.0, x], outputs=[y])
        x *= 0  # must come after the launch
        assert bool((y == 3).all())
        other.synchronize()


@pytest.mark.parametrize("warm", [True, False])
def test_a_graph_of_pytorch(warm: bool) -> None:
    t = torch()
    axpy.cache.clear()
    x, y = t.ones(100, device="cuda"), t.zeros(100, device="cuda")
    if warm:
        tk.launch(axpy, dim=100, inputs=[1.0, x], outputs=[y])
        y.zero_()
    gc.collect()  # memory of tests before, which may not be freed while a graph is captured
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        tk.launch(axpy, dim=100, inputs=[2.0, x], outputs=[y])
        tk.launch(axpy, dim=100, inputs=[1.0, x], outputs=[y])
    for count in range(3):
        t.cuda.synchronize()
        assert bool((y == 3.0 * count).all())
        graph.replay()


def warp() -> Any:
    found = pytest.importorskip("warp")
    if not found.get_cuda_device_count():
        pytest.skip("Warp sees no GPU")
    return found


@pytest.mark.parametrize("warm", [True, False])
def test_a_graph_of_warp(warm: bool) -> None:
    wp = warp()
    axpy.cache.clear()
    with wp.ScopedDevice("cuda:0"):
        x, y = wp.ones(100, dtype=float), wp.zeros(100, dtype=float)
        if warm:
            tk.launch(axpy, dim=100, inputs=[1.0, x], outputs=[y])
            y.zero_()
        with wp.ScopedCapture() as capture:
            tk.launch(axpy, dim=100, inputs=[2.0, x], outputs=[y])
        for count in range(3):
            assert (y.numpy() == 2.0 * count).all()
            wp.capture_launch(capture.graph)


def test_warp_arrays_and_streams() -> None:
    wp = warp()
    x, y = wp.ones(1000, dtype=float, device="cuda:0"), wp.zeros(1000, dtype=float, device="cuda:0")
    with wp.ScopedStream(wp.Stream("cuda:0")):
        tk.launch(axpy, dim=1000, inputs=[2.0, x], outputs=[y])
        assert (y.numpy() == 2).all()


@tk.kernel
def checks(limit: int, out: tk.array1d[int]):
    i = tk.tid()
    assert i < limit, f"{i} is not below {limit}"
    out[i] = i


@tk.kernel
def plain(limit: int, out: tk.array1d[int]):
    i = tk.tid()
    assert i < limit, "too many"
    out[i] = i


def test_an_assertion_that_shows_values() -> None:
    out = Buffer(np.zeros(64, np.int32), 0)
    with pytest.raises(KernelAssertionError, match="63 is not below 63, in block 63"):
        tk.launch(checks, dim=64, inputs=[63], outputs=[out])
    tk.launch(checks, dim=64, inputs=[64], outputs=[out])
    tk.synchronize()


def test_an_assertion_is_raised_later() -> None:
    out = Buffer(np.zeros(64, np.int32), 0)
    tk.launch(plain, dim=64, inputs=[10], outputs=[out])
    with pytest.raises(KernelAssertionError, match="too many, in block"):
        tk.synchronize()
    tk.launch(plain, dim=64, inputs=[64], outputs=[out])
    assert out.numpy().tolist() == list(range(64))
    tk.synchronize()


def test_checked_mode_finds_the_index() -> None:
    out = Buffer(np.zeros(10, np.int32), 0)
    with tk.config.scoped(checked=True), pytest.raises(KernelIndexError, match=r"test_gpu_launch.py:\d+: index 10"):
        tk.launch(plain, dim=11, inputs=[100], outputs=[out], block_dim=32)
    assert out.numpy().tolist() == list(range(10))


@tk.kernel
def prints(a: tk.array1d[float]):
    i = tk.tid()
    t = tk.tile_load(a, shape=3, offset=i * 3)
    print("block", i, t)


def test_prints(capsys: pytest.CaptureFixture[str]) -> None:
    a = np.arange(9, dtype=np.float32)
    tk.launch_tiled(prints, dim=3, inputs=[a], block_dim=32)
    expected = capsys.readouterr().out
    tk.launch_tiled(prints, dim=3, inputs=[Buffer(a, 0)], block_dim=32)
    assert capsys.readouterr().out == expected and "block 2" in expected


def test_the_interpreter() -> None:
    x, y = Buffer(np.arange(9, dtype=np.float32), 0), Buffer(np.ones(9, np.float32), 0)
    with pytest.warns(FallbackWarning, match="copies the arrays on cuda:0"):
        tk.launch(axpy, dim=9, inputs=[2.0, x], outputs=[y], device="interpret")
    assert y.numpy().tolist() == [2 * i + 1 for i in range(9)]


def test_an_illegal_access_names_the_kernel() -> None:
    """In a process of its own, whose context is lost."""
    code = """
        import numpy as np, tilekit as tk
        from tests.runtime.cuda.test_gpu_launch import NOWHERE, Buffer, axpy
        from tilekit.errors import DeviceError
        from tilekit.runtime.array_view import ArrayView
        y = Buffer(np.ones(5, np.float32), 0)
        wild = ArrayView(NOWHERE, (5,), (4,), tk.float32, "cuda:0")
        try:
            tk.launch(axpy, dim=5, inputs=[2.0, wild], outputs=[y])
            tk.synchronize()
        except DeviceError as error:
            print(error)
        try:
            tk.launch(axpy, dim=5, inputs=[2.0, y], outputs=[y])
        except DeviceError as error:
            print("again:", error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kernel 'axpy' failed on cuda:0: CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout
    assert "test_gpu_launch.py:" in done.stdout and "again:" in done.stdout


@pytest.mark.skipif(GPUS < 2, reason="needs two CUDA devices")
def test_two_gpus() -> None:
    data = np.arange(1000, dtype=np.float32)
    pairs = [(Buffer(data, ordinal), Buffer(data, ordinal)) for ordinal in (1, 0)]
    for x, y in pairs:
        tk.launch(axpy, dim=1000, inputs=[2.0, x], outputs=[y])
    assert all(np.array_equal(y.numpy(), 3 * data) for _, y in pairs)
    with pytest.raises(KernelValueError, match="is on cuda:0, other arguments on cuda:1"):
        tk.launch(axpy, dim=1000, inputs=[2.0, pairs[0][0]], outputs=[pairs[1][1]])


@pytest.mark.skipif(GPUS < 2, reason="needs two CUDA devices")
def test_the_second_gpu_while_the_first_is_current() -> None:
    t = torch()
    x, y = t.ones(100, device="cuda:1"), t.zeros(100, device="cuda:1")
    assert t.cuda.current_device() == 0
    tk.launch(axpy, dim=100, inputs=[2.0, x], outputs=[y])
    assert t.cuda.current_device() == 0
    assert bool((y == 2).all())


def test_arrays_beyond_two_gib() -> None:
    t = torch()
    if t.cuda.mem_get_info()[0] < 10 << 30:
        pytest.skip("needs 10 GiB of memory on the GPU")
    rows = (1 << 31) // 4096 + 8
    x = t.zeros((rows, 1024), device="cuda")
    y = t.zeros((rows, 1024), device="cuda")
    x[-8:] = t.arange(8 * 1024.0, device="cuda").reshape(8, 1024)
    tk.launch_tiled(doubled, dim=(rows // 8, 64), inputs=[x], outputs=[y], block_dim=64)
    assert t.equal(y[-8:], 2 * x[-8:]) and not bool(y[:-8].any())


def test_points_beyond_two_gib() -> None:
    t = torch()
    size = (1 << 30) + 1003  # 4 GiB each
    if t.cuda.mem_get_info()[0] < 16 << 30:
        pytest.skip("needs 16 GiB of memory on the GPU")
    x, y = t.zeros(size, device="cuda"), t.zeros(size, device="cuda")
    for start in (0, size // 2 - 500, size - 1003):
        x[start : start + 1003] = t.arange(1003.0, device="cuda")
    tk.launch(axpy, dim=size, inputs=[2.0, x], outputs=[y])
    assert t.equal(y, 2 * x)


def test_dlpack_alone() -> None:
    t = torch()

    class Capsule:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.tensor.__dlpack__(stream=stream)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    x, y = t.ones(100, device="cuda"), t.zeros(100, device="cuda")
    tk.launch(axpy, dim=100, inputs=[2.0, Capsule(x)], outputs=[Capsule(y)])
    assert bool((y == 2).all())
