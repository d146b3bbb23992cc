"""The CPU dialect: one C++ translation unit whose entry point runs a range of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilekit.codegen.emitter import Emitter
from tilekit.codegen.headers import whole
from tilekit.codegen.refs import Site
from tilekit.codegen.storage import Storage
from tilekit.codegen.target import Target
from tilekit.codegen.text import cpp_type, member
from tilekit.ir.core import Function
from tilekit.ir.types import ArrayType

ENTRY = "tk_launch"
LONG = 2000
"""Lines beyond which code is there once and not optimised for vectors: compilers would take minutes, and four times as
long for twice as many."""


def emit_cpu(fn: Function, storage: Storage, target: Target) -> tuple[str, list[Site], int]:
    """The source of a function, the places in it that can report, and the bytes that it needs for tiles.

    Its entry point is ``tk_launch(const tk::Launch*, begin, end, arena, tk::Error*)``; the ``Params`` follow the launch
    in memory. It runs the blocks from ``begin`` to before ``end``, with that many bytes at ``arena`` for tiles.
    """
    emitter = Emitter(fn, storage, target)
    # Code without tiles may be there twice: see _fast_loop.
    emitter.guards = None if storage.buffers else {}
    for name, value in fn.params.items():
        emitter.scalars[value] = f"p.{member(name)}"
    emitter.declare_buffers()
    emitter.block(fn.body, ())
    worth = emitter.guards or (emitter.guards is not None and not target.index_checks)
    worth = worth and len(emitter.lines) <= LONG
    fast = _fast_loop(fn, target.ndim, emitter.guards or {}) if worth else ("", "")
    code = "\n".join([_head(fn, target.ndim), *emitter.lines, _tail(target.ndim, *fast)])
    return whole(fn.name, code), emitter.sites, emitter.arena


def _head(fn: Function, ndim: int) -> str:
    coordinates = ", ".join(f"tk::i32 c{axis}" for axis in range(ndim))
    names = ("p", "launch", "block", "arena", "error", "team", *(f"c{axis}" for axis in range(ndim)))
    unused = " ".join(f"(void){name};" for name in names)
    return (
        f"{params_struct(fn)}"
        "template <bool Guarded>\n"
        f"TK_FN bool run_block(const Params& p, const tk::Launch& launch, tk::i64 block, {coordinates}, char* arena,\n"
        "    tk::Error* error)\n{\n"
        f"    const tk::Team team;\n    {unused}"
    )


def params_struct(fn: Function) -> str:
    """The struct of a function's parameters, in order."""
    fields = "\n".join(f"    {_field(member(name), value.type)};" for name, value in fn.params.items())
    return f"struct Params {{\n{fields or '    int unused;'}\n}};\n\n"


def _field(name: str, type: object) -> str:
    if isinstance(type, ArrayType):
        return f"tk::Array<{cpp_type(type.dtype)}, {type.ndim}> {name}"
    return f"alignas(8) {cpp_type(type.dtype)} {name}"  # type: ignore[attr-defined]


def _call(ndim: int, guarded: bool, params: str) -> str:
    names = [*(f"c{axis}" for axis in range(ndim - 1)), "x"]
    return f"run_block<{str(guarded).lower()}>({params}, *launch, row + (x - x0), {', '.join(names)}, arena, error)"


def _fast_loop(fn: Function, ndim: int, guards: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """What the entry point declares, and a loop for the points of a row whose indices need no check.

    There the elements of every array's last axis are known to lie side by side, so that the compiler may use vectors.
    """
    unit, same = ["true"], []
    for name, value in fn.params.items():
        if isinstance(value.type, ArrayType):
            stride = f"{member(name)}.stride[{value.type.ndim - 1}]"
            unit.append(f"p.{stride} == {value.type.dtype.itemsize}")
            same.append(f"    q.{stride} = {value.type.dtype.itemsize};\n")
    declared = f"    const bool unit = {' && '.join(unit)};\n    Params q = p;\n{''.join(same)}"
    declared += "    tk::i64 safe = 0x7fffffff;\n"
    declared += "".join(f"    if ({extent} < safe) safe = {extent};\n" for extent in guards.get(f"c{ndim - 1}", ()))
    outer = ["unit", *(f"c{i} < {extent}" for i in range(ndim - 1) for extent in guards.get(f"c{i}", ()))]
    loop = f"""        if ({" && ".join(outer)})
            for (const tk::i32 fast = (tk::i32)(safe < x1 ? safe : x1); x < fast; ++x)
                if (!{_call(ndim, False, "q")}) return;
"""
    return declared, loop


def _tail(ndim: int, declared: str = "", fast: str = "") -> str:
    """The entry point: goes through the points row by row, so that a coordinate is an increment, not a division."""
    last = ndim - 1
    start = "".join(f"    tk::i32 c{i} = (tk::i32)tk::coordinate(*launch, begin, {i});\n" for i in range(last))
    carry = ""
    for axis in range(last):
        carry = f"if (c{axis} + 1ll < launch->dim[{axis}]) {{ ++c{axis}; }} else {{ c{axis} = 0; {carry} }}"
    return f"""    return true;
}}

TK_COLD void run_blocks(const tk::Launch* TK_RESTRICT launch, tk::i64 begin, tk::i64 end, char* arena, tk::Error* error)
{{
    const Params p = *(const Params*)(launch + 1);
{declared}{start}    tk::i32 x0 = (tk::i32)tk::coordinate(*launch, begin, {last});
    for (tk::i64 row = begin; row < end && !tk::has_failed(error);) {{
        const tk::i64 left = launch->dim[{last}] - x0;
        const tk::i64 x1 = x0 + (end - row < left ? end - row : left);
        tk::i32 x = x0;
{fast}        const tk::i32 xl = (tk::i32)(x1 - 1);  // the last may be the greatest int32
        if (x <= xl) {{
            for (;; ++x) {{
                if (!{_call(ndim, True, "p")}) return;
                if (x == xl) break;
            }}
        }}
        row += x1 - x0;
        x0 = 0;
        {carry}
    }}
}}

TK_API void {ENTRY}(const tk::Launch* launch, tk::i64 begin, tk::i64 end, char* arena, tk::Error* error)
{{
    const tk::FloatState ieee;
    run_blocks(launch, begin, end, arena, error);
}}
"""
