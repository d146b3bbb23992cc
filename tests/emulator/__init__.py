"""CUDA C++ on the CPU, instruction by instruction of ``native/ptx.h``: what tensor cores compute, tested without a GPU."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilekit.codegen.cpu import ENTRY
from tilekit.runtime.cuda.build import headers

HERE = Path(__file__).parent
FLAGS = "-std=c++17 -O1 -ffp-contract=off -fwrapv -fno-strict-aliasing -fPIC -shared -w".split()
ON_CPU = ("half.h", "scalar.h", "pack.h")
"""Headers with CUDA's instructions for what they can do without."""
PASSED = """
extern "C" __attribute__((visibility("default"))) void run_{0}(const void* given) {{ {1} }}
"""


def compiler() -> list[str] | None:
    """The command of a C++ compiler with a C library; None where there is none."""
    if found := shutil.which("g++") or shutil.which("clang++"):
        return [found]
    return None


needs_emulator = pytest.mark.skipif(compiler() is None, reason="needs g++ or clang++")


def write_headers(folder: Path) -> None:
    """The native headers as the emulator compiles them."""
    for name, text in headers().items():
        if name in ON_CPU:
            text = text.replace("#if defined(TK_CUDA)", "#if 0").replace("#ifdef TK_CUDA", "#if 0")
        text = text.replace('asm volatile("bar.sync', '__syncthreads(); // ("bar.sync')
        (folder / name).write_text(text)
    for name in ("cuda.h", "ptx.h"):
        shutil.copy(HERE / name, folder / name)


class Emulated:
    """Emitted kernels, compiled as one library for the CPU.

    Args:
        sources: As ``Compiled.source``, or with a function ``run`` in place of an entry (``calls``).
        folder: Where files may be written.
        calls: For sources without an entry of their own: the call of ``run`` with the words at ``given`` as arguments.
    """

    def __init__(self, sources: Sequence[str], folder: Path, calls: Sequence[str] = ()) -> None:
        write_headers(folder)
        parts = [self._part(number, source, calls) for number, source in enumerate(sources)]
        includes = dict.fromkeys(line for source in sources for line in source.splitlines() if _includes(line))
        path, output = folder / "kernels.cpp", folder / "kernels.so"
        path.write_text("\n".join(['#include "cuda.h"', *includes, *parts]))
        command = [*(compiler() or ()), *FLAGS, f"-iquote{folder}", str(path), "-o", str(output)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
        self.library = ctypes.CDLL(str(output))

    def _part(self, number: int, source: str, calls: Sequence[str]) -> str:
        lines = (line for line in source.splitlines() if not _includes(line) and not line.startswith("#line"))
        body = "\n".join(lines)
        body = body.replace("extern __shared__ __align__(128) char arena[];", "char* const arena = ::arena;")
        body = body.replace("__shared__", "static").replace("extern __C__", "")
        if calls:
            body, call = body.replace("TK_API", "static"), calls[number]
        else:
            body, call = body.replace(ENTRY, f"{ENTRY}_{number}"), f"{ENTRY}_{number}(*(const Args*)given);"
        return f"namespace kernel_{number} {{\n{body}\n{PASSED.format(number, call)}}}\n"

    def run(self, number: int, words: Sequence[int], blocks: int, threads: int) -> None:
        """Run a kernel; ``words`` are its arguments, eight bytes each.

    
        it runs in a child where one is to be had, and only memory that is shared with it changes.
        """
        given = np.array(words, np.uint64)
        entry = ctypes.cast(self.library[f"run_{number}"], ctypes.c_void_p)
        self.library.emulate(
            entry, given.ctypes.data_as(ctypes.c_void_p), ctypes.c_longlong(blocks), ctypes.c_longlong(threads)
        )


def _includes(line: str) -> bool:
    return line.startswith("#include")


def words_of(array: np.ndarray[Any, Any]) -> list[int]:
    """An array as an argument."""
    return [_word(value) for value in (array.ctypes.data, *array.shape, *array.strides)]


def _word(value: int) -> int:
    return value & 0xFFFFFFFFFFFFFFFF


def launch_words(grid: tuple[int, ...], threads: int) -> list[int]:
    """A ``tk::Launch``."""
    return [*grid, *(1,) * (4 - len(grid)), len(grid) | threads << 32, 0]
