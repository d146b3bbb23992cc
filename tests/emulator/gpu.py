"""A GPU without one: ``pytest -m gpu --emulate-gpu=forward`` runs on the CPU what tilekit emits for a GPU.

The driver is Python, NVRTC's place is taken by a C++ compiler that reads the headers of the emulator, and what it makes
is a library that a launch runs block by block; with ``reversed``, the last thread of a block has the first turn. Arrays
are those of :class:`tilekit.runtime.cuda.buffers.Buffer`: PyTorch, CuPy and Warp see no such GPU, nor do other
processes.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.emulator import compiled, includes_of, on_cpu
from tests.runtime.cuda.fake_driver import FakeLibrary, Launched, put
from tilekit.runtime import nvidia
from tilekit.runtime.cuda import devices, driver, nvrtc, streams

GPU = nvidia.Gpu(0, "emulated GPU", (9, 0), 1 << 33)
ENTRY = re.compile(r'^extern "C" __global__ .*?(\w+)\(const __grid_constant__ Args args\)$', re.MULTILINE)
CALL = """extern "C" __global__ void {0}(const Args args);
extern "C" __attribute__((visibility("default"))) void run_{0}(const void* given) {{ {0}(*(const Args*)given); }}
extern "C" __attribute__((visibility("default"))) long long size_{0}() {{ return sizeof(Args); }}
"""


def compile_cubin(
    folder: str, source: str, name: str, headers: Mapping[str, str], options: Sequence[str]
) -> nvrtc.Cubin:
    """In the place of NVRTC's: the "machine code" is the path of a library."""
    included, body = includes_of(source)
    body = ENTRY.sub(lambda match: CALL.format(match[1]) + match[0], on_cpu(body))
    where = Path(tempfile.mkdtemp(dir=folder))
    return nvrtc.Cubin(str(compiled([*included, body], where)).encode() + b"\0", "")


@dataclass
class EmulatedGpu(FakeLibrary):
    """The driver of one emulated GPU."""

    count: int = 1
    handles: dict[int, Any] = field(default_factory=dict)
    """Libraries by the numbers of modules, and entries by those of functions."""
    turn: Any = field(default_factory=threading.Lock)

    def _kept(self, held: Any) -> int:
        self.handles[number := 0x10000 + len(self.handles)] = held
        return number

    def _cuModuleLoadData(self, out: int, code: int) -> int:
        library = ctypes.CDLL(ctypes.string_at(code).decode())
        library.emulate.restype = ctypes.c_char_p
        return put(ctypes.c_void_p, out, self._kept(library))

    def _cuModuleGetFunction(self, out: int, module: int, name: bytes) -> int:
        library = self.handles[module]
        entry = ctypes.cast(library[f"run_{name.decode()}"], ctypes.c_void_p)
        return put(ctypes.c_void_p, out, self._kept((library, entry, library[f"size_{name.decode()}"]())))

    def _argument_bytes_of(self, function: int) -> int:
        return int(self.handles[function][2])

    def _runs(self, launched: Launched) -> None:
        library, entry, _ = self.handles[launched.function]
        arguments = ctypes.create_string_buffer(launched.arguments, len(launched.arguments))
        blocks, threads = (ctypes.c_longlong(number[0]) for number in (launched.grid, launched.block))
        with self.turn:
            self.calls.clear()  # which else would grow for ever
            failure = library.emulate(entry, ctypes.c_void_p(ctypes.addressof(arguments)), blocks, threads)
        assert not failure, failure.decode()


emulated: EmulatedGpu | None = None
"""The driver of this process, where it has one."""


def install(order: str) -> None:
    """Let this process have one emulated GPU and no other, from now on.

    Args:
        order: In which the threads of a block have their turns until they wait for each other, ``"forward"`` or
            ``"reversed"``: where a barrier is missing, one of them gives what no barrier would.
    """
    os.environ.pop("TILEKIT_EMULATOR_REVERSED", None)
    if order == "reversed":
        os.environ["TILEKIT_EMULATOR_REVERSED"] = "1"
    folder = tempfile.TemporaryDirectory(prefix="tilekit-emulated-")
    atexit.register(folder.cleanup)
    global emulated
    emulated = library = EmulatedGpu()
    found = driver.Driver(library)
    devices.driver = lambda: found
    nvidia.find_driver = lambda: nvidia.Driver((13, 0), (GPU,), "")
    nvrtc.compile_cubin = partial(compile_cubin, folder.name)
    streams._of_warp = lambda ordinal: 0
