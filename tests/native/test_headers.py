"""What the headers promise as text: freestanding, small, alone includable, and linking against nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HEADERS = Path(__file__).parents[2] / "tilekit" / "native"

NAMES = sorted(p.name for p in HEADERS.glob("*.h"))
# Compilers may call these for any copy or fill; every C library and every CUDA device has them.
ALLOWED = {"memcpy", "memset", "memmove"}
DRIVER = """#include "math.h"
#include "atom_approx.h"
#include "atom_cvt.h"
#include "atom_div.h"
#include "atomic.h"
#include "gemm.h"
#include "mailbox.h"
#include "reduce.h"
#include "registers.h"
#include "tile_atomic.h"
namespace tk {
TK_API void run(const Array<f32, 2>* a, f32* s, f64* d, i64 n, u16* h, u64* e) {
    i64 at[2] = {n, n};
    load<f32, 8, 40>(Team(), s, *a, {at[0], at[1]});
    const auto x = operand<40, 1>(s), y = operand<40, 1>(s + 400);
    gemm<8, 40, 8, f32>(Team(), x, x, x, y, 1.5f, 0.5f);
    store<f32, 8, 40>(Team(), s, *a, {at[0], at[1]});
    for (i64 i = 0; i < n; ++i) {
        s[i] = sin(exp(s[i])) + mod(s[i], floor(s[i])) + pow(s[i], tanh(s[i])) + fma(s[i], s[i], sqrt(s[i]));
        d[i] = tan(log(d[i])) + mod(d[i], rint(d[i])) + erf(d[i]) + fma(d[i], d[i], sqrt(d[i]));
        h[i] = cast<f16>(d[i]).bits + cast<bf16>(f16{h[i]}).bits + cast<bf16>(e[i]).bits;
        d[i] += atom::div<atom::F64, atom::F64, atom::F64, atom::RP, 0>(d[i], d[n]);
        e[i] += atom::cvt<atom::U64, atom::F64, atom::RMI, 0>(d[i]);
        atomic_add(d, d[i]);
    }
    tile_atomic_add<f32, 8, 40>(Team(), s, {40, 1}, *a, {at[0], at[1]});
    s[0] = reduce_all<f32, f32, Sum, 8, 40>(Team(), s, {40, 1}, Sum(), s + 400);
}
}
"""


@pytest.mark.parametrize("name", NAMES)
def test_text(name: str) -> None:
    text = (HEADERS / name).read_text()
    assert len(text.splitlines()) <= 400
    assert not re.search(r"#\s*include\s*<", text), "includes a system header"
    code = re.sub(r"//.*", "", text)
    assert not re.search(r"\blong\b(?! long)(?<!long long)", code.replace("long long", "")), "long differs by platform"
    # CUDA's tensor cores, asynchronous copies, named barriers, conversions, multiply-adds, wide loads, stores and
    # additions; an empty one in loops, for g++; ARM's control of floating point; approximations; an address whose
    # origin NVRTC 13.0 must not see.
    allowed = {
        "approx.h": 3,
        "base.h": 3,
        "breath.h": 2,
        "half.h": 3,
        "launch.h": 3,
        "pack.h": 4,
        "ptx.h": 23,
        "scalar.h": 2,
    }
    assert code.count("asm") == allowed.get(name, 0), "inline assembly"


def test_each_header_compiles_alone(compilers: dict[str, list[str]], build: Any) -> None:
    compiler = next(iter(compilers))
    for name in NAMES:
        build(f'#include "{name}"\n', compiler, "-O0")


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm")
@pytest.mark.parametrize(
    "flags", [("-O0", "-march=native"), ("-O3", "-march=native"), ("-O2", "-march=x86-64")], ids=str
)
def test_links_against_nothing(
    flags: tuple[str, ...], compiler: str, compilers: dict[str, list[str]], tmp_path: Path
) -> None:
    source, output = tmp_path / "all.cpp", tmp_path / "all.so"
    source.write_text(DRIVER)
    if compiler == "zig":
        flags = tuple(f.replace("x86-64", "x86_64") for f in flags)
    command = [*compilers[compiler], *flags, "-nostdlib", f"-I{HEADERS}", str(source), "-o", str(output)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    symbols = subprocess.run(["nm", "-D", "-u", str(output)], check=True, capture_output=True, text=True).stdout
    assert {line.split()[-1].split("@")[0] for line in symbols.splitlines()} <= ALLOWED
