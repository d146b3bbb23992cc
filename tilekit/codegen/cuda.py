"""The CUDA dialect: one translation unit whose kernel runs a block, or a point of the launch, in each of its blocks."""

from __future__ import annotations

from collections.abc import Sequence

from tilekit.codegen.cpu import ENTRY, params_struct
from tilekit.codegen.cuda_emitter import CudaEmitter
from tilekit.codegen.gemm.products import units_of
from tilekit.codegen.headers import whole
from tilekit.codegen.refs import Site
from tilekit.codegen.storage import Storage
from tilekit.codegen.target import Target
from tilekit.codegen.text import cpp_type, member
from tilekit.ir.core import Function
from tilekit.ir.types import ArrayType, DType

_BYTES = 16
"""What a thread with several points moves at once: what a vector access does."""
_MOST_TOGETHER = 8
_MOST_OPS = 24
"""Kernels with more keep a GPU busy by what they compute, and their code several times over would only be long."""


def emit_cuda(fn: Function, storage: Storage, target: Target) -> tuple[str, list[Site]]:
    """The source of a function, and the places in it that can report.

    Its entry point is ``tk_launch(const Args)``, with the ``tk::Launch`` and the ``Params`` in one. Each block of the
    launch has ``target.threads`` threads and runs one block of the kernel; where a kernel under ``launch`` has nothing
    that lanes do together, each thread runs one point, or :func:`points_together` where the grid is that much smaller.
    """
    emitter = _emitted(fn, storage, target, together=points_together(fn, target, ()))
    together = points_together(fn, target, emitter.sites)
    if emitter.kept is not None and together == 1:
        emitter = _emitted(fn, storage, target, together)
    if emitter.kept is not None:
        head, tail = _head_of_points(fn, target, emitter.kept), _tail_of_points(fn, target, emitter.kept, together)
    else:
        head, tail = _head(fn, target, emitter.exchanged), _tail(fn, target, target.runs_points(fn))
    units = [f"TK_GEMM_UNIT({unit.name})  // {unit}\n" for unit in units_of(fn)]
    return whole(fn.name, "\n".join([*units, head, *emitter.lines, tail])), emitter.sites


def _emitted(fn: Function, storage: Storage, target: Target, together: int) -> CudaEmitter:
    emitter = CudaEmitter(fn, storage, target, alone=target.runs_points(fn))
    for name, value in fn.params.items():
        emitter.scalars[value] = f"p.{member(name)}"
    if together > 1:
        emitter.kept, emitter.depth = [], 2
    emitter.declare_buffers()
    emitter.block(fn.body, ())
    emitter.verify()
    return emitter


