"""The CUDA dialect: one translation unit whose kernel runs a block, or a point of the launch, in each of its blocks."""

from __future__ import annotations

from tilekit.codegen.cpu import ENTRY, params_struct
from tilekit.codegen.cuda_emitter import CudaEmitter
from tilekit.codegen.gemm import units_of
from tilekit.codegen.headers import whole
from tilekit.codegen.refs import Site
from tilekit.codegen.storage import Storage
from tilekit.codegen.target import Target
from tilekit.codegen.text import member
from tilekit.ir.core import Function, walk
from tilekit.ir.types import ArrayType


def emit_cuda(fn: Function, storage: Storage, target: Target) -> tuple[str, list[Site], int]:
    """The source of a function, the places in it that can report, and the bytes of dynamic shared memory of a block.

    Its entry point is ``tk_launch(const Args)``, with the ``tk::Launch`` and the ``Params`` in one. Each block of the
    launch has ``target.threads`` threads and runs one block of the kernel; where a kernel under ``launch`` has nothing
    that lanes do together, each thread runs one point.
    """
    points = runs_points(fn, target)
    emitter = CudaEmitter(fn, storage, target, alone=points)
    for name, value in fn.params.items():
        emitter.scalars[value] = f"p.{member(name)}"
    emitter.declare_buffers()
    emitter.block(fn.body, ())
    emitter.verify()
    units = [f"TK_GEMM_UNIT({unit.name})  // {unit}\n" for unit in units_of(fn)]
    code = "\n".join([*units, _head(fn, target), *emitter.lines, _tail(fn, target, points)])
    return whole(fn.name, code), emitter.sites, emitter.arena


def runs_points(fn: Function, target: Target) -> bool:
    """Whether each thread runs a point of the launch by itself, after lanes were formed."""
    return not target.tiled and not any(op.builtin.cooperative or _gathers(op) for op in walk(fn.body))


def _gathers(op: object) -> bool:
    return op.builtin.carries and not op.builtin.by_element  # type: ignore[attr-defined]


def _head(fn: Function, target: Target) -> str:
    coordinates = ", ".join(f"tk::i32 c{axis}" for axis in range(target.ndim))
    whole_warps = target.threads % 32 == 0
    team = f"const tk::BlockTeam<{target.threads}> team" if whole_warps else "const tk::Team team"
    names = ("p", "launch", "block", "arena", "error", "team", *(f"c{axis}" for axis in range(target.ndim)))
    return (
        f"{params_struct(fn)}"
        "struct Args {\n    tk::Launch launch;\n    Params p;\n};\n\n"
        f"TK_FN bool run_block(const Params& p, const tk::Launch& launch, tk::i64 block, {coordinates}, char* arena,\n"
        "    tk::Error* error)\n{\n"
        f"    {team};\n"
        f"    {' '.join(f'(void){name};' for name in names)}"
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


def _number(target: Target, points: bool) -> str:
    """The number of the block, or of the thread's point; threads beyond the last point leave."""
    if not points:
        return "    const tk::i64 block = blockIdx.x;\n"
    count = " * ".join(f"(tk::u32)args.launch.dim[{axis}]" for axis in range(target.ndim))
    return (
        f"    const tk::u32 number = blockIdx.x * {target.threads}u + threadIdx.x;  // of less than 2**31\n"
        f"    if (number >= {count}) return;\n    const tk::i64 block = number;\n"
    )


def _tail(fn: Function, target: Target, points: bool) -> str:
    found = f"    tk::i32 c[{target.ndim}];\n    tk::coordinates(args.launch, block, c);\n"
    coordinates = ", ".join(f"c[{axis}]" for axis in range(target.ndim))
    return f"""    return true;
}}

extern "C" __global__ void __launch_bounds__({target.threads}) {ENTRY}(const __grid_constant__ Args args)
{{
    extern __shared__ __align__(128) char arena[];
{_number(target, points)}{found}    Params p = args.p;
{"".join(_known_strides(fn, target))}    tk::Error* const error = tk::error_of(args.launch);
    run_block(p, args.launch, block, {coordinates}, arena, error);
}}
"""
