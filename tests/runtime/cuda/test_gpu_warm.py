"""Launches like earlier ones on a real GPU: in graphs, among streams, on several GPUs, without waiting."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.cuda.test_gpu_launch import GPUS, axpy, busy, doubled, plain, torch, warp
from tilekit.errors import KernelAssertionError
from tilekit.runtime.cuda.devices import device
from tilekit.runtime.cuda.driver import FUNCTIONS
from tilekit.runtime.warm import Warm

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]

SIZE = 1 << 16


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    for kernel in (axpy, doubled, plain, last_bytes, row_sums):
        kernel.cache.clear()


@tk.kernel
def last_bytes(a: tk.array1d[tk.uint8], start: tk.int64, out: tk.array1d[tk.uint8]):
    i = tk.tid()
    tk.tile_store(out, tk.tile_load(a, shape=16, offset=start + tk.int64(i * 16)), offset=i * 16)


@tk.kernel
def row_sums(a: tk.array2d[tk.float16], out: tk.array1d[float]):
    i = tk.tid()
    total = tk.float32(0.0)
    for j in range(a.shape[1]):
        total += tk.float32(a[i, j])
    out[i] = total


def is_warm(kernel: Any) -> bool:
    return any(type(found) is Warm for found in kernel.cache.known.values())


def test_warm_launches_give_what_cold_ones_do() -> None:
    t = torch()
    for step in range(6):
        a = t.arange(37.0 * 53, device="cuda").reshape(37, 53) + step
        out = t.full((37, 53), -1.0, device="cuda")
        tk.launch_tiled(doubled, dim=(5, 4), inputs=[a], outputs=[out], block_dim=64)
        assert t.equal(out, 2 * a)
    assert is_warm(doubled)


def test_views_in_turn_while_warm() -> None:
    """Misaligned, transposed, with gaps, repeated: each is read as it is, whatever the launch before it was."""
    t = torch()
    base = t.arange(80.0 * 120, device="cuda").reshape(80, 120)
    flat = base.reshape(-1)
    views = [
        base[:37, :53],
        base[1:38, 1:54],
        base[:53, :37].T,
        base[:74:2, :106:2],
        flat[3 : 3 + 37 * 53].reshape(37, 53),
        flat[4 : 4 + 37 * 53].reshape(37, 53),
        base[2:39, :1].expand(37, 53),
        base[:1, 5:58].expand(37, 53),
    ]
    for view in views * 4:
        out = t.full((37, 53), -1.0, device="cuda")
        tk.launch_tiled(doubled, dim=(5, 4), inputs=[view], outputs=[out], block_dim=64)
        assert t.equal(out, 2 * view)


@pytest.mark.parametrize("shift", range(8))
def test_misaligned_halves(shift: int) -> None:
    t = torch()
    a = t.arange(8 * 24 + 8, device="cuda").to(t.float16)[shift : shift + 8 * 24].reshape(8, 24)
    out = t.zeros(8, device="cuda")
    for _ in range(4):
        out.zero_()
        tk.launch(row_sums, dim=8, inputs=[a], outputs=[out])
        assert t.equal(out, a.float().sum(1))


def test_negative_strides_while_warm() -> None:
    cupy = pytest.importorskip("cupy")
    a = cupy.arange(37 * 53, dtype=np.float32).reshape(37, 53)
    for view in [a, a[::-1], a[:, ::-1], a[::-1, ::-1]] * 4:
        out = cupy.zeros_like(a)
        tk.launch_tiled(doubled, dim=(5, 4), inputs=[view], outputs=[out[::-1]], block_dim=64)
        assert bool((out[::-1] == 2 * view).all())


def test_a_warm_launch_neither_waits_nor_allocates_nor_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    t = torch()
    x, y = t.ones(SIZE, device="cuda"), t.zeros(SIZE, device="cuda")
    for _ in range(4):
        tk.launch(axpy, dim=SIZE, inputs=[1.0, x], outputs=[y])
    t.cuda.synchronize()
    unwanted = ("cuMemAlloc", "cuMemHostAlloc", "cuMemcpy", "cuModule", "cuStreamSync", "cuCtxSync")
    for name in FUNCTIONS:
        if name.startswith(unwanted):
            monkeypatch.delitem(device(0).driver.functions, name)
    allocated = t.cuda.memory_stats()["allocation.all.allocated"]
    t.cuda._sleep(1_000_000_000)  # about half a second
    began = time.perf_counter()
    for _ in range(100):
        tk.launch(axpy, dim=SIZE, inputs=[1.0, x], outputs=[y])
    took = time.perf_counter() - began
    assert not t.cuda.current_stream().query(), "the GPU was to be at work still"
    assert took < 0.2
    monkeypatch.undo()
    t.cuda.synchronize()
    assert t.cuda.memory_stats()["allocation.all.allocated"] == allocated
    assert bool((y == 104).all())


def test_a_graph_of_pytorch_with_new_data() -> None:
    t = torch()
    x, y = t.ones(SIZE, device="cuda"), t.zeros(SIZE, device="cuda")
    command = tk.launch(axpy, dim=SIZE, inputs=[10.0, x], outputs=[y], record_cmd=True)
    assert command is not None
    for _ in range(4):
        tk.launch(axpy, dim=SIZE, inputs=[1.0, x], outputs=[y])
        command.launch()
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        y.zero_()
        tk.launch(axpy, dim=SIZE, inputs=[2.0, x], outputs=[y])
        command.launch()
        y.add_(1.0)
    for value in (3.0, 5.0, 7.0):
        x.fill_(value)
        graph.replay()
        assert bool((y == 12 * value + 1).all())


def test_a_graph_of_warp_with_new_data() -> None:
    wp = warp()
    with wp.ScopedDevice("cuda:0"):
        x, y = wp.ones(SIZE, dtype=float), wp.zeros(SIZE, dtype=float)
        for _ in range(4):
            tk.launch(axpy, dim=SIZE, inputs=[1.0, x], outputs=[y])
        with wp.ScopedCapture() as capture:
            y.zero_()
            tk.launch(axpy, dim=SIZE, inputs=[2.0, x], outputs=[y])
            tk.launch(axpy, dim=SIZE, inputs=[1.0, x], outputs=[y])
        for value in (3.0, 5.0):
            x.fill_(value)
            wp.capture_launch(capture.graph)
            assert (y.numpy() == 3 * value).all()


def test_a_check_in_a_graph() -> None:
    """What a graph's kernel reports comes with the next wait, at every replay that fails."""
    t = torch()
    out = t.zeros(64, dtype=t.int32, device="cuda")
    for _ in range(4):
        tk.launch(plain, dim=64, inputs=[64], outputs=[out])
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        tk.launch(plain, dim=64, inputs=[60], outputs=[out])
    tk.synchronize()
    for _ in range(2):
        graph.replay()
        with pytest.raises(KernelAssertionError, match="too many, in block"):
            tk.synchronize()


