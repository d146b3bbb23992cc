"""Kernels on the CPU: compile the emitted C++, load it, run its blocks on all cores."""

from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tilekit.codegen import headers
from tilekit.codegen.cpu import ENTRY, LONG, emit_cpu
from tilekit.codegen.gemm.products import units_of
from tilekit.codegen.gemm.units import Units
from tilekit.codegen.refs import Site
from tilekit.codegen.storage import ALIGNMENT, Storage, round_up
from tilekit.codegen.target import Target
from tilekit.config import config
from tilekit.errors import CompileError, KernelTypeError
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function, walk
from tilekit.ir.nesting import nesting, room_for
from tilekit.ir.types import ArrayType
from tilekit.passes import Observer, run_pipeline
from tilekit.passes.activity import written_positions
from tilekit.passes.uniformity import runs_lanes
from tilekit.runtime import cache, faults
from tilekit.runtime.dump import Dump
from tilekit.runtime.keys import DIGITS, key_of
from tilekit.runtime.libraries import load_library
from tilekit.runtime.parallel import in_parallel
from tilekit.runtime.pool import run_blocks
from tilekit.runtime.progress import progress
from tilekit.runtime.toolchain import Toolchain, absence, find_toolchain, library_suffix
from tilekit.runtime.warm import Again, Like
from tilekit.runtime.why import reason

_FORMATS = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H",
            "uint32": "I", "uint64": "Q", "float16": "e", "bfloat16": "H", "float32": "f", "float64": "d"}  # fmt: skip
Report = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p)
Entry = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_void_p)
LAUNCH = "4qiiP"
"""``tk::Launch``, which the parameters follow."""


Arena = tuple[int, int, Any]
"""Bytes of tile storage, its address, which is aligned, and what keeps it alive."""


@dataclass(frozen=True)
class Generated:
    """The C++ of a kernel, before any compiler was asked."""

    function: Function
    source: str
    arena: int
    """Bytes of tile storage that a running block needs."""
    sites: tuple[Site, ...]
    serial: bool
    """Whether blocks must run in order, so that results do not depend on how many threads there are: the kernel prints,
    updates floats atomically, or uses what an atomic update has found."""
    lanes: int | None = None
    """Lanes of a block, where it has any of its own."""
    storage: Storage = field(default_factory=Storage)
    """Where its tiles lie."""
    threads: int = 1
    """Threads that run a block."""
    together: int = 1
    """Points that a thread runs in a launch with many."""

    @property
    def units(self) -> Units:
        """What its code is linked with."""
        return units_of(self.function)


def generate(function: Function, target: Target, observe: Observer = lambda name, fn: None) -> Generated:
    """Run the passes and emit C++; ``observe`` sees the function after each pass."""
    dump = Dump(function.name)

    def seen(name: str, fn: Function) -> None:
        dump.observe(name, fn)
        observe(name, fn)

    with room_for(nesting(function.body)):
        lowered, storage = run_pipeline(function, target, seen)
        source, sites = emit_cpu(lowered, storage, target)
    dump.emitted("cpu", "cpp", source)
    lanes = target.block_dim if runs_lanes(function, target.tiled) else None
    return Generated(lowered, source, storage.size, tuple(sites), _is_serial(lowered), lanes, storage)


def _is_serial(function: Function) -> bool:
    ops = list(walk(function.body))
    blocks = [function.body, *(block for op in ops for block in op.blocks)]
    used = {value for op in ops for value in op.inputs()} | {value for block in blocks for value in block.results}
    for op in ops:
        if op.builtin.ordered or (op.builtin.atomics and not used.isdisjoint(op.results)):
            return True
        for name in op.builtin.atomics:
            if op.operands[name].type.dtype.is_float:  # type: ignore[union-attr]
                return True
    return False


