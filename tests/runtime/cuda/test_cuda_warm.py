"""Warm launches on a GPU as the driver sees them: all that may differ is put in, nothing of an earlier one stays."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tests.runtime.cuda.fake_driver import FakeLibrary, fake as fake
from tilekit.errors import DeviceError, KernelAssertionError, KernelTypeError
from tilekit.runtime import arrays, launch
from tilekit.runtime.cuda import streams
from tilekit.runtime.cuda.devices import device
from tilekit.runtime.warm import Warm

pytestmark = needs_nvrtc


@tk.kernel
def scaled(a: tk.array2d[float], factor: float, none: tk.array1d[float], n: tk.int64, out: tk.array2d[float]):
    i = tk.tid()
    row = tk.tile_load(a, shape=(1, 4), offset=(i, 0))
    tk.tile_store(out, row * factor + tk.float32(n), offset=(i, 0))


@tk.kernel
def checked(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    assert a[i] >= 0.0, "negative"
    out[i] = a[i]


class Memory:
    """An array of a library that a test makes up: CuPy's, by its name."""

    def __init__(self, array: np.ndarray[Any, Any], ordinal: int = 0) -> None:
        self.array = array
        self.data = SimpleNamespace(ptr=array.ctypes.data)
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.device = SimpleNamespace(id=ordinal)


Memory.__module__, Memory.__name__ = "cupy", "ndarray"


@pytest.fixture(autouse=True)
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The current stream of each device."""
    found = [70, 71]
    cuda = SimpleNamespace(get_current_stream=lambda ordinal: SimpleNamespace(ptr=found[ordinal]))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    for kernel in (scaled, checked):
        kernel.cache.clear()
    yield found
    for known in (arrays._converters, arrays.readers, arrays.library_of):
        known.pop(Memory, None)  # type: ignore[attr-defined]


def matrix(rows: int = 4, shift: int = 0, ordinal: int = 0) -> Memory:
    memory = np.zeros(4 * rows + 8, np.float32)
    start = -memory.ctypes.data % 16 // 4 + shift
    return Memory(memory[start : start + 4 * rows].reshape(rows, 4), ordinal)


def go(a: Memory, out: Memory, factor: Any = 2.5, n: Any = 3, **options: Any) -> None:
    tk.launch_tiled(scaled, dim=4, inputs=[a, factor, None, n], outputs=[out], block_dim=64, **options)


def is_warm() -> bool:
    return any(type(found) is Warm for found in scaled.cache.known.values())


def parameters(a: Memory, factor: float, n: int, out: Memory) -> tuple[Any, ...]:
    return (a.data.ptr, *a.shape, *a.strides, factor, n, out.data.ptr, *out.shape, *out.strides)


def test_it_is_what_a_cold_launch_is(fake: FakeLibrary, stream: list[int]) -> None:
    a, out = matrix(), matrix()
    for _ in range(5):
        go(a, out)
    assert is_warm()
    first, *others = fake.launches
    assert first.grid == (4, 1, 1) and first.stream == 70
    assert first.values("P4qf4xqP4q") == parameters(a, 2.5, 3, out)
    for launched in others:
        assert launched.arguments[:200] == first.arguments[:200]
        assert (launched.grid, launched.block, launched.shared) == (first.grid, first.block, first.shared)
        assert (launched.stream, launched.function, launched.context) == (70, first.function, first.context)


def test_it_asks_for_the_context_and_launches(fake: FakeLibrary) -> None:
    a, out = matrix(), matrix()
    for _ in range(4):
        go(a, out)
    with device(0).current():
        fake.names()
        go(a, out)
    assert fake.names()[:2] == ["cuCtxGetCurrent", "cuLaunchKernelEx"]


def test_addresses_numbers_and_streams_are_those_of_the_launch(fake: FakeLibrary, stream: list[int]) -> None:
    for index in range(8):
        a, out = matrix(), matrix()
        stream[0] = 80 + index
        go(a, out, index + 0.5, -index)
        assert fake.launches[-1].values("P4qf4xqP4q") == parameters(a, index + 0.5, -index, out)
        assert fake.launches[-1].stream == 80 + index
    go(a, out, stream=5)
    assert fake.launches[-1].stream == 5
    assert is_warm()


def test_shapes_and_alignment_are_looked_at(fake: FakeLibrary) -> None:
    for rows, shift in [(4, 0), (4, 0), (4, 0), (5, 0), (4, 1), (4, 1), (4, 1), (4, 0), (5, 0)]:
        a, out = matrix(rows, shift), matrix()
        go(a, out)
        assert fake.launches[-1].values("P4qf4xqP4q") == parameters(a, 2.5, 3, out)
    classes = {key[5] for key in scaled.cache}
    assert len(classes) == 2  # aligned, and not


def test_another_device(fake: FakeLibrary) -> None:
    for ordinal in (0, 1) * 4:
        go(matrix(ordinal=ordinal), matrix(ordinal=ordinal))
        assert fake.launches[-1].context == device(ordinal).context
        assert fake.launches[-1].stream == 70 + ordinal
    for _ in range(4):
        with pytest.raises(ValueError, match="is on cuda:1, other arguments on cuda:0"):
            go(matrix(ordinal=0), matrix(ordinal=1))
        with pytest.raises(ValueError, match="the launch is on 'cuda:1', but"):
            go(matrix(), matrix(), device="cuda:1")


def test_arrays_of_two_libraries_are_ordered_every_time(fake: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their streams may differ at one launch and not at the next."""

    class Other(Memory):
        pass

    Other.__module__, Other.__name__ = "cupy", "ndarray"
    go(matrix(), matrix())
    monkeypatch.setitem(arrays._converters, Other, arrays._converters[Memory])  # type: ignore[index]
    monkeypatch.setitem(arrays.readers, Other, arrays.readers[Memory])  # type: ignore[index]
    monkeypatch.setitem(arrays.library_of, Other, "warp")
    warps = [90]
    monkeypatch.setitem(streams.CURRENT, "warp", lambda ordinal: warps[0])
    for current in (90, 90, 90, 70, 70, 91, 70):
        warps[0] = current
        fake.names()
        go(Other(matrix().array), matrix())
        if current == 70:
            assert is_warm()
        assert fake.names().count("cuStreamWaitEvent") == (0 if current == 70 else 2)
        assert fake.launches[-1].stream == 70


