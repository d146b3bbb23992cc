"""What a kernel has become: its IR after each pass, its source, its library or cubin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tilekit.codegen.gemm.plan import Plan
from tilekit.codegen.placed import Placed
from tilekit.codegen.target import ArrayClass, Target
from tilekit.errors import CompileError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.program import Program
from tilekit.ir.sizes import Size
from tilekit.runtime.compiled_part import CompiledLaunch, CompiledPart
from tilekit.runtime.cpu import Generated
from tilekit.runtime.cuda.elf import Resources
from tilekit.runtime.parallel import in_parallel


@dataclass(frozen=True)
class How:
    """What a program was made from, and is compiled with."""

    program: Program
    """Before all passes."""
    arch: object
    arrays: Mapping[str, ArrayClass]
    options: Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class Compiled:
    """One specialisation of a kernel for one device, or a program. Compilers are asked where first needed.

    Of a program of several launches, what is said of a block or thread is that of the launch with the most; ``parts``
    have each launch's own.
    """

    kernel: Kernel | None
    """None for a program that was not made from one."""
    device: str
    """``"cpu"`` or ``"cuda"``."""
    form: LaunchForm
    grid: tuple[int, ...] | None
    """Of the launch, where it was given."""
    program: Program
    """What runs, after all passes."""
    parts: tuple[CompiledPart, ...]
    """Its launches, in order."""
    stages: Mapping[str, str]
    """The IR as text, as traced and after each pass, by the pass's name, in order; of several launches one by one."""
    assumptions: tuple[str, ...]
    """What CUDA code takes for granted of the arrays of a launch, one line each. The CPU's assumes nothing."""
    how: How
    """What it was made from."""

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
        where = f"sm_{self.arch}" if self.arch else "the CPU"
        return f"<tilekit {self.title.partition(' (')[0]}, {form}, compiled for {where}>"

    @property
    def name(self) -> str:
        """Of the program: a kernel's."""
        return self.program.name

    @property
    def title(self) -> str:
        """What it is, and the file and line of its kernel."""
        if self.kernel is None:
            return f"program {self.name}"
        code = self.kernel.function.__code__
        kind = "kernel" if self.kernel.key == self.name else "program"
        return f"{kind} {self.name} ({code.co_filename}:{code.co_firstlineno})"

    def only(self, what: str) -> CompiledPart:
        """The one launch that there is.

        Raises:
            CompileError: there are several, each with its own ``what``.
        """
        if len(self.parts) != 1:
            names = ", ".join(part.name for part in self.parts)
            raise CompileError(
                f"program {self.name!r} has {len(self.parts)} launches ({names}), each with {what} of its own; ask its "
                "parts"
            )
        return self.parts[0]

    @property
    def ir(self) -> str:
        """The program as text, after all passes."""
        return str(self.program)

    @property
    def source(self) -> str:
        """The emitted code, of several launches one after the other."""
        return "\n".join(part.source for part in self.parts)

    @property
    def target(self) -> Target:
        """What the code is for, of one launch."""
        return self.only("a target").target

    @property
    def generated(self) -> Generated:
        """The code and what it needs, of one launch."""
        return self.only("code").generated

    @property
    def arch(self) -> str:
        """The architecture of the GPU, such as ``"90a"``; empty on the CPU."""
        return self.parts[0].target.arch if self.parts else ""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """How each matrix product is computed, and why in that way; in an adjoint also how what it gives is summed."""
        found = []
        for part in self.parts:
            sums = tuple(str(summed) for summed in self.program.sums if summed.launch == part.name)
            found += [replace(plan, sums=sums) if sums else plan for plan in part.plans]
        return tuple(found)

    @property
    def threads(self) -> int:
        """Threads that run a block."""
        return max(part.target.threads for part in self.parts)

    @property
    def arena_bytes(self) -> int:
        """Bytes of tile storage that a running block needs."""
        return max(part.arena_bytes for part in self.parts)

    @property
    def tiles(self) -> list[Placed]:
        """Where the tiles lie, of each launch the largest first."""
        return [tile for part in self.parts for tile in part.tiles]

    @property
    def barriers(self) -> int:
        """Places in the code where the threads of a block wait for each other, besides those inside products."""
        return sum(part.barriers for part in self.parts)

    @property
    def launches(self) -> tuple[CompiledLaunch, ...]:
        """What a launch of the kernel runs, in order; raises as ``cubin``."""
        return tuple(part.summary for part in self.parts)

    @property
    def blocks(self) -> Size:
        """How many a launch runs, where it is one: a number where the grid is known, else in terms of it."""
        return self.only("blocks").blocks

    @cached_property
    def adjoint(self) -> Compiled:
        """Its gradient, for the same device and form of launch, made when first asked for.

        Raises:
            KernelNotImplementedError: the gradient cannot be computed rightly; the error names the op and its line.
            CompileError: it is the program of no kernel.

        Example:
            >>> import tilekit as tk
            >>> @tk.kernel
            ... def product(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
            ...     x, y = tk.tile_load(a, shape=(8, 8)), tk.tile_load(b, shape=(8, 8))
            ...     tk.tile_store(out, tk.tile_matmul(x, y))
            >>> [plan.backend for plan in tk.compile(product, device="cpu").adjoint.plans]
            ['scalar', 'scalar']
        """
        how = self.how
        if self.kernel is None or how.program.name != self.kernel.key:
            raise CompileError(f"program {self.name!r} has no adjoint: only kernels are differentiated, and once")
        from tilekit.runtime.adjoint import adjoint_of
        from tilekit.runtime.program import compile_program

        program, _ = adjoint_of(how.program.launches[0].function, None, self.form)
        given = self.device, how.arch, how.arrays, self.grid, how.options, self.kernel
        return compile_program(program, self.form, *given)

    def build(self) -> Compiled:
        """Ask the compiler now, for all launches side by side; what it refuses is raised as by ``cubin``."""
        in_parallel([part.build for part in self.parts])
        return self

    @property
    def library(self) -> Path:
        """The shared library, from the cache or the compiler; the source lies beside it.

        Raises:
            CompileError: no compiler was found, or it refused the code; or the kernel was compiled for CUDA; or there
                are several launches.
        """
        return self.only("a library").library

    @property
    def cubin(self) -> bytes:
        """The machine code for the GPU, an ELF file, from the cache or the compiler.

        Raises:
            CompileError: NVRTC refused the code; or the kernel was compiled for the CPU; or there are several launches.
            MissingPackageError: NVRTC is not installed.
            KernelValueError: a block needs more shared memory than the architecture has.
        """
        return self.only("a cubin").cubin

    @property
    def folder(self) -> Path:
        """Where the library or cubin lies, and its source beside it."""
        return self.only("a folder").folder

    @property
    def resources(self) -> Resources:
        """What the cubin says of the kernel; raises as ``cubin``."""
        return self.only("resources").resources

    @property
    def shared_bytes(self) -> int:
        """Bytes of memory that a block needs for tiles and what its threads exchange; raises as ``cubin``."""
        return max(part.shared_bytes for part in self.parts)

    @property
    def registers(self) -> int | None:
        """Registers of a thread; None on the CPU. Raises as ``cubin``."""
        return _most(part.registers for part in self.parts)

    @property
    def local_bytes(self) -> int | None:
        """Bytes of a thread's memory: spilled registers and indexed arrays; None on the CPU. Raises as ``cubin``."""
        return _most(part.local_bytes for part in self.parts)

    @property
    def spilled_bytes(self) -> int | None:
        """Bytes that a thread stores for want of registers; None on the CPU. Raises as ``cubin``."""
        return _most(part.spilled_bytes for part in self.parts)


def _most(found: Iterable[int | None]) -> int | None:
    return max((number for number in found if number is not None), default=None)
