"""The CPU dialect: one C++ translation unit whose entry point runs a range of blocks."""

from __future__ import annotations

from tilekit.codegen.emitter import Emitter
from tilekit.codegen.headers import whole
from tilekit.codegen.points import Bounds, PointEmitter
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


def emit_cpu(fn: Function, storage: Storage, target: Target) -> tuple[str, list[Site]]:
    """The source of a function, and the places in it that can report.

    Its entry point is ``tk_launch(const tk::Launch*, begin, end, arena, tk::Error*)``; the ``Params`` follow the launch
    in memory. It runs the blocks from ``begin`` to before ``end``, with the storage of tiles at ``arena``.
    """
    emitter = Emitter(fn, storage, target) if storage.buffers else PointEmitter(fn, storage, target)
    for name, value in fn.params.items():
        emitter.scalars[value] = f"p.{member(name)}"
    emitter.declare_buffers()
    emitter.block(fn.body, ())
    rows = _Rows(target.ndim)
    if isinstance(emitter, PointEmitter) and len(emitter.lines) <= LONG:
        rows = _Rows(target.ndim, emitter.safe, emitter.inside)
    code = "\n".join([_head(fn, target.ndim), *emitter.lines, rows.text(fn)])
    return whole(fn.name, code), emitter.sites


def _head(fn: Function, ndim: int) -> str:
    coordinates = ", ".join(f"tk::i32 c{axis}" for axis in range(ndim))
    names = ("p", "launch", "block", "arena", "error", "breath", "team", *(f"c{axis}" for axis in range(ndim)))
    unused = " ".join(f"(void){name};" for name in names)
    return (
        f"{params_struct(fn)}"
        "template <bool Guarded, bool Inside>\n"
        f"TK_FN bool run_block(const Params& p, const tk::Launch& launch, tk::i64 block, {coordinates}, char* arena,\n"
        "    tk::Error* error, tk::Breath& breath)\n{\n"
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


def _unit(fn: Function) -> tuple[str, str]:
    """Whether the elements of every array's last axis lie side by side, and assignments that say so to the compiler."""
    unit, same = ["true"], []
    for name, value in fn.params.items():
        if isinstance(value.type, ArrayType):
            stride = f"p.{member(name)}.stride[{value.type.ndim - 1}]"
            unit.append(f"{stride} == {value.type.dtype.itemsize}")
            same.append(f"{stride} = {value.type.dtype.itemsize};")
    return " && ".join(unit), " ".join(same)


class _Rows:
    """The entry point: goes through the points row by row, so that a coordinate is an increment, not a division.

    A row is cut where points begin and end to be safe, and inside. Code for these has fewer branches, or none, so that
    the compiler may use vectors.
    """

    def __init__(self, ndim: int, safe: Bounds | None = None, inside: Bounds | None = None) -> None:
        self.ndim = ndim
        self.kinds: list[tuple[str, Bounds]] = []
        if safe is not None:
            self.kinds.append(("safe", safe))
        if inside:
            self.kinds.append(("inside", inside))

    def text(self, fn: Function) -> str:
        """All that follows the code of a point."""
        unit, same = _unit(fn)
        outer = "".join(f"tk::i32 c{axis}, " for axis in range(self.ndim - 1))
        names = "".join(f"c{axis}, " for axis in range(self.ndim - 1))
        return f"""    return true;
}}

template <bool Guarded, bool Inside>
TK_COLD bool run_row(const Params& given, const tk::Launch* TK_RESTRICT launch, tk::i64 block, {outer}tk::i64 begin,
    tk::i64 end, char* arena, tk::Error* error, tk::Breath& breath)
{{
    Params p = given;
    if (Guarded) {{  // the last may be the greatest int32
        for (tk::i64 x = begin; x < end; ++x, ++block)
            if (!run_block<Guarded, Inside>(p, *launch, block, {names}(tk::i32)x, arena, error, breath)) return false;
        return true;
    }}
    {same}
    const tk::i32 last = (tk::i32)end;
    for (tk::i32 x = (tk::i32)begin; x < last; ++x, ++block)
        if (!run_block<Guarded, Inside>(p, *launch, block, {names}x, arena, error, breath)) return false;
    return true;
}}

{self._blocks(unit)}
TK_API void {ENTRY}(const tk::Launch* launch, tk::i64 begin, tk::i64 end, char* arena, tk::Error* error)
{{
    const tk::FloatState ieee;
    run_blocks(launch, begin, end, arena, error);
}}
"""

    def _blocks(self, unit: str) -> str:
        last = self.ndim - 1
        start = "".join(f"    tk::i32 c{i} = (tk::i32)tk::coordinate(*launch, begin, {i});\n" for i in range(last))
        carry = ""
        for axis in range(last):
            carry = f"if (c{axis} + 1ll < launch->dim[{axis}]) {{ ++c{axis}; }} else {{ c{axis} = 0; {carry} }}"
        return f"""\
TK_COLD void run_blocks(const tk::Launch* TK_RESTRICT launch, tk::i64 begin, tk::i64 end, char* arena, tk::Error* error)
{{
    const Params p = *(const Params*)(launch + 1);
    tk::Breath breath;
{self._declared(unit)}{start}    tk::i64 x0 = tk::coordinate(*launch, begin, {last});
    for (tk::i64 row = begin; row < end && !tk::has_failed(error);) {{
        const tk::i64 left = launch->dim[{last}] - x0;
        const tk::i64 x1 = x0 + (end - row < left ? end - row : left);
{self._cut()}        row += x1 - x0;
        x0 = 0;
        {carry}
    }}
}}
"""

    def _declared(self, unit: str) -> str:
        """For each kind of point, whether there may be any, and from where to where each coordinate is then."""
        text = ""
        for name, bounds in self.kinds:
            conditions = [unit if name == "safe" else "safe", *bounds.always]
            text += f"    const bool {name} = {' && '.join(f'({item})' for item in conditions)};\n"
            text += f"    tk::i64 {name}_from[{self.ndim}] = {{}}, {name}_to[{self.ndim}];\n"
            for axis in range(self.ndim):
                text += f"    {name}_to[{axis}] = 0x7fffffff;\n"
                for found, sign, place in ((bounds.lower, ">", "from"), (bounds.upper, "<", "to")):
                    for bound in found.get(f"c{axis}", ()):
                        text += f"    if ({bound} {sign} {name}_{place}[{axis}]) {name}_{place}[{axis}] = {bound};\n"
        return text

    def _cut(self) -> str:
        """Run the parts of a row, in order."""
        last = self.ndim - 1
        cuts = [f"tk::i64 {name}0 = x1, {name}1 = x1;" for name, _ in self.kinds]
        around = "x0", "x1"
        for name, _ in self.kinds:
            row = [name, *(f"c{i} >= {name}_from[{i}] && c{i} < {name}_to[{i}]" for i in range(last))]
            cuts.append(f"if ({' && '.join(row)}) {{")
            cuts.append(f"    {name}0 = tk::between({name}_from[{last}], {around[0]}, {around[1]});")
            cuts.append(f"    {name}1 = tk::between({name}_to[{last}], {name}0, {around[1]});")
            cuts.append("}" if name == "safe" else f"}} else {name}0 = {name}1 = {around[1]};")
            around = f"{name}0", f"{name}1"
        names = [name for name, _ in self.kinds]
        ends = ["x0", *(f"{name}0" for name in names), *(f"{name}1" for name in reversed(names)), "x1"]
        kinds = ["true, false", "false, false", "false, true"][: len(names) + 1]
        kinds += kinds[-2::-1]
        outer = "".join(f"c{axis}, " for axis in range(last))
        for kind, start, end in zip(kinds, ends[:-1], ends[1:], strict=True):
            call = f"run_row<{kind}>(p, launch, row + ({start} - x0), {outer}{start}, {end}, arena, error, breath)"
            cuts.append(f"if ({start} < {end} && !{call}) return;")
        return "".join(f"        {line}\n" for line in cuts)
