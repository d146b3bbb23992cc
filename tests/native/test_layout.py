"""``layout.h`` says of each thread and register what ``codegen/layouts`` says, wherever it is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.layouts.samples import LAYOUTS
from tests.native.cuda_driver import EACH, compile_cubin
from tests.nvrtc import needs_nvrtc
from tilekit.codegen.layouts import Layout

FACTS = """
// Of register i of a thread: whether it is held and no copy; for each axis the coordinate, whether it is surely held,
// and the register of the slice without the axis.
template <class L, int Axis = 0> TK_FN void axes(i64* out, int thread, int i)
{
    if constexpr (Axis < L::rank) {
        out[0] = L::template first<Axis>(thread) + L::template further<Axis>(i);
        out[1] = L::template surely<Axis>(i);
        out[2] = L::kept(Axis, i);
        axes<L, Axis + 1>(out + 3, thread, i);
    }
}
template <class L> TK_FN void facts(i64* out, int thread, int i)
{
    out[0] = L::is_held(thread, i);
    out[1] = L::is_first(thread);
    axes<L>(out + 2, thread, i);
}
"""


def source() -> str:
    code = ['#include "layout.h"\nusing namespace tk;\n', EACH, FACTS]
    for number, layout in enumerate(LAYOUTS.values()):
        facts = 2 + 3 * layout.rank
        copies = str(not all(map(layout.core.is_first, range(layout.threads)))).lower()
        code.append(f"""typedef {layout.cpp} L{number};
static_assert(L{number}::threads == {layout.threads} && L{number}::registers == {layout.registers}, "counts");
static_assert(L{number}::has_copies == {copies}, "copies");
TK_API void facts_{number}(i64* out, i64 n) {{
    EACH facts<L{number}>(out + i * {facts}, (int)i / L{number}::registers, (int)i % L{number}::registers);
}}
""")
    return "".join(code)


def facts(layout: Layout) -> Any:
    first = [layout.core.is_first(thread) for thread in range(layout.threads)]
    kept = [[layout.kept(axis, i) for axis in range(layout.rank)] for i in range(layout.registers)]
    surely = [[layout.surely(axis, i) for axis in range(layout.rank)] for i in range(layout.registers)]
    further = [layout.further(i) for i in range(layout.registers)]
    for thread in range(layout.threads):
        begin = layout.core.first(thread)
        for i in range(layout.registers):
            at = [a + b for a, b in zip(begin, further[i], strict=True)]
            held = all(x < extent for x, extent in zip(at, layout.shape, strict=True))
            axes = zip(at, surely[i], kept[i], strict=True)
            yield [held, first[thread], *(fact for axis in axes for fact in axis)]


def test_it_agrees_with_python(device_compiler: str, build: Any, call: Any) -> None:
    library = build(source(), device_compiler, "-O0")
    for number, (name, layout) in enumerate(LAYOUTS.items()):
        want = np.array(list(facts(layout)), np.int64)
        found = np.zeros_like(want)
        call(library[f"facts_{number}"], found, len(want))
        np.testing.assert_array_equal(found, want, err_msg=name)


def proved() -> str:
    """What NVRTC must find to hold while it compiles: no device is needed."""
    code = []
    for number, layout in enumerate(LAYOUTS.values()):
        for i in {0, layout.registers // 2, layout.registers - 1}:
            for axis, at in enumerate(layout.further(i)):
                said = {
                    f"further<{axis}>({i})": at,
                    f"surely<{axis}>({i})": int(layout.surely(axis, i)),
                    f"kept({axis}, {i})": layout.kept(axis, i),
                }
                every = " && ".join(f"L{number}::{call} == {value}" for call, value in said.items())
                code.append(f'static_assert({every}, "{number}");\n')
    return "".join(code)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["75", "90a"])
def test_it_agrees_where_nvrtc_compiles_it(arch: str) -> None:
    assert compile_cubin(source() + proved(), arch).startswith(b"\x7fELF")
