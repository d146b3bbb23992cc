"""A CUDA driver for machines without one: its functions are Python, and its GPUs' memory is the host's."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tilekit.frontend import module_options
from tilekit.runtime.cuda import devices, driver, streams

_CONFIG = struct.Struct("7I4xPPI4x")
ATTRIBUTES = {75: 9, 76: 0, 97: 227 << 10, 16: 132}
FUNCTION_ATTRIBUTES = {0: 1024, 1: 0, 3: 0, 4: 32}
GARBAGE = 0xAB
"""The bytes of memory that was allocated in the order of a stream, and of what was freed so."""


@dataclass
class Launched:
    """One call of cuLaunchKernelEx."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    function: int
    context: int
    arguments: bytes

    @property
    def report(self) -> int:
        """The address of the mailbox."""
        return int(struct.unpack_from("P", self.arguments, 40)[0])

    def values(self, letters: str) -> tuple[Any, ...]:
        """The parameters."""
        return struct.unpack_from(letters, self.arguments, 48)


def put(kind: Any, address: int, value: int) -> int:
    kind.from_address(address).value = value
    return 0


@dataclass
class FakeLibrary:
    """What ``libcuda`` would be."""

    count: int = 2
    argument_bytes: int = 256
    fails: dict[str, int] = field(default_factory=dict)
    """What a function returns instead of doing anything."""
    capturing: set[int] = field(default_factory=set)
    on_launch: Callable[[Launched], None] = lambda launched: None
    launches: list[Launched] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    memory: dict[int, Any] = field(default_factory=dict)
    graphs: dict[int, list[Callable[[], object]]] = field(default_factory=dict)
    """What each stream that is being captured was told."""

    def __post_init__(self) -> None:
        self._here = threading.local()
        for name, letters in driver.FUNCTIONS.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *(driver._TYPES[letter] for letter in letters))
            setattr(self, name, kind(self._answer(name)))

    def _answer(self, name: str) -> Callable[..., int]:
        def answer(*arguments: Any) -> int:
            given = tuple(argument or 0 for argument in arguments)
            self.calls.append((name, *given))
            return self.fails.get(name) or getattr(self, f"_{name}", lambda *given: 0)(*given) or 0

        return answer

    def names(self) -> list[str]:
        """The functions called so far; the list begins anew."""
        found = [call[0] for call in self.calls]
        self.calls.clear()
        return found

    @contextmanager
    def capture(self, stream: int) -> Iterator[Callable[[], None]]:
        """Record what the stream is told inside; what is given runs it, as often as one likes."""
        nodes = self.graphs[stream] = []
        self.capturing.add(stream)

        def replay() -> None:
            for node in nodes:
                node()

        try:
            yield replay
        finally:
            self.capturing.discard(stream)
            del self.graphs[stream]

    def _told(self, stream: int, what: Callable[[], object]) -> None:
        """What a stream is told: run now, or recorded."""
        if stream in self.graphs:
            self.graphs[stream].append(what)
        else:
            what()

    def _stack(self) -> list[int]:
        if not hasattr(self._here, "stack"):
            self._here.stack = []
        return self._here.stack  # type: ignore[no-any-return]

    def _allocate(self, address: int, size: int) -> int:
        memory = ctypes.create_string_buffer(size + 256)
        place = -ctypes.addressof(memory) % 256 + ctypes.addressof(memory)
        self.memory[place] = memory
        return put(ctypes.c_void_p, address, place)

    def _cuDriverGetVersion(self, out: int) -> int:
        return put(ctypes.c_int, out, 13000)

    def _cuDeviceGetCount(self, out: int) -> int:
        return put(ctypes.c_int, out, self.count)

    def _cuDeviceGet(self, out: int, ordinal: int) -> int:
        return put(ctypes.c_int, out, ordinal + 10)

    def _cuDeviceGetAttribute(self, out: int, number: int, handle: int) -> int:
        return put(ctypes.c_int, out, ATTRIBUTES[number])

    def _cuDevicePrimaryCtxRetain(self, out: int, handle: int) -> int:
        return put(ctypes.c_void_p, out, 0x1000 * handle)

    def _cuCtxGetCurrent(self, out: int) -> int:
        return put(ctypes.c_void_p, out, self._stack()[-1] if self._stack() else 0)

    def _cuCtxGetDevice(self, out: int) -> int:
        return put(ctypes.c_int, out, self._stack()[-1] // 0x1000 - 10)

    def _cuCtxPushCurrent_v2(self, context: int) -> None:
        self._stack().append(context)

    def _cuCtxPopCurrent_v2(self, out: int) -> int:
        return put(ctypes.c_void_p, out, self._stack().pop())

    def _cuModuleLoadData(self, out: int, code: int) -> int:
        return put(ctypes.c_void_p, out, 0x77)

    def _cuModuleGetFunction(self, out: int, module: int, name: bytes) -> int:
        return put(ctypes.c_void_p, out, 0x88)

    def _cuFuncGetAttribute(self, out: int, number: int, function: int) -> int:
        return put(ctypes.c_int, out, FUNCTION_ATTRIBUTES[number])

    def _cuMemHostAlloc(self, out: int, size: int, flags: int) -> int:
        return self._allocate(out, size)

    def _cuMemHostGetDevicePointer_v2(self, out: int, host: int, flags: int) -> int:
        return put(ctypes.c_void_p, out, host)

    def _cuMemAlloc_v2(self, out: int, size: int) -> int:
        return self._allocate(out, size)

    def _cuMemFree_v2(self, address: int) -> None:
        self.memory.pop(address)

    def _cuMemPoolCreate(self, out: int, properties: int) -> int:
        kinds = struct.unpack_from("4i", ctypes.string_at(properties, 88))
        return 1 if kinds[:3] != (1, 0, 1) else put(ctypes.c_void_p, out, 0x66 + kinds[3])

    def _cuMemAllocFromPoolAsync(self, out: int, size: int, pool: int, stream: int) -> int:
        self._allocate(out, size)
        place = ctypes.c_void_p.from_address(out).value
        self._told(stream, lambda: ctypes.memset(place, GARBAGE, size))
        return 0

    def _cuMemFreeAsync(self, address: int, stream: int) -> int:
        memory = self.memory.get(address)
        if memory is None:
            return 1
        if stream not in self.graphs:  # else the graph keeps it
            self.memory.pop(address)
        self._told(stream, lambda: ctypes.memset(memory, GARBAGE, ctypes.sizeof(memory)))
        return 0

    def _cuMemsetD8Async(self, address: int, value: int, size: int, stream: int) -> None:
        self._told(stream, lambda: ctypes.memset(address, value, size))

    def _cuMemcpyHtoD_v2(self, to: int, source: int, size: int) -> None:
        ctypes.memmove(to, source, size)

    def _cuMemcpyDtoH_v2(self, to: int, source: int, size: int) -> None:
        ctypes.memmove(to, source, size)

    def _cuEventCreate(self, out: int, flags: int) -> int:
        return put(ctypes.c_void_p, out, 0x99)

    def _cuStreamIsCapturing(self, stream: int, out: int) -> int:
        return put(ctypes.c_int, out, int(stream in self.capturing))

    def _cuGetErrorName(self, code: int, out: int) -> int:
        self._text = ctypes.c_char_p(f"CUDA_ERROR_{code}".encode())
        return put(ctypes.c_char_p, out, self._text.value)  # type: ignore[arg-type]

    def _cuGetErrorString(self, code: int, out: int) -> int:
        self._words = ctypes.c_char_p(b"words")
        return put(ctypes.c_char_p, out, self._words.value)  # type: ignore[arg-type]

    def _cuLaunchKernelEx(self, config: int, function: int, parameters: int, extra: int) -> None:
        numbers = _CONFIG.unpack(ctypes.string_at(config, _CONFIG.size))
        size = self._argument_bytes_of(function)
        arguments = ctypes.string_at(ctypes.c_void_p.from_address(parameters).value or 0, size)
        context = self._stack()[-1] if self._stack() else 0
        grid, block = numbers[:3], numbers[3:6]
        launched = Launched(grid, block, numbers[6], numbers[7], function, context, arguments)
        self._told(launched.stream, lambda: self._runs(launched))

    def _argument_bytes_of(self, function: int) -> int:
        return self.argument_bytes

    def _runs(self, launched: Launched) -> None:
        self.launches.append(launched)
        self.on_launch(launched)


def forget_kernels() -> None:
    """Let no kernel be loaded: what was loaded through one driver cannot be launched through another."""
    for kernels in module_options._kernels.values():
        for kernel in list(kernels):
            kernel.cache.clear()  # type: ignore[attr-defined]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    """A driver with two GPUs of compute capability 9.0, which this process seems to have from the beginning."""
    library = FakeLibrary()
    forget_kernels()
    found = driver.Driver(library)
    monkeypatch.setattr(devices, "driver", lambda: found)
    monkeypatch.setattr(devices, "_devices", {})
    monkeypatch.setattr(streams, "_of_warp", lambda ordinal: 0)
    yield library
    forget_kernels()