def build(generated: Generated, toolchain: Toolchain, debug: bool, fast_math: bool) -> Path:
    """The shared library of a generated kernel, from the cache or the compiler."""
    long = generated.source.count("\n") > LONG
    flags = toolchain.flags_of(debug, fast_math, long)
    key = key_of(
        source=generated.source,
        headers=headers.digest(),
        compiler=toolchain.fingerprint,
        flags=list(flags),
        tilekit=cache.tilekit_version(),
    )
    name = f"kernel{library_suffix()}"

    describe = {
        "kernel": generated.function.name,
        "compiler": f"{toolchain.name} {toolchain.version}",
        "flags": " ".join(flags),
        "headers": headers.digest()[:DIGITS],
        "compiler, flags and processor": toolchain.fingerprint[:DIGITS],
    }

    def compile_into(folder: Path) -> None:
        source = folder / "kernel.cpp"
        source.write_text(generated.source, encoding="utf-8")
        what = f"compiling kernel {generated.function.name!r} with {toolchain.name}"
        with progress(what, lambda: reason("cpu", describe)):
            toolchain.compile(source, folder / name, [headers.NATIVE], debug, fast_math, long)

    return cache.get_or_build("cpu", key, compile_into, describe) / name


class Pace:
    """How long blocks take in launches that are alike, as far as that is known."""

    __slots__ = ("block",)

    def __init__(self) -> None:
        self.block = _UNKNOWN
        """Nanoseconds of one, in the last launch that ran on one thread."""


