"""Programs of several launches with scratch between them, on a GPU."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.emulator import gpu
from tests.on_gpu import GPUS
from tests.runtime.test_recorded_backward import product
from tests.split_sum import TILE, check, grid_of, made_for, numbers, split_sum, values_of
from tilekit.errors import KernelAssertionError
from tilekit.ir.types import int32
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cuda import devices
from tilekit.runtime.cuda.buffers import Buffer
from tilekit.runtime.cuda.host_copies import run_on_host
from tilekit.runtime.warm import Like

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]

M, N, K = 35, 21, 100
GRID = grid_of(M, N)
POINTS = GRID[0] * GRID[1]


class Held:
    """Arrays of the program's on the GPU."""

    def __init__(self, m: int = M, n: int = N, k: int = K, seed: int = 0) -> None:
        self.host = numbers(m, n, k, seed)
        self.buffers = [Buffer(array, 0) for array in self.host]

    def packed(self, chunk: int, most: int = 9) -> tuple[list[Any], list[ArrayView]]:
        return values_of(self.buffers, chunk, most)

    @property
    def pointers(self) -> list[int]:
        return [buffer.pointer for buffer in self.buffers]

    def check(self, chunk: int) -> None:
        """Also lets the next launch begin as this one has."""
        check([buffer.numpy() for buffer in self.buffers], chunk)
        for buffer, array in zip(self.buffers[2:], self.host[2:], strict=True):
            buffer.fill(array)


def made(until_backward: bool = False) -> Any:
    return made_for(Held().buffers, "cuda:0", split_sum(until_backward))


def again_of(kernel: Any, library: str) -> Any:
    values, _ = Held().packed(32)
    return kernel.again(Like(values, [0, 5, 10, 15], [(20, int32), (21, int32)], GRID, POINTS, (library,)))


def test_runs_in_order_with_scratch_of_each_run() -> None:
    kernel = made()
    for m, n, k, chunk in ((35, 21, 100, 32), (16, 37, 64, 64), (5, 5, 0, 16), (20, 20, 90, 16)):
        held, grid = Held(m, n, k), grid_of(m, n)
        values, views = held.packed(chunk)
        assert kernel.run(values, grid, grid[0] * grid[1], views, None) == {}
        held.check(chunk)


@pytest.mark.filterwarnings("ignore:.*copies the arrays:tilekit.errors.FallbackWarning")
def test_the_interpreter_runs_with_copies() -> None:
    held = Held()
    values, views = held.packed(32)
    run_on_host(made_for([], "interpret"), values, GRID, POINTS, views, None)
    held.check(32)


def test_a_failure_that_comes_later_names_its_launch() -> None:
    kernel = made()
    values, views = Held().packed(16, most=2)
    kernel.run(values, GRID, POINTS, views, None)
    with pytest.raises(KernelAssertionError, match=r"too many parts, in block .* of kernel 'add_parts'"):
        devices.device(0).synchronize()
        values, views = Held().packed(16)
        kernel.run(values, GRID, POINTS, views, None)


def test_scratch_that_lives_until_backward() -> None:
    held = Held(16, 21, 32)
    values, views = held.packed(16)
    (view,) = made(until_backward=True).run(values, (1, 2), 2, views, 0).values()
    assert (view.shape, view.strides, view.device, view.pointer % 256) == ((2 * TILE, 21), (96, 4), "cuda:0", 0)
    parts = np.empty((2 * TILE, 24), np.float32)
    devices.device(0).synchronize()
    with devices.device(0).current():
        devices.device(0).driver.call("cuMemcpyDtoH_v2", parts.ctypes.data, view.pointer, parts.nbytes)
    assert np.array_equal(parts[:TILE, :21] + parts[TILE:, :21], held.buffers[2].numpy())
    view.owner.free(0)
    assert view.owner.address == 0


@pytest.mark.skipif(gpu.emulated is None, reason="the emulator's graphs")
def test_replayed_by_the_emulator() -> None:
    """A graph has the scratch that it was captured with, zeroed at each replay."""
    kernel, held = made(), Held()
    assert gpu.emulated is not None
    with gpu.emulated.capture(7) as replay:
        values, views = held.packed(32)
        kernel.run(values, GRID, POINTS, views, 7)
    for _ in range(3):
        replay()
        held.check(32)


@pytest.mark.skipif(gpu.emulated is not None, reason="needs PyTorch on a GPU")
def test_warm_launches_graphs_and_two_streams() -> None:
    torch = pytest.importorskip("torch")
    held = [Held(seed=seed) for seed in range(2)]
    arrays = [[torch.as_tensor(array, device="cuda") for array in one.host] for one in held]
    kernel = made_for(arrays[0], "cuda:0")
    again = again_of(kernel, "torch")
    pointers = [[view_of(array).pointer for array in one] for one in arrays]

    def check_all(chunk: int) -> None:
        torch.cuda.synchronize()
        for one in arrays:
            check([array.cpu().numpy() for array in one], chunk)
            one[2].fill_(float("nan"))
            one[3].fill_(-1)

    for chunk in (32, 16, 32):
        assert all(again(one, [chunk, 9], None) for one in pointers)
        check_all(chunk)
    streams = [torch.cuda.Stream() for _ in arrays]
    torch.cuda.synchronize()
    for chunk in [16, 32] * 20:
        for one, stream in zip(pointers, streams, strict=True):
            assert again(one, [chunk, 9], stream)
    check_all(32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert all(again(one, [16, 9], None) for one in pointers)
        values, views = values_of(arrays[0], 16, 9)
        kernel.run(values, GRID, POINTS, views, None)
    for _ in range(3):
        graph.replay()
        check_all(16)


@pytest.mark.skipif(gpu.emulated is not None, reason="needs PyTorch on a GPU")
def test_recorded_backward_launches_and_graphs() -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.randint(-4, 5, shape, device="cuda").float() for shape in ((8, 12), (12, 8)))
    found, seed, out = torch.zeros_like(a), torch.zeros(8, 8, device="cuda"), torch.zeros(8, 8, device="cuda")
    command = tk.launch_tiled(
        product, dim=(2, 2), inputs=[a, b, 3, 1.0], outputs=[out], adj_inputs=[found, None, None, None],
        adj_outputs=[seed], adjoint=True, record_cmd=True,
    )  # fmt: skip

    def check_of(run: Any) -> None:
        seed.fill_(1)
        found.zero_()
        run()
        assert torch.equal(found, 2 * torch.ones_like(seed) @ b.T)
        assert not seed.any()

    for _ in range(4):
        check_of(command.launch)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        command.launch()
    for _ in range(3):
        check_of(graph.replay)


def test_launches_like_an_earlier_one() -> None:
    again = again_of(made(), "warp")
    for chunk in (32, 16, 48, 16):
        other = Held(seed=chunk)
        assert again(other.pointers, [chunk, 9], 0) is True
        other.check(chunk)


@pytest.mark.skipif(gpu.emulated is not None, reason="other processes see no emulated GPU")
def test_another_process_finds_every_launch_in_the_cache() -> None:
    made()
    code = """
    from tests.runtime.cuda.test_gpu_programs import made
    from tilekit.runtime.cuda import nvrtc

    def refuse(*args, **given):
        raise AssertionError("a launch was compiled anew")

    nvrtc.compile_cubin = nvrtc.compile_for_linking = refuse
    made()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
