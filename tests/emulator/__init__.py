"""CUDA C++ on the CPU, instruction by instruction of ``native/ptx.h``: products of tensor cores without a GPU.

The threads of a block take turns where they wait for each other. Asynchronous copies happen as late as they may, and
shared memory is full of NaNs when a block begins, so that who reads too early does not get the right numbers. What is
not emulated: the rounding inside tensor cores, and how fast anything is.
"""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.emulator.assembly import without_assembly
from tilekit.codegen.cpu import ENTRY
from tilekit.ir.types import ScalarType
from tilekit.runtime.arguments import scalar_value
from tilekit.runtime.cpu import Generated, format_of
from tilekit.runtime.cuda.build import headers

HERE = Path(__file__).parent
FLAGS = "-std=c++17 -O1 -ffp-contract=off -fwrapv -fno-strict-aliasing -fPIC -shared -w".split()
ON_CPU = ("half.h", "scalar.h", "pack.h")
"""Headers with CUDA's instructions for what they can do without."""
RUN = 'extern "C" __attribute__((visibility("default"))) void run_{0}(const void* given) {{ {1} }}'


def compiler() -> list[str]:
    """The command of a C++ compiler that has a C library."""
    found = shutil.which("g++") or shutil.which("clang++")
    return [found] if found else [sys.executable, "-m", "ziglang", "c++", "-fno-sanitize=undefined"]


def write_headers(folder: Path) -> None:
    """The native headers as the emulator compiles them."""
    for name, text in headers().items():
        if name in ON_CPU:
            text = text.replace("#if defined(TK_CUDA)", "#if 0").replace("#ifdef TK_CUDA", "#if 0")
        text = text.replace('asm volatile("bar.sync', '__syncthreads(); // ("bar.sync')
        (folder / name).write_text(text)
    for name in ("approx.h", "cuda.h", "ptx.h"):
        shutil.copy(HERE / name, folder / name)


def includes_of(source: str) -> tuple[list[str], str]:
    """The lines that include headers, also those that instructions of inline assembly need here, and the others."""
    lines = [line for line in without_assembly(source).splitlines() if not line.startswith("#line")]
    body = "\n".join(line for line in lines if not line.startswith("#include"))
    return [line for line in lines if line.startswith("#include")], body


def on_cpu(body: str) -> str:
    """Code with the emulator's shared memory."""
    body = body.replace("extern __shared__ __align__(128) char arena[];", "char* const arena = ::arena;")
    return body.replace("__shared__", "static").replace("TK_API", "static")


def compiled(parts: Sequence[str], folder: Path) -> Path:
    """The library that a compiler makes of code and its includes; files are written to the folder."""
    write_headers(folder)
    path, output = folder / "kernels.cpp", folder / "kernels.so"
    path.write_text("\n".join(['#include "cuda.h"', *parts]))
    command = [*compiler(), *FLAGS, f"-iquote{folder}", str(path), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return output


class Emulated:
    """CUDA sources, compiled as one library for the CPU.

    Args:
        sources: Each with an entry ``tk_launch``, as emitted, or with a kernel ``run``.
        folder: Where files may be written.
        calls: Of sources with a kernel ``run``, its call; ``given`` are the words that are passed.
    """

    def __init__(self, sources: Sequence[str], folder: Path, calls: Sequence[str] = ()) -> None:
        read = [includes_of(source) for source in sources]
        included = dict.fromkeys(line for lines, _ in read for line in lines)
        parts = [self._part(number, body, calls) for number, (_, body) in enumerate(read)]
        self.library = ctypes.CDLL(str(compiled([*included, *parts], folder)))
        self.library.emulate.restype = ctypes.c_char_p

    def _part(self, number: int, body: str, calls: Sequence[str]) -> str:
        body = on_cpu(body).replace(ENTRY, f"{ENTRY}_{number}")
        call = calls[number] if calls else f"{ENTRY}_{number}(*(const Args*)given);"
        return f"namespace kernel_{number} {{\n{body}\n{RUN.format(number, call)}\n}}\n"

    def run(self, number: int, words: Sequence[int], blocks: int, threads: int) -> None:
        """Run a kernel; ``words`` are its arguments, eight bytes each."""
        given = np.array([word & 0xFFFFFFFFFFFFFFFF for word in words], np.uint64)
        entry = ctypes.cast(self.library[f"run_{number}"], ctypes.c_void_p)
        pointer, numbers = given.ctypes.data_as(ctypes.c_void_p), map(ctypes.c_longlong, (blocks, threads))
        failure = self.library.emulate(entry, pointer, *numbers)
        assert not failure, failure.decode()


class EmulatedKernels(Emulated):
    """Kernels of which CUDA code was generated."""

    def __init__(self, generated: Sequence[Generated], folder: Path) -> None:
        super().__init__([each.source for each in generated], folder)
        self.generated = generated

    def launch(self, number: int, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> None:
        """Launch one of the kernels over a grid, with arrays and numbers as its arguments."""
        generated = self.generated[number]
        threads = generated.threads
        words = [*grid, *(1,) * (4 - len(grid)), len(grid) | threads << 32, 0]
        for name, value in generated.function.params.items():
            given = arguments[name]
            if isinstance(value.type, ScalarType):
                packed = struct.pack(format_of(value.type), scalar_value(given, value.type.dtype))
                words.append(int.from_bytes(packed, sys.byteorder))
            else:
                words += words_of(given)
        self.run(number, words, int(np.prod(grid)), threads)


def words_of(array: np.ndarray[Any, Any]) -> list[int]:
    """An array as an argument."""
    return [array.ctypes.data, *array.shape, *array.strides]