def points_together(fn: Function, target: Target, sites: Sequence[Site]) -> int:
    """How many points a thread may run side by side: all that they read comes before all that they write.

    One access of four bytes at a time leaves a GPU's memory idle for a third of the time, however many threads wait.
    A point that can report at one of the ``sites`` stops there, and would stop those beside it.
    """
    if not target.runs_points(fn) or sites or target.checked or len(fn.body.ops) > _MOST_OPS:
        return 1
    written, size = False, 0
    for op in fn.body.ops:
        own = op.builtin
        if op.blocks or own.atomics or own.ordered or (own.side_effect and not own.writes) or (own.reads and written):
            return 1
        written = written or bool(own.writes)
        touched = {*own.reads, *own.writes}
        types = [type for name, type in op.types().items() if name in touched]
        size = max([size, *(type.dtype.itemsize for type in types)])
    return min(max(_BYTES // size, 1), _MOST_TOGETHER) if size else 1


def _head(fn: Function, target: Target, exchanged: int) -> str:
    coordinates = ", ".join(f"tk::i32 c{axis}" for axis in range(target.ndim))
    memory = f"    __shared__ __align__(16) char exchange[{exchanged}];\n" if exchanged else ""
    names = ("p", "launch", "block", "arena", "error", "team", *(f"c{axis}" for axis in range(target.ndim)))
    return (
        f"{_structs(fn)}"
        f"TK_FN bool run_block(const Params& p, const tk::Launch& launch, tk::i64 block, {coordinates}, char* arena,\n"
        "    tk::Error* error)\n{\n"
        f"    {_team(target)};\n{memory}"
        f"    {' '.join(f'(void){name};' for name in names)}"
    )


def _structs(fn: Function) -> str:
    return f"{params_struct(fn)}struct Args {{\n    tk::Launch launch;\n    Params p;\n}};\n\n"


def _team(target: Target) -> str:
    whole_warps = target.threads % 32 == 0
    return f"const tk::BlockTeam<{target.threads}> team" if whole_warps else "const tk::Team team"


def _head_of_points(fn: Function, target: Target, kept: Sequence[DType]) -> str:
    """The beginning of what computes N points, a block's threads apart."""
    places = "".join(
        f"    {cpp_type(dtype)}* place{number}[N];\n    {cpp_type(dtype)} kept{number}[N];\n"
        for number, dtype in enumerate(kept)
    )
    names = ("block", "team", *(f"c{axis}" for axis in range(target.ndim)))
    coordinates = "".join(f"        const tk::i32 c{axis} = c[{axis}];\n" for axis in range(target.ndim))
    return (
        f"{_structs(fn)}"
        "template <int N> TK_FN void run_points(const Params& p, const tk::Launch& launch, tk::u32 first)\n{\n"
        f"    {_team(target)};\n{places}"
        "    TK_UNROLL\n    for (int q = 0; q < N; ++q) {\n"
        f"        const tk::i64 block = first + q * {target.threads}u;\n"
        f"        tk::i32 c[{target.ndim}];\n        tk::coordinates(launch, block, c);\n{coordinates}"
        f"        {' '.join(f'(void){name};' for name in names)}"
    )


def _known_strides(fn: Function, target: Target) -> list[str]:
    """Assignments of the strides that the class of each array fixes, so that the compiler knows them."""
    lines = []
    for name, value in fn.params.items():
        known = target.arrays.get(name)
        if known is None or not isinstance(value.type, ArrayType):
            continue
        for axis in range(value.type.ndim):
            if axis == known.unit_axis or known.zero[axis]:
                step = value.type.dtype.itemsize if axis == known.unit_axis else 0
                lines.append(f"    p.{member(name)}.stride[{axis}] = {step};\n")
    return lines


def _count(target: Target) -> str:
    return " * ".join(f"(tk::u32)args.launch.dim[{axis}]" for axis in range(target.ndim))


def _number(target: Target, points: bool) -> str:
    """The number of the block, or of the thread's point; threads beyond the last point leave."""
    if not points:
        return "    const tk::i64 block = blockIdx.x;\n"
    count = _count(target)
    return (
        f"    const tk::u32 number = blockIdx.x * {target.threads}u + threadIdx.x;  // of less than 2**31\n"
        f"    if (number >= {count}) return;\n    const tk::i64 block = number;\n"
    )


def _tail(fn: Function, target: Target, points: bool) -> str:
    # Linked code is given fewer registers than it needs, for the sake of more blocks, unless one block is enough.
    bounds = f"{target.threads}, 1" if units_of(fn) else str(target.threads)
    found = f"    tk::i32 c[{target.ndim}];\n    tk::coordinates(args.launch, block, c);\n"
    coordinates = ", ".join(f"c[{axis}]" for axis in range(target.ndim))
    return f"""    return true;
}}

extern "C" __global__ void __launch_bounds__({bounds}) {ENTRY}(const __grid_constant__ Args args)
{{
    extern __shared__ __align__(128) char arena[];
{_number(target, points)}{found}    Params p = args.p;
{"".join(_known_strides(fn, target))}    tk::Error* const error = tk::error_of(args.launch);
    run_block(p, args.launch, block, {coordinates}, arena, error);
}}
"""


def _tail_of_points(fn: Function, target: Target, kept: Sequence[DType], together: int) -> str:
    """All computed points are written; the entry point shares out the points by what the grid is too small for."""
    threads, most = target.threads, target.threads * together
    writes = "".join(f"        *place{number}[q] = kept{number}[q];\n" for number in range(len(kept)))
    return f"""    }}
    TK_UNROLL
    for (int q = 0; q < N; ++q) {{
{writes}    }}
}}

extern "C" __global__ void __launch_bounds__({threads}) {ENTRY}(const __grid_constant__ Args args)
{{
    const tk::u32 count = {_count(target)};  // less than 2**31
    const tk::u32 each = gridDim.x * {threads}u >= count ? {threads}u : {most}u;
    const tk::u32 begin = blockIdx.x * each, end = count - begin < each ? count : begin + each;
    Params p = args.p;
{"".join(_known_strides(fn, target))}    if (end - begin == {most}u) {{
        run_points<{together}>(p, args.launch, begin + threadIdx.x);
    }} else {{
        for (tk::u32 first = begin + threadIdx.x; first < end; first += {threads}u)
            run_points<1>(p, args.launch, first);
    }}
}}
"""
