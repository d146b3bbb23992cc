"""What a kernel becomes, without launching it: its IR after each pass, its source, its library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tilekit.errors import CompileError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.program import Program
from tilekit.ir.types import ArrayType, ScalarType
from tilekit.runtime.cpu import Generated, compile_library, cpu_target, generate

Types = Mapping[str, ArrayType | ScalarType | None]


@dataclass(frozen=True)
class Compiled:
    """One specialisation of a kernel for one device. Only ``library`` asks a compiler."""

    kernel: Kernel
    device: str
    form: LaunchForm
    program: Program
    """What runs, after all passes."""
    stages: Mapping[str, str]
    """The IR as text, as traced and after each pass, by the pass's name, in order."""
    generated: Generated

    @property
    def ir(self) -> str:
        """The program as text, after all passes."""
        return str(self.program)

    @property
    def source(self) -> str:
        """The emitted code."""
        return self.generated.source

    @property
    def arena_bytes(self) -> int:
        """Bytes of tile storage that a running block needs."""
        return self.generated.arena

    @cached_property
    def library(self) -> Path:
        """The shared library, from the cache or the compiler; the source lies beside it.

        Raises:
            CompileError: no compiler was found, or it refused the code.
        """
        return compile_library(self.generated, self.kernel.options.get("module_options") or {})


def compile_kernel(
    kernel: Kernel,
    types: Types | None = None,
    ndim: int | None = None,
    block_dim: int = 256,
    tiled: bool = True,
    device: str = "cpu",
) -> Compiled:
    """Trace a kernel, run the passes and emit its source.

    Args:
        kernel: The kernel.
        types: The type of each parameter that its annotation leaves open, or None for an array that is not given;
            types that the annotations state may be left out.
        ndim: Dimensions of the grid; by default as many as ``tk.tid()`` is unpacked into.
        block_dim: Lanes of a block.
        tiled: The form of ``launch_tiled``, else that of ``launch``.
        device: ``"cpu"``.

    Returns:
        What the kernel became.

    Raises:
        TilekitError: the kernel is wrong; the error carries the place in its source.
        KernelTypeError: a type is missing, or names no parameter.
        CompileError: ``device`` is not one that compiles kernels.

    Example:
        >>> import tilekit as tk
        >>> @tk.kernel
        ... def double(a: tk.array1d[float]):
        ...     i = tk.tid()
        ...     tk.tile_store(a, 2.0 * tk.tile_load(a, shape=4, offset=4 * i), offset=4 * i)
        >>> compiled = compile_kernel(double)
        >>> list(compiled.stages)[0], compiled.arena_bytes
        ('trace', 64)
    """
    if device != "cpu":
        raise CompileError(f"kernels are compiled for the device 'cpu', not for {device!r}")
    form = LaunchForm(tiled, ndim, block_dim)
    stages: dict[str, str] = {}

    def observe(name: str, fn: Function) -> None:
        stages[name] = str(fn)

    function = kernel.trace(kernel.default_types(types), form)
    generated = generate(function, cpu_target(form), observe)
    return Compiled(kernel, device, form, Program.of(generated.function), stages, generated)
