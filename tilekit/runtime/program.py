"""What a kernel becomes, without launching it: its IR after each pass, its source, its library or cubin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tilekit.builtins.grid import dimensions
from tilekit.codegen.architectures import arch_name, shared_limit
from tilekit.codegen.cpu import ENTRY
from tilekit.codegen.gemm import plans_of
from tilekit.codegen.gemm_plan import Plan
from tilekit.codegen.placed import Placed, placed_tiles
from tilekit.codegen.shared_memory import check_shared_memory
from tilekit.codegen.target import ArrayClass, Target
from tilekit.errors import CompileError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.float_state import in_ieee_state
from tilekit.ir.program import Program
from tilekit.ir.sizes import CeilDiv, Dim, PointBlocks, Product, Size, point_blocks
from tilekit.ir.types import ArrayType, ScalarType
from tilekit.runtime.cpu import Generated, compile_library, cpu_target, generate
from tilekit.runtime.cuda import build, generate as cuda
from tilekit.runtime.cuda.elf import Resources, read_resources
from tilekit.runtime.cuda.nvrtc import Cubin
from tilekit.runtime.grids import form_of
from tilekit.runtime.spec import assumption, dense_class

Types = Mapping[str, ArrayType | ScalarType | None]


@dataclass(frozen=True)
class CompiledLaunch:
    """One launch of a compiled kernel."""

    name: str
    blocks: Size
    """How many, where the grid is known; else in terms of it."""
    threads: int
    """Of a block."""
    shared_bytes: int


@dataclass(frozen=True, repr=False)
class Compiled:
    """One specialisation of a kernel for one device. Compilers are asked where first needed."""

    kernel: Kernel
    device: str
    """``"cpu"`` or ``"cuda"``."""
    target: Target
    form: LaunchForm
    grid: tuple[int, ...] | None
    """Of the launch, where it was given."""
    program: Program
    """What runs, after all passes."""
    stages: Mapping[str, str]
    """The IR as text, as traced and after each pass, by the pass's name, in order."""
    generated: Generated
    plans: tuple[Plan, ...]
    """How each matrix product is computed, and why in that way."""
    assumptions: tuple[str, ...]
    """What CUDA code takes for granted of the arrays of a launch, one line each. The CPU's assumes nothing."""

    def __repr__(self) -> str:
        """
        Example:
            >>> import tilekit as tk
            >>> @tk.kernel
            ... def twice(a: tk.array1d[float]):
            ...     i = tk.tid()
            ...     a[i] = 2.0 * a[i]
            >>> tk.compile(twice, tiled=False, device="cpu")
            <tilekit kernel twice, tk.launch, compiled for the CPU>
        """
        form = "tk.launch_tiled" if self.form.tiled else "tk.launch"
        return (
            f"<tilekit kernel {self.kernel.key}, {form}, compiled for {f'sm_{self.arch}' if self.arch else 'the CPU'}>"
        )

    @property
    def ir(self) -> str:
        """The program as text, after all passes."""
        return str(self.program)

    @property
    def source(self) -> str:
        """The emitted code."""
        return self.generated.source

    @property
    def arch(self) -> str:
        """The architecture of the GPU, such as ``"90a"``; empty on the CPU."""
        return self.target.arch

    @property
    def threads(self) -> int:
        """Threads that run a block."""
        return self.target.threads

    @property
    def arena_bytes(self) -> int:
        """Bytes of tile storage that a running block needs."""
        return self.generated.arena

    @property
    def tiles(self) -> list[Placed]:
        """Where the tiles lie, the largest first."""
        return placed_tiles(self.generated.function, self.generated.storage)

    @property
    def barriers(self) -> int:
        """Places in the code where the threads of a block wait for each other, besides those inside products."""
        return self.source.count("team.sync();")

    @property
    def launches(self) -> tuple[CompiledLaunch, ...]:
        """What a launch of the kernel runs, in order."""
        how = self.blocks, self.threads, self.shared_bytes
        return tuple(CompiledLaunch(item.function.name, *how) for item in self.program.launches)

    @property
    def blocks(self) -> Size:
        """How many a launch runs: a number where the grid is known, else in terms of it."""
        lanes = self.generated.lanes if self.device == "cpu" else self.generated.lanes or self.threads
        each = 1 if self.form.tiled else lanes or 1
        together = self.generated.together
        if self.grid is not None:
            return point_blocks(math.prod(self.grid), each, together)
        points: Size = Dim(0)
        for axis in range(1, self.form.ndim or 1):
            points = Product(points, Dim(axis))
        if together > 1:
            return PointBlocks(points, each, together)
        return points if each == 1 else CeilDiv(points, each)

    def build(self) -> Compiled:
        """Ask the compiler now; what it refuses is raised as by ``cubin`` and ``library``."""
        _ = self.library if self.device == "cpu" else self.cubin
        return self

    @cached_property
    def library(self) -> Path:
        """The shared library, from the cache or the compiler; the source lies beside it.

        Raises:
            CompileError: no compiler was found, or it refused the code; or the kernel was compiled for CUDA.
        """
        if self.device != "cpu":
            raise CompileError(f"kernel {self.kernel.key!r} is compiled for sm_{self.arch}: it has a cubin, no library")
        return compile_library(self.generated, self.kernel.options.get("module_options") or {})

    @cached_property
    def _built(self) -> tuple[Cubin, Path]:
        if self.device == "cpu":
            raise CompileError(
                f"kernel {self.kernel.key!r} was compiled for the CPU: it has a library, no cubin; leave out "
                "device='cpu', or give arch=90"
            )
        made, options = self.generated, self.kernel.options
        return build.build(self.source, made.function.name, self.target, options, made.units)

    @property
    def cubin(self) -> bytes:
        """The machine code for the GPU, an ELF file, from the cache or the compiler.

        Raises:
            CompileError: NVRTC refused the code; or the kernel was compiled for the CPU.
            MissingPackageError: NVRTC is not installed.
            KernelValueError: a block needs more shared memory than the architecture has.
        """
        self._check_shared()
        return self._built[0].code

    @property
    def folder(self) -> Path:
        """Where the library or cubin lies, and its source beside it."""
        return self.library.parent if self.device == "cpu" else self._built[1]

    @cached_property
    def resources(self) -> Resources:
        """What the cubin says of the kernel; raises as ``cubin``."""
        return read_resources(self._built[0].code)[ENTRY]

    def _check_shared(self) -> None:
        used = self.generated.arena + self.resources.shared_bytes
        place = shared_limit(self.arch), f"sm_{self.arch}"
        check_shared_memory(self.generated.function, self.generated.storage, used, *place)

    @property
    def shared_bytes(self) -> int:
        """Bytes of memory that a block needs for tiles and what its threads exchange; raises as ``cubin``."""
        return self.arena_bytes if self.device == "cpu" else self.arena_bytes + self.resources.shared_bytes

    @property
    def registers(self) -> int | None:
        """Registers of a thread; None on the CPU. Raises as ``cubin``."""
        return None if self.device == "cpu" else self.resources.registers

    @property
    def local_bytes(self) -> int | None:
        """Bytes of a thread's memory: spilled registers and indexed arrays; None on the CPU. Raises as ``cubin``."""
        return None if self.device == "cpu" else self.resources.local_bytes

    @property
    def spilled_bytes(self) -> int | None:
        """Bytes that a thread stores for want of registers; None on the CPU. Raises as ``cubin``."""
        return None if self.device == "cpu" else self._built[0].spilled