def test_pytorch_and_warp_on_two_streams() -> None:
    """The launch comes after what either stream was told before, and before what it is told next."""
    t, wp = torch(), warp()
    x, side = t.zeros(SIZE, device="cuda"), t.cuda.Stream()
    y = wp.zeros(SIZE, dtype=float, device="cuda:0")
    t.cuda.synchronize()
    wp.synchronize()
    with wp.ScopedStream(wp.Stream("cuda:0")), t.cuda.stream(side):
        for step in range(1, 6):
            busy(t)
            x.fill_(float(step))
            y.fill_(100.0)
            tk.launch(axpy, dim=SIZE, inputs=[2.0, x], outputs=[y])
            busy(t)
            x.zero_()
            assert (y.numpy() == 100.0 + 2 * step).all()
    side.synchronize()


def test_two_streams_of_pytorch_ordered_by_an_event() -> None:
    t = torch()
    x, y = t.zeros(SIZE, device="cuda"), t.zeros(SIZE, device="cuda")
    t.cuda.synchronize()
    first, second = t.cuda.Stream(), t.cuda.Stream()
    for step in range(1, 6):
        with t.cuda.stream(first):
            busy(t)
            x.fill_(float(step))
            done = first.record_event()
        second.wait_event(done)
        with t.cuda.stream(second):
            tk.launch(axpy, dim=SIZE, inputs=[1.0, x], outputs=[y])
        first.wait_event(second.record_event())
    t.cuda.synchronize()
    assert bool((y == 15).all())


def test_versions_of_tensors_while_warm() -> None:
    t = torch()
    x, y = t.ones(4, device="cuda"), t.ones(4, device="cuda")
    command = tk.launch(axpy, dim=4, inputs=[1.0, x, y], record_cmd=True)
    assert command is not None
    before = x._version, y._version
    for _ in range(5):
        tk.launch(axpy, dim=4, inputs=[1.0, x, y])
        command.launch()
    assert (x._version, y._version) == (before[0], before[1] + 10)
    saved = t.ones(4, device="cuda", requires_grad=True)
    loss = (saved * y).sum()
    tk.launch(axpy, dim=4, inputs=[1.0, x, y])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_tensors_of_inference_mode_while_warm() -> None:
    t = torch()
    with t.inference_mode():
        x, y = t.ones(4, device="cuda"), t.zeros(4, device="cuda")
        for _ in range(5):
            tk.launch(axpy, dim=4, inputs=[1.0, x], outputs=[y])
        assert y.tolist() == [5.0] * 4