def test_numbers_that_do_not_fit(fake: FakeLibrary) -> None:
    for _ in range(4):
        go(matrix(), matrix())
    for _ in range(2):
        with pytest.raises(KernelTypeError, match="'n' of kernel 'scaled': 9223372036854775808 does not fit int64"):
            go(matrix(), matrix(), n=2**63)
    go(matrix(), matrix(), factor=1e300)
    assert fake.launches[-1].values("P4qf")[5] == float("inf")


def test_a_refused_launch(fake: FakeLibrary) -> None:
    for _ in range(4):
        go(matrix(), matrix())
    fake.fails["cuLaunchKernelEx"] = 701
    with pytest.raises(DeviceError, match="kernel 'scaled' cannot be launched on cuda:0"):
        go(matrix(), matrix())
    fake.fails.clear()
    go(matrix(), matrix())
    assert len(fake.launches) == 5


def test_a_recorded_launch(fake: FakeLibrary, stream: list[int]) -> None:
    a, out = matrix(), matrix()
    command = tk.launch_tiled(
        scaled, dim=4, inputs=[a, 2.5, None, 3], outputs=[out], block_dim=64, stream=9, record_cmd=True
    )
    assert command is not None and not fake.launches
    for given in (None, 4, None):
        for _ in range(4):
            command.launch(given)
            assert fake.launches[-1].stream == (given or 9)
            assert fake.launches[-1].values("P4qf4xqP4q") == parameters(a, 2.5, 3, out)
    a.data = SimpleNamespace(ptr=a.data.ptr + 4)
    command.launch()
    assert fake.launches[-1].values("P4qf4xqP4q") == parameters(a, 2.5, 3, out)
    command.set_param_at_index(1, 7.0)
    command.launch()
    assert fake.launches[-1].values("P4qf4xqP4q") == parameters(a, 7.0, 3, out)


def test_a_kernel_with_checks_leaves_word(fake: FakeLibrary) -> None:
    a, out = Memory(np.zeros(4, np.float32)), Memory(np.zeros(4, np.float32))
    for _ in range(5):
        tk.launch(checked, dim=4, inputs=[a], outputs=[out])
    (mailbox,) = device(0).reporting
    assert [(launched.report, launched.stream) for launched in fake.launches] == [(mailbox.address, 70)] * 5
    mailbox.fault.record.kind = 2
    with pytest.raises(KernelAssertionError):
        tk.launch(checked, dim=4, inputs=[a], outputs=[out])


def test_threads_do_not_mix_their_arguments(fake: FakeLibrary) -> None:
    go(matrix(), matrix())
    wrong: list[Any] = []
    seen = threading.local()
    fake.on_launch = lambda launched: seen.__dict__.update(values=launched.values("P4qf4xqP4q"))

    def work(number: int) -> None:
        for count in range(40):
            a, out = matrix(), matrix()
            go(a, out, float(number), count)
            if seen.values != parameters(a, float(number), count, out):
                wrong.append(seen.values)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and is_warm()


def described(launched: Any) -> tuple[Any, ...]:
    how = (launched.grid, launched.block, launched.shared, launched.stream, launched.function, launched.context)
    return launched.arguments[:200], *how


def test_the_quick_way_is_the_long_way(fake: FakeLibrary, stream: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of few kinds in random order, each of them both ways."""
    random = np.random.default_rng(0)
    pool = [matrix(rows, shift, ordinal) for rows in (4, 7) for shift in (0, 1) for ordinal in (0, 1)]
    pool += [Memory(memory.array[::-1], memory.device.id) for memory in pool[:2]]
    real = launch.launch_again
    for step in range(400):
        ordinal = int(random.integers(2))
        mine = [memory for memory in pool if memory.device.id == ordinal]
        a, out = (mine[int(index)] for index in random.integers(len(mine), size=2))
        numbers: dict[str, Any] = {"factor": float(random.normal()), "n": int(random.integers(-5, 5))}
        options = [{}, {"stream": step}, {"device": f"cuda:{ordinal}"}][int(random.integers(3))]
        stream[:] = [int(number) for number in random.integers(1, 99, size=2)]
        for reader in (real, lambda *given: None):
            monkeypatch.setattr(launch, "launch_again", reader)
            go(a, out, **numbers, **options)
        ways = [described(launched) for launched in fake.launches[-2:]]
        assert ways[0] == ways[1]
    assert sum(type(found) is Warm for found in scaled.cache.known.values()) > 20
