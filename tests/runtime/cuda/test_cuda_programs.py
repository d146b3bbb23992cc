"""Programs of several launches as the driver sees them; a stand-in for the driver records what it is told."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import pytest

from tests.runtime.cuda.fake_driver import FakeLibrary, Launched, fake as fake
from tests.runtime.mathdx import stand_in
from tests.split_sum import FORM, grid_of, numbers, split_sum, values_of
from tilekit.codegen.target import Target
from tilekit.config import config
from tilekit.errors import DeviceError
from tilekit.ir.types import int32
from tilekit.runtime.array_view import alignment_class
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cuda import loading
from tilekit.runtime.cuda.devices import device
from tilekit.runtime.cuda.generate import cuda_target, generate
from tilekit.runtime.cuda.kernel import CudaKernel
from tilekit.runtime.cuda.nvrtc import Cubin
from tilekit.runtime.cuda.scratch import DeviceMemory
from tilekit.runtime.programs import ProgramKernel, forms_of
from tilekit.runtime.specialise import program_for
from tilekit.runtime.warm import Like

GRID = grid_of(35, 21)
STREAM_ORDERED = {"cuMemAllocFromPoolAsync": 3, "cuMemFreeAsync": 1, "cuMemsetD8Async": 3}
"""Where a function has its stream."""


def made(until_backward: bool = False) -> ProgramKernel:
    """The program without machine code."""
    program, kernels = split_sum(until_backward), []
    for launch, form in zip(program.launches, forms_of(program, FORM), strict=True):
        target = cuda_target(form, "90", {})
        kernels.append(CudaKernel(generate(launch.function, target), Cubin(b"code", ""), target, device(0)))
    return ProgramKernel(program, kernels, DeviceMemory(device(0)))


def scratch_of(launched: Launched) -> tuple[int, int]:
    """The addresses of ``parts`` and ``seen`` in a launch of either kernel."""
    if launched.grid[0] == GRID[0] * GRID[1]:  # add_parts
        values = launched.values("P4qP4q")
        return values[0], values[5]
    values = launched.values("P4qP4qi4xP4qP4q")
    return values[11], values[16]


def told(fake: FakeLibrary) -> list[tuple[str, int]]:
    """The functions that were called in the order of a stream, and the stream."""
    found = []
    launches = iter(fake.launches)
    for name, *given in fake.calls:
        if name == "cuLaunchKernelEx":
            found.append((name, next(launches).stream))
        elif name in STREAM_ORDERED:
            found.append((name, given[STREAM_ORDERED[name]]))
    fake.calls.clear()
    fake.launches.clear()
    return found


ONE_RUN = ["cuMemAllocFromPoolAsync", "cuMemsetD8Async", "cuLaunchKernelEx", "cuLaunchKernelEx", "cuMemFreeAsync"]


def test_one_stream_is_told_everything_in_order(fake: FakeLibrary) -> None:
    kernel = made()
    assert kernel.written == (2, 3)
    values, _ = values_of(numbers(35, 21, 100), 32, 9)
    kernel.run(values, GRID, 6, (), 7)
    first, second = fake.launches
    assert (first.grid[0], second.grid[0]) == (6 * 4, 6)
    assert scratch_of(first) == scratch_of(second)
    assert told(fake) == [(name, 7) for name in ONE_RUN]
    assert not any(address in fake.memory for address in scratch_of(first))


def test_launches_like_an_earlier_one_have_scratch_of_their_own(fake: FakeLibrary) -> None:
    """On two streams, of two threads at once."""
    kernel = made()
    arrays = numbers(35, 21, 100)
    values, _ = values_of(arrays, 32, 9)
    like = Like(values, [0, 5, 10, 15], [(20, int32), (21, int32)], GRID, 6, ("warp",))
    again = kernel.again(like)
    assert again is not None
    pointers = [array.ctypes.data for array in arrays]
    both = threading.Barrier(2)
    fake.on_launch = lambda launched: both.wait(10) and None  # so that both hold scratch at once
    threads = [threading.Thread(target=again, args=(pointers, [32, 9], stream)) for stream in (7, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {stream: {scratch_of(one) for one in fake.launches if one.stream == stream} for stream in (7, 8)}
    assert [len(addresses) for addresses in found.values()] == [1, 1]
    assert found[7] != found[8]
    told(fake)
    fake.on_launch = lambda launched: None
    assert again(pointers, [200, 9], 7)  # one part: other grids, of a plan of its own
    assert fake.launches[0].grid[0] == 6
    assert told(fake) == [(name, 7) for name in ONE_RUN]


def test_a_graph_keeps_its_scratch(fake: FakeLibrary) -> None:
    """It is zeroed and freed at each replay, and no other run has it meanwhile."""
    kernel = made()
    values, _ = values_of(numbers(35, 21, 100), 32, 9)
    with fake.capture(7) as replay:
        kernel.run(values, GRID, 6, (), 7)
    assert not fake.launches
    seen: list[tuple[tuple[int, int], bool]] = []

    def look(launched: Launched) -> None:
        places = scratch_of(launched)
        seen.append((places, not any(ctypes.string_at(places[1], GRID[0] * 16))))

    fake.on_launch = look
    replay()
    kernel.run(values, GRID, 6, (), 8)
    replay()
    first, second, other, _, third, fourth = (places for places, _ in seen)
    assert first == second == third == fourth != other
    assert all(zeroed for _, zeroed in seen)


def test_what_outlives_the_run_is_freed_once(fake: FakeLibrary) -> None:
    kernel = made(until_backward=True)
    values, _ = values_of(numbers(35, 21, 100), 32, 9)
    (view,) = kernel.run(values, GRID, 6, (), 7).values()
    assert (view.device, view.shape) == ("cuda:0", (4 * 3 * 16, 21))
    assert view.pointer in fake.memory
    view.owner.free(9)
    assert view.pointer not in fake.memory
    (other,) = kernel.run(values, GRID, 6, (), 7).values()
    pointer = other.pointer
    told(fake)
    del view, other
    assert pointer not in fake.memory
    assert told(fake) == [("cuMemFreeAsync", 7)]


def test_memory_is_freed_in_the_capture_that_it_is_from(fake: FakeLibrary) -> None:
    """What a graph may read at each replay is not freed before, nor what it allocates after."""
    kernel = made(until_backward=True)
    values, _ = values_of(numbers(35, 21, 100), 32, 9)
    (outside,) = kernel.run(values, GRID, 6, (), 7).values()
    with fake.capture(7):
        (inside,) = kernel.run(values, GRID, 6, (), 7).values()
        (freed,) = kernel.run(values, GRID, 6, (), 7).values()
        fake.calls.clear()
        outside.owner.free(7)
        freed.owner.free(7)
        assert told(fake) == [("cuMemFreeAsync", 7)]
    inside.owner.free(7)
    assert told(fake) == []
    assert outside.pointer in fake.memory


def test_each_launch_is_linked_with_its_own_units(fake: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.install(monkeypatch)
    linked = []

    def build(source: str, name: str, target: Target, options: Any, units: Any) -> tuple[Cubin, None]:
        linked.append((name, target.arch, len(units)))
        return Cubin(b"code", ""), None

    monkeypatch.setattr(loading, "build", build)
    classes = [alignment_class(view_of(array)) for array in numbers(32, 32, 64)]
    with config.scoped(gemm="cublasdx"):
        program_for(split_sum(), FORM, "cuda:0", classes)
    assert sorted(linked) == [("add_parts", "90a", 0), ("sum_parts", "90a", 1)]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("cuMemAllocFromPoolAsync", "18688 bytes of scratch memory on cuda:0: CUDA_ERROR_2 (words)"),
        ("cuLaunchKernelEx", "kernel 'sum_parts' cannot be launched on cuda:0: CUDA_ERROR_2 (words)"),
    ],
)
def test_what_the_driver_refuses(fake: FakeLibrary, function: str, message: str) -> None:
    kernel, before = made(), set(fake.memory)
    fake.fails[function] = 2
    values, _ = values_of(numbers(35, 21, 100), 32, 9)
    with pytest.raises(DeviceError) as caught:
        kernel.run(values, GRID, 6, (), 7)
    assert caught.value.message == message
    assert set(fake.memory) == before, "what was allocated was to be freed"