@in_ieee_state
def compile_kernel(
    kernel: Kernel,
    types: Types | None = None,
    ndim: int | None = None,
    block_dim: int = 256,
    tiled: bool = True,
    device: str = "cpu",
    arch: object = "",
    arrays: Mapping[str, ArrayClass] | None = None,
    grid: tuple[int, ...] | None = None,
) -> Compiled:
    """Trace a kernel, run the passes and emit its source.

    Args:
        kernel: The kernel.
        types: The type of each parameter that its annotation leaves open, or None for an array that is not given;
            types that the annotations state may be left out.
        ndim: Dimensions of the grid; by default as many as ``tk.tid()`` is unpacked into.
        block_dim: Lanes of a block.
        tiled: The form of ``launch_tiled``, else that of ``launch``.
        device: ``"cpu"`` or ``"cuda"``.
        arch: The architecture of the GPU, such as 90 or ``"90a"``.
        arrays: The class of each array parameter of which something is known; others are taken to be dense.
        grid: Of the launch, where it is known.

    Returns:
        What the kernel became.

    Raises:
        TilekitError: the kernel is wrong; the error carries the place in its source.
        KernelTypeError: a type is missing, or names no parameter.
        KernelValueError: its tiles do not fit the architecture.
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
    if device not in ("cpu", "cuda"):
        raise CompileError(f"kernels are compiled for the devices 'cpu' and 'cuda', not for {device!r}")
    kernel.capture_key()  # refuses what a launch does
    form = LaunchForm(tiled, ndim, block_dim) if grid is None else form_of(tiled, grid, block_dim)
    form, function = _trace(kernel, types, form)
    stages: dict[str, str] = {}
    assumptions: tuple[str, ...] = ()

    def observe(name: str, fn: Function) -> None:
        stages[name] = str(fn)

    if device == "cpu":
        target = cpu_target(form)
        generated = generate(function, target, observe)
    else:
        classes, assumptions = _classes(function, arrays or {})
        target = cuda.cuda_target(form, arch_name(arch), classes)
        generated = cuda.generate(function, target, observe, kernel.options)
        target = replace(target, threads=generated.threads)
    plans = plans_of(generated.function, target)
    program = Program.of(generated.function)
    return Compiled(kernel, device, target, form, grid, program, stages, generated, plans, assumptions)


def _trace(kernel: Kernel, types: Types | None, form: LaunchForm) -> tuple[LaunchForm, Function]:
    """The function as traced, and the form with the grid's dimensions known."""
    found = kernel.default_types(types)
    function = kernel.trace(found, form)
    if form.ndim is None:  # again, so that every use of tid() is held to the same number
        form = replace(form, ndim=dimensions(function))
        function = kernel.trace(found, form)
    return form, function


def _classes(function: Function, known: Mapping[str, ArrayClass]) -> tuple[dict[str, ArrayClass], tuple[str, ...]]:
    """The class of each array of a function, and what it assumes, in words."""
    classes, texts = {}, []
    for name, value in function.params.items():
        if isinstance(value.type, ArrayType):
            classes[name] = known.get(name) or dense_class(value.type.ndim)
            texts.append(assumption(name, value.type, classes[name], name in known))
    return classes, tuple(texts)
