"""Runs the loops of ``mma_source`` on a GPU, or on the emulator."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from tests.emulator import Emulated
from tests.native.cuda_driver import CudaLibrary, Described
from tests.native.mma_source import Case, loop_kernel
from tilekit.runtime.parallel import in_parallel

TOGETHER = 6
"""Kernels that are compiled as one for a GPU; the parts are compiled at once."""
ON_DEVICES = pytest.mark.parametrize("device", ["emulator", pytest.param("gpu", marks=pytest.mark.gpu)])


class Loops:
    """The kernels of some cases; those for an older architecture run on a GPU as code that thinks it is one."""

    def __init__(self, cases: Sequence[Case], device: str) -> None:
        self.cases = list(dict.fromkeys(cases))
        self.emulated = self._emulated() if device == "emulator" else None
        self.libraries = self._compiled() if device == "gpu" else []

    def _emulated(self) -> Emulated:
        with TemporaryDirectory() as folder:
            return Emulated([loop_kernel(case) for case in self.cases], Path(folder), [_call(c) for c in self.cases])

    def _compiled(self) -> list[CudaLibrary]:
        sources = []
        for first in range(0, len(self.cases), TOGETHER):
            parts, includes = [], dict[str, None]()
            for number, case in enumerate(self.cases[first : first + TOGETHER], first):
                lines = loop_kernel(case).replace(" run(", f" run_{number}(").splitlines()
                includes |= dict.fromkeys(line for line in lines if line.startswith("#include"))
                body = "\n".join(line for line in lines if line not in includes)
                parts.append(f"namespace kernel_{number} {{\n{body}\n}}\n")
            sources.append("\n".join([*pretended(self.cases[0].arch), *includes, *parts]))
        return list(in_parallel([partial(CudaLibrary, source) for source in sources]))

    def run(self, case: Case, a: Any, b: Any, c: Any, k: int, alpha: float = 1.0) -> None:
        """``c = alpha * (a @ b)`` over ``k`` elements."""
        number, made = self.cases.index(case), case.plan
        blocks = -(-c.shape[0] // case.m) * -(-c.shape[1] // case.n)
        if self.emulated is not None:
            described = [Described(array).words(array.ctypes.data) for array in (a, b, c)]
            words = [*map(ctypes.addressof, described), k, int(np.float64(alpha).view(np.uint64))]
            self.emulated.run(number, words, blocks, made.threads or 0)
            return
        run = self.libraries[number // TOGETHER][f"run_{number}"]
        arrays = (Described(a), Described(b), Described(c))
        run(*arrays, k, alpha, blocks=blocks, threads=made.threads, shared=made.shared)


def pretended(arch: str) -> list[str]:
    """Lines that make the headers take the GPU for another one."""
    return ["#undef __CUDA_ARCH__", "#define __CUDA_ARCH__ 750"] if arch == "75" else []


def _call(case: Case) -> str:
    types = (case.a, case.b, case.out)
    arrays = ", ".join(f"(const tk::Array<tk::{dtype.short}, 2>*)words[{i}]" for i, dtype in enumerate(types))
    return (
        f"const tk::u64* words = (const tk::u64*)given; run({arrays}, (tk::i64)words[3], *(const double*)(words + 4));"
    )
