"""One launch of a program, compiled for one device: what its code is, and what that needs."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tilekit.codegen.architectures import shared_limit
from tilekit.codegen.cpu import ENTRY
from tilekit.codegen.gemm.plan import Plan
from tilekit.codegen.gemm.products import plans_of
from tilekit.codegen.placed import Placed, placed_tiles
from tilekit.codegen.shared_memory import check_shared_memory
from tilekit.codegen.target import Target
from tilekit.errors import CompileError
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.program import Launch
from tilekit.ir.sizes import CeilDiv, Dim, PointBlocks, Product, Size, evaluate, point_blocks
from tilekit.runtime.cpu import Generated, compile_library
from tilekit.runtime.cuda import build
from tilekit.runtime.cuda.elf import Resources, read_resources
from tilekit.runtime.cuda.nvrtc import Cubin


@dataclass(frozen=True)
class CompiledLaunch:
    """What one launch of a compiled kernel runs."""

    name: str
    blocks: Size
    """How many, where the grid is known; else in terms of it."""
    threads: int
    """Of a block."""
    shared_bytes: int


@dataclass(frozen=True, repr=False)
class CompiledPart:
    """One launch of a program. Compilers are asked where first needed."""

    launch: Launch
    """As before all passes."""
    form: LaunchForm
    grid: tuple[int, ...] | None
    """Of the user's launch, where it was given."""
    target: Target
    generated: Generated
    options: Mapping[str, Any]
    """The kernel's own."""

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.name

    @property
    def function(self) -> Function:
        """After all passes."""
        return self.generated.function

    @property
    def source(self) -> str:
        """The emitted code."""
        return self.generated.source

    @property
    def plans(self) -> tuple[Plan, ...]:
        """How each matrix product is computed, and why in that way."""
        return plans_of(self.function, self.target)

    @property
    def arena_bytes(self) -> int:
        """Bytes of tile storage that a running block needs."""
        return self.generated.arena

    @property
    def tiles(self) -> list[Placed]:
        """Where the tiles lie, the largest first."""
        return placed_tiles(self.function, self.generated.storage)

    @property
    def barriers(self) -> int:
        """Places in the code where the threads of a block wait for each other, besides those inside products."""
        return self.source.count("team.sync();")

    @property
    def points(self) -> Size:
        """Of its grid: a number where it is known."""
        sizes = self.launch.grid or tuple(Dim(axis) for axis in range(self.form.ndim or 1))
        points: Size = functools.reduce(Product, sizes)
        try:
            return math.prod(evaluate(size, self.grid, {}) for size in sizes) if self.grid is not None else points
        except KeyError:  # it depends on arguments
            return points

    @property
    def blocks(self) -> Size:
        """How many a launch runs: a number where the grid is known, else in terms of it."""
        lanes = self.generated.lanes if self.target.is_cpu else self.generated.lanes or self.target.threads
        each = 1 if self.form.tiled else lanes or 1
        together, points = self.generated.together, self.points
        if isinstance(points, int):
            return point_blocks(points, each, together)
        if together > 1:
            return PointBlocks(points, each, together)
        return points if each == 1 else CeilDiv(points, each)

    @property
    def summary(self) -> CompiledLaunch:
        """What it runs; raises as ``cubin``."""
        return CompiledLaunch(self.name, self.blocks, self.target.threads, self.shared_bytes)

    def build(self) -> CompiledPart:
        """Ask the compiler now; what it refuses is raised as by ``cubin`` and ``library``."""
        _ = self.library if self.target.is_cpu else self.cubin
        return self

    @cached_property
    def library(self) -> Path:
        """The shared library, from the cache or the compiler; the source lies beside it.

        Raises:
            CompileError: no compiler was found, or it refused the code; or the kernel was compiled for CUDA.
        """
        if not self.target.is_cpu:
            raise CompileError(
                f"kernel {self.name!r} is compiled for sm_{self.target.arch}: it has a cubin, no library"
            )
        return compile_library(self.generated, self.options.get("module_options") or {})

    @cached_property
    def built(self) -> tuple[Cubin, Path]:
        """The machine code, and the folder that it lies in; raises as ``cubin``."""
        if self.target.is_cpu:
            raise CompileError(
                f"kernel {self.name!r} was compiled for the CPU: it has a library, no cubin; leave out "
                "device='cpu', or give arch=90"
            )
        return build.build(self.source, self.name, self.target, self.options, self.generated.units)

    @property
    def cubin(self) -> bytes:
        """The machine code for the GPU, an ELF file, from the cache or the compiler.

        Raises:
            CompileError: NVRTC refused the code; or the kernel was compiled for the CPU.
            MissingPackageError: NVRTC is not installed.
            KernelValueError: a block needs more shared memory than the architecture has.
        """
        used = self.arena_bytes + self.resources.shared_bytes
        place = shared_limit(self.target.arch), f"sm_{self.target.arch}"
        check_shared_memory(self.function, self.generated.storage, used, *place)
        return self.built[0].code

    @property
    def folder(self) -> Path:
        """Where the library or cubin lies, and its source beside it."""
        return self.library.parent if self.target.is_cpu else self.built[1]

    @cached_property
    def resources(self) -> Resources:
        """What the cubin says of the kernel; raises as ``cubin``."""
        return read_resources(self.built[0].code)[ENTRY]

    @property
    def shared_bytes(self) -> int:
        """Bytes of memory that a block needs for tiles and what its threads exchange; raises as ``cubin``."""
        return self.arena_bytes if self.target.is_cpu else self.arena_bytes + self.resources.shared_bytes

    @property
    def registers(self) -> int | None:
        """Registers of a thread; None on the CPU. Raises as ``cubin``."""
        return None if self.target.is_cpu else self.resources.registers

    @property
    def local_bytes(self) -> int | None:
        """Bytes of a thread's memory: spilled registers and indexed arrays; None on the CPU. Raises as ``cubin``."""
        return None if self.target.is_cpu else self.resources.local_bytes

    @property
    def spilled_bytes(self) -> int | None:
        """Bytes that a thread stores for want of registers; None on the CPU. Raises as ``cubin``."""
        return None if self.target.is_cpu else self.built[0].spilled