class CpuKernel:
    """A compiled kernel: packs arguments and runs blocks."""

    def __init__(self, generated: Generated, library: Path, target: Target, entry: str = ENTRY) -> None:
        self.generated = generated
        self.library = library
        self.block_dim = target.block_dim
        self.entry: Callable[..., None] = Entry((entry, load_library(library)))
        self.types = {name: value.type for name, value in generated.function.params.items()}
        self._pack = struct.Struct(LAUNCH + "".join(map(format_of, self.types.values()))).pack
        self._tail = (*(1,) * (4 - target.ndim), target.ndim, target.block_dim)
        self._gathers = generated.lanes is not None and not target.tiled
        """Whether a block is ``block_dim`` consecutive points."""
        self.written = written_positions(generated.function)
        """Which of its arrays it may write."""
        self._prints = any(site.render is not None for site in generated.sites)
        self._pace = Pace()
        """Of launches that differ from each other, where one says what the next may take."""

    def run(self, values: Sequence[Any], grid: tuple[int, ...], blocks: int) -> None:
        """Run ``blocks`` blocks over ``grid``; ``values`` are pointers, shapes, strides and numbers in order."""
        blocks = self._blocks(blocks)
        if blocks == 0:
            return
        if self._prints:
            # Printing may launch other kernels on this thread. Such blocks run in order, so one arena is enough.
            memory = _new_arena(self.generated.arena)
            with faults.reporting(self.generated.sites) as (report, fault):
                self._run(self._packed(grid, report, values), blocks, grid, fault, lambda size: memory, self._pace)
        else:
            self._run(self._packed(grid, 0, values), blocks, grid, faults.current(), _arena, self._pace)

    def _blocks(self, points: int) -> int:
        return -(-points // self.block_dim) if self._gathers else points

    def again(self, like: Like) -> Again:
        """Launches that differ in addresses and numbers."""
        grid, blocks = like.grid, self._blocks(like.points)
        known: tuple[Sequence[int], bytes] = (), b""
        pace = Pace()

        def launch(pointers: Sequence[int], numbers: Sequence[Any], stream: Any) -> bool:
            nonlocal known
            if self._prints:
                self.run(like.with_others(pointers, numbers), grid, like.points)
                return True
            before, data = known
            if numbers or pointers != before:
                data = self._packed(grid, 0, like.with_others(pointers, numbers))
                known = pointers, data
            self._run(data, blocks, grid, faults.current(), _arena, pace)
            return True

        return launch

    def _packed(self, grid: tuple[int, ...], report: int, values: Sequence[Any]) -> bytes:
        try:
            return self._pack(*grid, *self._tail, report, *values)
        except (struct.error, TypeError, OverflowError) as error:
            raise KernelTypeError(f"kernel {self.generated.function.name!r}: {error}") from None

    def _run(
        self,
        data: bytes,
        blocks: int,
        grid: tuple[int, ...],
        fault: faults.Fault,
        arena: Callable[[int], Arena],
        pace: Pace,
    ) -> None:
        try:
            if blocks == 1 or pace.block * blocks <= _TINY:
                clock = time.perf_counter_ns
                memory = arena(self.generated.arena)
                start = clock()
                self.entry(data, 0, blocks, memory[1], fault.address)
                pace.block = (clock() - start) // blocks + 1
            else:
                self._run_shared(data, blocks, fault, arena, pace)
            if fault.record.kind:
                faults.raise_error(fault, self.generated, (blocks,) if self._gathers else grid)
        except BaseException:  # also Ctrl-C: what was recorded must not be met by the next launch
            fault.take()
            raise

    def _run_shared(
        self, data: bytes, blocks: int, fault: faults.Fault, arena: Callable[[int], Arena], pace: Pace
    ) -> None:
        entry, size, address = self.entry, self.generated.arena, fault.address

        def some(begin: int, end: int, worker: int) -> None:
            memory = arena(size)
            entry(data, begin, end, memory[1], address)
            if fault.interrupted:
                raise faults.interrupts.pop()

        start = time.perf_counter_ns()
        run_blocks(some, blocks, serial=self.generated.serial, halt=fault.halt)
        took = time.perf_counter_ns() - start
        # Whether other threads helped is not known here, but in so little time they did not.
        pace.block = took // blocks + 1 if took < _TINY else _UNKNOWN


_UNKNOWN = 1 << 62
_TINY = 20_000
"""Nanoseconds of work below which a launch does not ask the pool."""
_scratch = threading.local()
_NO_ARENA: Arena = (-1, 0, None)


def _arena(size: int) -> Arena:
    """This thread's tile storage, grown as needed. Whoever runs a kernel in it holds it until then."""
    if faults.answering():  # inside a kernel that runs in it
        return _new_arena(size)
    found: Arena = getattr(_scratch, "arena", _NO_ARENA)
    if found[0] < size:
        found = _scratch.arena = _new_arena(size)
    return found


def _new_arena(size: int) -> Arena:
    memory = np.empty(size + 2 * ALIGNMENT, np.uint8)
    address = round_up(memory.ctypes.data + 8)
    ctypes.c_void_p.from_address(address - 8).value = faults.breath_of_thread()  # as native/breath.h finds it
    return size, address, memory


def format_of(type: Any) -> str:
    if isinstance(type, ArrayType):
        return f"P{2 * type.ndim}q"
    letter = _FORMATS[type.dtype.name]
    return f"{letter}{8 - type.dtype.itemsize}x"


def compile_library(generated: Generated, options: Mapping[str, Any]) -> Path:
    """The shared library of a generated kernel under the options in force; ``options`` are the kernel's own.

    Raises:
        CompileError: no compiler was found, or it refused the code.
    """
    toolchain = find_toolchain()
    if toolchain is None:
        raise CompileError(absence())
    debug = options.get("mode", config.mode) == "debug"
    return build(generated, toolchain, debug, bool(options.get("fast_math", config.fast_math)))


def cpu_target(form: LaunchForm) -> Target:
    """The CPU under the options in force."""
    options = (config.index_checks, config.checked, config.line_directives)
    launch = (form.block_dim or 1, form.tiled, form.ndim or 1)
    return Target("cpu", "", *launch, *options, ragged=form.ragged, whole=form.whole)


def compile_cpu(
    functions: Sequence[Function], forms: Sequence[LaunchForm], options: Mapping[str, Any]
) -> list[CpuKernel]:
    """Generate, compile and load kernels, one for each function; raises as :func:`compile_library`."""
    targets = [cpu_target(form) for form in forms]
    generated = [generate(*pair) for pair in zip(functions, targets, strict=True)]
    libraries = in_parallel([partial(compile_library, item, options) for item in generated])
    return [CpuKernel(*each) for each in zip(generated, libraries, targets, strict=True)]