def test_a_thread_that_has_used_no_gpu_yet() -> None:
    t = torch()
    x, y = t.ones(SIZE, device="cuda"), t.zeros(SIZE, device="cuda")
    for _ in range(4):
        tk.launch(axpy, dim=SIZE, inputs=[1.0, x], outputs=[y])
    t.cuda.synchronize()
    thread = threading.Thread(target=lambda: tk.launch(axpy, dim=SIZE, inputs=[1.0, x], outputs=[y]))
    thread.start()
    thread.join()
    t.cuda.synchronize()
    assert bool((y == 5).all())


def test_memory_that_is_reused_waits_for_the_launch() -> None:
    """A tensor that is let go right after its launch: PyTorch gives its memory to the next one of the same stream."""
    t = torch()
    y = t.zeros(SIZE, device="cuda")
    for step in range(1, 20):
        tk.launch(axpy, dim=SIZE, inputs=[1.0, t.full((SIZE,), float(step), device="cuda")], outputs=[y])
        t.full((SIZE,), 1e9, device="cuda")
    assert bool((y == sum(range(1, 20))).all())


def test_offsets_beyond_two_gib() -> None:
    t = torch()
    size = (1 << 32) + 4096
    if t.cuda.mem_get_info()[0] < size + (1 << 30):
        pytest.skip("needs 5 GiB of memory on the GPU")
    a = t.zeros(size, dtype=t.uint8, device="cuda")
    a[-64:] = t.arange(64, device="cuda").to(t.uint8)
    out = t.zeros(64, dtype=t.uint8, device="cuda")
    for _ in range(4):
        out.zero_()
        tk.launch_tiled(last_bytes, dim=4, inputs=[a, size - 64], outputs=[out], block_dim=32)
        assert out.tolist() == list(range(64))


def test_strides_beyond_two_gib() -> None:
    t = torch()
    columns = (1 << 30) + 16
    if t.cuda.mem_get_info()[0] < 3 * 4 * columns:
        pytest.skip("needs 13 GiB of memory on the GPU")
    a = t.zeros((2, columns), device="cuda")
    a[:, -16:] = t.arange(32.0, device="cuda").reshape(2, 16)
    view, out = a[:, -16:], t.zeros((2, 16), device="cuda")
    for given in (view, view.T.contiguous().T, view):
        out.zero_()
        tk.launch_tiled(doubled, dim=(1, 1), inputs=[given], outputs=[out], block_dim=64)
        assert t.equal(out, 2 * view)


def test_an_illegal_access_among_several_kernels() -> None:
    """The message names those that it may have been, with their lines; Python goes on."""
    code = """
        import os, sys, torch, tilekit as tk
        from tests.runtime.cuda.test_gpu_launch import NOWHERE, axpy, plain
        from tilekit.errors import DeviceError
        from tilekit.runtime.array_view import ArrayView
        x, y = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
        n = torch.zeros(64, dtype=torch.int32, device="cuda")
        wild = ArrayView(NOWHERE, (64,), (4,), tk.float32, "cuda:0")
        for _ in range(4):
            tk.launch(axpy, dim=64, inputs=[2.0, x], outputs=[y])
            tk.launch(plain, dim=64, inputs=[64], outputs=[n])
        try:
            tk.launch(axpy, dim=64, inputs=[2.0, wild], outputs=[y])
            tk.synchronize()
        except DeviceError as error:
            print(error)
        with tk.config.scoped(device="cpu"):
            host = torch.ones(64)
            tk.launch(axpy, dim=64, inputs=[2.0, host], outputs=[host])
        print("on the host:", host[0].item())
        sys.stdout.flush()
        os._exit(0)  # PyTorch's own clean-up may end in an error where the context is lost
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout and "the latest first: 'axpy' (" in done.stdout
    assert "'plain' (" in done.stdout and "test_gpu_launch.py:" in done.stdout
    assert "on the host: 3.0" in done.stdout


@pytest.mark.skipif(GPUS < 2, reason="needs two CUDA devices")
def test_two_gpus_in_turn_while_warm() -> None:
    t = torch()
    pairs = [(t.ones(SIZE, device=f"cuda:{n}"), t.zeros(SIZE, device=f"cuda:{n}")) for n in (0, 1)]
    for step in range(1, 6):
        for x, y in pairs:
            tk.launch(axpy, dim=SIZE, inputs=[1.0, x], outputs=[y])
            assert bool((y == step).all())
    assert t.cuda.current_device() == 0


@pytest.mark.skipif(GPUS < 2, reason="needs two CUDA devices")
def test_a_graph_on_the_second_gpu() -> None:
    t = torch()
    with t.cuda.device(1):
        x, y = t.ones(SIZE, device="cuda"), t.zeros(SIZE, device="cuda")
        tk.launch(axpy, dim=SIZE, inputs=[1.0, x], outputs=[y])
        graph = t.cuda.CUDAGraph()
        with t.cuda.graph(graph):
            tk.launch(axpy, dim=SIZE, inputs=[2.0, x], outputs=[y])
        y.zero_()
        graph.replay()
        assert bool((y == 2).all())
