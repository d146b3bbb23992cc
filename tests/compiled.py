"""Compiles many functions as one library, so that testing hundreds of kernels costs a few runs of the compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilekit.codegen.cpu import ENTRY
from tilekit.codegen.target import Target
from tilekit.ir.core import Function
from tilekit.ir.types import ScalarType
from tilekit.runtime import cpu
from tilekit.runtime.arguments import scalar_value
from tilekit.runtime.arrays import view_of
from tilekit.runtime.toolchain import Toolchain, find_toolchain


class Library:
    """Functions compiled together; each is run like a kernel of its own."""

    def __init__(self, functions: Sequence[Function], toolchain: Toolchain | None = None, ndim: int = 1) -> None:
        self.target = Target(ndim=ndim)
        self.generated = [cpu.generate(function, self.target) for function in functions]
        includes: dict[str, None] = {}
        parts = []
        for number, generated in enumerate(self.generated):
            lines = generated.source.splitlines()
            includes.update(dict.fromkeys(line for line in lines if line.startswith("#include")))
            body = "\n".join(line for line in lines if not line.startswith("#include"))
            parts.append(f"namespace kernel_{number} {{\n{body.replace(ENTRY, f'{ENTRY}_{number}')}\n}}\n")
        whole = cpu.Generated(functions[0], "\n".join([*includes, *parts]), 0, (), False)
        found = toolchain or find_toolchain()
        assert found is not None, "the tests need a C++ compiler; the extra 'test' brings one"
        self.path: Path = cpu.build(whole, found, False, False)
        self.handle = ctypes.CDLL(str(self.path))

    def run(self, number: int, arguments: Mapping[str, Any], grid: tuple[int, ...] = (1,)) -> None:
        """Run one function over a grid; arrays are written in place."""
        generated = self.generated[number]
        kernel = cpu.CpuKernel(generated, self.path, self.target, entry=f"{ENTRY}_{number}")
        values: list[Any] = []
        for name, value in generated.function.params.items():
            given = arguments[name]
            if isinstance(value.type, ScalarType):
                values.append(scalar_value(given, value.type.dtype))
            else:
                view = view_of(given)
                values += (view.pointer, *view.shape, *view.strides)
        kernel.run(values, grid, int(np.prod(grid)))
