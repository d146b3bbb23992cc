"""``tk.explain``: what a kernel becomes, in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from inspect import signature
from typing import TYPE_CHECKING, Any

from tilekit.codegen.architectures import registers_limit, shared_limit
from tilekit.errors import MissingPackageError

if TYPE_CHECKING:
    from tilekit.codegen.placed import Placed
    from tilekit.runtime.compiled import Compiled
    from tilekit.runtime.compiled_part import CompiledPart

__all__ = ["explain"]


def explain(kernel: Any, *args: Any, adjoint: bool = False, **options: Any) -> None:
    """Print what ``tk.compile`` finds of a kernel.

    Printed are how each matrix product is computed and why in that way; where each tile lies, its size and lines;
    barriers; shared memory, registers and spills; and what the code assumes of its arrays. Without NVRTC all but
    registers, spills and what the code itself declares in shared memory is known, and printed.

    Args:
        kernel: The kernel.
        args, options: Those of ``tk.compile``.
        adjoint: Print all this of the kernel's gradient instead, how many bytes each block keeps of what loops carry,
            and what launches under a tape keep so that it is not computed again.

    Raises:
        TilekitError: as ``tk.compile``, except for NVRTC that is not installed.

    Example:
        >>> import tilekit as tk
        >>> @tk.kernel
        ... def total(a: tk.array1d[float], out: tk.array1d[float]):
        ...     i = tk.tid()
        ...     tk.tile_store(out, tk.tile_sum(tk.tile_load(a, shape=64, offset=i * 64)), offset=i)
        >>> tk.explain(total, device="cpu")  # doctest: +ELLIPSIS
        kernel total (...:1), launch_tiled, compiled for the CPU
          blocks: dim[0]; 1 thread each
          products: none
          tiles:
              256 bytes  tile<64xf32>  memory  line 4
                4 bytes  tile<1xf32>   memory  line 4
          memory of a block: 320 bytes
    """
    from tilekit.runtime.compile import check_arch, prepare

    given = signature(prepare).bind(kernel, *args, **options).arguments
    with suppress(MissingPackageError):
        check_arch(given.get("device"), given.get("arch", 90))
    compiled = prepare(kernel, *args, **options)
    lines = [explanation(compiled.adjoint), *_kept_under_tapes(compiled)] if adjoint else [explanation(compiled)]
    print(*lines, sep="\n")


def _kept_under_tapes(compiled: Compiled) -> Iterator[str]:
    """What launches of a kernel keep for its gradient, a line for each array."""
    from tilekit.passes.save_values import save_values

    (launch,) = compiled.how.program.launches
    found = save_values(launch.function, compiled.form)
    for name, item in found.program.scratch.items() if found is not None else ():
        yield f"  under a tape, loaded instead of computed again: {name}: {item}"


def explanation(compiled: Compiled) -> str:
    """What :func:`explain` prints; of a program of several launches its scratch, and all of that for each launch."""
    form = "launch_tiled" if compiled.form.tiled else "launch"
    where = "the CPU" if compiled.device == "cpu" else f"sm_{compiled.arch}"
    lines = [f"{compiled.title}, {form}, compiled for {where}"]
    added = {**compiled.program.scratch, **compiled.program.computed}
    lines += [f"  {name}: {item}" for name, item in added.items()]
    if compiled.program.kept_bytes:
        lines.append(f"  kept of loops: {compiled.program.kept_bytes} bytes of each block")
    for part in compiled.parts:
        if len(compiled.parts) == 1:
            lines += _of_launch(part)
        else:
            lines += [f"  {part.launch}", *(f"  {line}" for line in _of_launch(part))]
    if compiled.program.sums:
        lines += ["  gradients:", *(f"    {item}" for item in compiled.program.sums)]
    if compiled.assumptions:
        lines += ["  assumed of the arrays:", *(f"    {text}" for text in compiled.assumptions)]
    return "\n".join(lines)


def _of_launch(part: CompiledPart) -> list[str]:
    lines = [f"  blocks: {part.blocks}; {_count(part.target.threads, 'thread')} each"]
    products = [f"    {_line(plan.location)}: {plan}" for plan in part.plans]
    lines += ["  products:", *products] if products else ["  products: none"]
    lines += ["  tiles:", *_tiles(part)] if part.tiles else ["  tiles: none"]
    on_cpu = part.target.is_cpu
    lines += [f"  memory of a block: {part.arena_bytes} bytes"] if on_cpu else _resources(part)
    return lines


def _line(location: Any) -> str:
    return f"line {location.line}" if location is not None else "no line"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _tiles(part: CompiledPart) -> list[str]:
    rows = [(f"{place.size}", str(place.type), _place(place, part), place.lines) for place in part.tiles]
    size, type, where = (max(len(row[column]) for row in rows) for column in range(3))
    return [f"    {a:>{max(size, 5)}} bytes  {b:<{type}}  {c:<{where}}  {d}" for a, b, c, d in rows]


def _place(place: Placed, part: CompiledPart) -> str:
    if place.layout is not None:
        held = place.layout.registers
        return f"registers, {_count(held, 'element')} a thread" if isinstance(held, int) else "registers, by cuBLASDx"
    return "memory" if part.target.is_cpu else f"shared memory at {place.buffer.offset}"


def _resources(part: CompiledPart) -> list[str]:
    limit = shared_limit(part.target.arch)
    most = f" of {limit}" if limit is not None else ""
    try:
        shared, missing = part.build().shared_bytes, None
    except MissingPackageError as error:
        shared, missing = part.arena_bytes, error.message
    lines = [f"  barriers: {part.barriers}", f"  shared memory: {shared}{most} bytes"]
    if missing is not None:
        return [*lines, f"  registers: not known: {missing}"]
    lines.append(f"  registers: {part.registers} of {registers_limit()} a thread")
    lines.append(f"  spills: {part.spilled_bytes} bytes; memory of a thread: {part.local_bytes} bytes")
    return lines
