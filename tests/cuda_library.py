"""Many functions compiled by NVRTC as one module: testing hundreds of kernels costs few runs of the compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from tests.quick_nvrtc import compile_quickly
from tilekit.codegen.cpu import ENTRY
from tilekit.codegen.target import ArrayClass, Target
from tilekit.ir.core import Function
from tilekit.ir.types import ScalarType
from tilekit.passes.uniformity import observes_lanes
from tilekit.runtime.arguments import scalar_value
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cuda import build, nvrtc
from tilekit.runtime.cuda.buffers import Buffer
from tilekit.runtime.cuda.generate import generate
from tilekit.runtime.cuda.kernel import CudaKernel
from tilekit.runtime.parallel import in_parallel

TOGETHER = 12
"""Functions that are compiled as one; the parts are compiled at once."""


class CudaLibrary:
    """Functions compiled together; each is run like a kernel of its own, with 64 threads a block, or one lane where it
    observes lanes.

    ``quick`` has NVRTC optimise little, for code that is only looked at (``tests.quick_nvrtc``). ``together``
    functions are one module. ``arrays`` are the classes of each function's arrays, of which else nothing is known.
    """

    def __init__(
        self,
        functions: Sequence[Function],
        arch: str,
        ndim: int = 1,
        block_dim: int = 64,
        quick: bool = False,
        together: int = TOGETHER,
        arrays: Sequence[Mapping[str, ArrayClass]] = (),
    ) -> None:
        self.target = Target("cuda", arch, block_dim, ndim=ndim, index_checks=False, checked=False)
        known = arrays or [{}] * len(functions)
        self.targets = [self._target_of(*pair) for pair in zip(functions, known, strict=True)]
        self.generated = [generate(*pair) for pair in zip(functions, self.targets, strict=True)]
        parts = [range(len(functions))[first : first + together] for first in range(0, len(functions), together)]
        sources = [self._source_of(part) for part in parts]
        options = build.options_of(self.target, {})
        cubins = (
            compile_quickly([(*source, options) for source in sources])
            if quick
            else in_parallel([partial(self._compile, *source) for source in sources])
        )
        self.cubins = {number: cubin for part, cubin in zip(parts, cubins, strict=True) for number in part}

    def _target_of(self, function: Function, arrays: Mapping[str, ArrayClass]) -> Target:
        lanes = 1 if observes_lanes(function, True) else self.target.block_dim
        return replace(self.target, block_dim=lanes, arrays=arrays)

    def _compile(self, source: str, name: str) -> nvrtc.Cubin:
        return build.build(source, name, self.target, {})[0]

    def _source_of(self, numbers: Sequence[int]) -> tuple[str, str]:
        """The code of some of the functions, and a name for it."""
        includes: dict[str, None] = {}
        parts = []
        for number in numbers:
            lines = [line for line in self.generated[number].source.splitlines() if not line.startswith("#line")]
            includes.update(dict.fromkeys(line for line in lines if line.startswith("#include")))
            body = "\n".join(line for line in lines if not line.startswith("#include"))
            parts.append(f"namespace kernel_{number} {{\n{body.replace(ENTRY, f'{ENTRY}_{number}')}\n}}\n")
        return "\n".join([*includes, *parts]), self.generated[numbers[0]].function.name

    def run(self, number: int, arguments: Mapping[str, Any], grid: tuple[int, ...] = (1,)) -> None:
        """Run one function over a grid; NumPy arrays are copied to the first GPU and back."""
        from tilekit.runtime.cuda.devices import device

        generated = self.generated[number]
        kernel = CudaKernel(
            generated, self.cubins[number], self.targets[number], device(0), entry=f"{ENTRY}_{number}".encode()
        )
        values: list[Any] = []
        there: dict[str, Buffer] = {}
        for name, value in generated.function.params.items():
            given = arguments[name]
            if isinstance(value.type, ScalarType):
                values.append(scalar_value(given, value.type.dtype))
            else:
                plain = given.view(np.uint16) if given.dtype == ml_dtypes.bfloat16 else given
                there[name] = Buffer(plain, 0)
                view = view_of(there[name])
                values += (view.pointer, *view.shape, *view.strides)
        kernel.run(values, grid, int(np.prod(grid)), [], 0)
        for name, buffer in there.items():
            found = buffer.numpy()
            arguments[name][...] = found.view(ml_dtypes.bfloat16) if arguments[name].dtype != found.dtype else found


def arch_of_first_gpu() -> str:
    """The architecture that launches on the first GPU compile for."""
    from tilekit.runtime.cuda.devices import device

    return nvrtc.arch_of(device(0).capability)
